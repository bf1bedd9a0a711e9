"""Sums and means of amounts, from the published tables of sums and of counts and their intervals."""

from __future__ import annotations

from pipeline.execution.job import Job
from pipeline.model.beside import counted_in
from pipeline.model.universe import Table, Universe
from pipeline.release.joined.means import means_of, write_means
from pipeline.release.tables import read_table


def publish_means(job: Job, universe: Universe, level: int) -> None:
    """Write sums and means of a level; the tables of the companion and of the release itself are written.

    Raises:
        ReleaseError: a table is missing or damaged, or the file cannot be written.
    """
    geounits = job.spine.levels[level]
    for table in universe.tables:
        if geounits.name in table.levels:
            _publish(job, universe, table, geounits.name, len(geounits))
    job.progress.advance(len(geounits))


def _publish(job: Job, universe: Universe, table: Table, level: str, rows: int) -> None:
    (amount,), own = universe.measure.amounts, job.universes[0]
    beside = counted_in(table, universe, own, level)
    sums = read_table(job.folder(universe).table(table.name, level), rows)
    counts = None if beside is None else read_table(job.folder(own).table(beside.name, level), rows)
    means = means_of(universe.name, amount, sums, counts)
    write_means(job.run.means(universe.name, table.name, level), job.run.staging, means)
