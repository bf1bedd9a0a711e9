"""What is published of the released histograms: tables and microdata."""

from __future__ import annotations

from flows.estimate import Estimation
from flows.margins import Margins
from pipeline.microdata import write_microdata
from pipeline.tables import ReleasedTable, write_table


def publish_tables(estimation: Estimation, level: int, margins: Margins) -> None:
    """Write every table of one level, with margins of error where there are any."""
    job, universe = estimation.job, estimation.universe
    found = job.spine.levels[level]
    counts = estimation.released(level)
    for table in universe.tables:
        if found.name in table.levels:
            answers = table.query.answer_csr(counts)
            released = ReleasedTable(
                name=table.name,
                level=found.name,
                query=table.query.name,
                geocodes=found.geocodes,
                labels=table.query.answer_labels(),
                counts=answers,
                margins=margins.of(table, level, answers),
            )
            write_table(job.folder(universe).table(table.name, found.name), job.run.staging, released)
    job.progress.advance(len(found))


def publish_microdata(estimation: Estimation) -> None:
    """Write one row a person of the released leaves."""
    job, universe = estimation.job, estimation.universe
    leaves = job.spine.leaf_level
    counts = estimation.released(job.spine.n_levels - 1)
    target = job.folder(universe).microdata
    write_microdata(target, job.run.staging, leaves.name, leaves.geocodes, universe.schema, counts)
    job.progress.advance(len(leaves))
