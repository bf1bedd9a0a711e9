"""Sums and means of amounts, from the published tables of sums and of counts and their intervals."""

from __future__ import annotations

from pipeline.execution.job import Job
from pipeline.model.links.sums_of_counts import SumsOfCounts
from pipeline.model.universe import Table
from pipeline.release.joined.means import means_of, write_means
from pipeline.release.tables import read_table


def publish_means(job: Job, link: SumsOfCounts, level: int) -> None:
    """Write sums and means of a level; the tables of the companion and of the release itself are written.

    Raises:
        ReleaseError: a table is missing or damaged, or the file cannot be written.
    """
    geounits = job.spine.levels[level]
    for table in link.sums.tables:
        if geounits.name in table.levels:
            _publish(job, link, table, geounits.name, len(geounits))
    job.progress.advance(len(geounits))


def _publish(job: Job, link: SumsOfCounts, table: Table, level: str, rows: int) -> None:
    counted = link.records(table, level)
    sums = read_table(job.folder(link.sums).table(table.name, level), rows)
    counts = None if counted is None else read_table(job.folder(link.counts).table(counted.name, level), rows)
    means = means_of(link.of, link.amount, sums, counts)
    write_means(job.run.means(link.of, table.name, level), job.run.staging, means)
