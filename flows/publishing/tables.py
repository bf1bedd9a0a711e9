"""What is published of the released histograms: tables and microdata."""

from __future__ import annotations

from collections.abc import Iterator

import scipy.sparse as sp

from flows.estimation.margins import Margins
from flows.estimation.whole_spine import Estimation
from geography.spine import Level
from pipeline.model.universe import Table
from pipeline.release.microdata import write_microdata
from pipeline.release.tables import ReleasedTable, rows_at_once, write_table


def publish_tables(estimation: Estimation, level: int, margins: Margins) -> None:
    """Write every table of one level, with margins of error where there are any."""
    job, universe = estimation.job, estimation.universe
    found = job.spine.levels[level]
    counts = estimation.released(level)
    for table in universe.tables:
        if found.name in table.levels:
            target = job.folder(universe).table(table.name, found.name)
            write_table(target, job.run.staging, _parts(table, level, found, counts, margins))
    job.progress.advance(len(found))


def _parts(table: Table, level: int, found: Level, counts: sp.csr_array, margins: Margins) -> Iterator[ReleasedTable]:
    """The table of one level, some geounits at a time."""
    labels = table.query.answer_labels()
    step = rows_at_once(labels, with_margins=bool(margins.replicates))
    for start in range(0, len(found), step):
        rows = slice(start, min(start + step, len(found)))
        answers = table.query.answer_csr(counts[rows])
        yield ReleasedTable(
            name=table.name,
            level=found.name,
            query=table.query.name,
            geocodes=found.geocodes[rows],
            labels=labels,
            counts=answers,
            margins=margins.of(table, level, answers, rows),
        )


def publish_microdata(estimation: Estimation) -> None:
    """Write one row a person of the released leaves."""
    job, universe = estimation.job, estimation.universe
    leaves = job.spine.leaf_level
    counts = estimation.released(job.spine.n_levels - 1)
    target = job.folder(universe).microdata
    write_microdata(target, job.run.staging, leaves.name, leaves.geocodes, universe.schema, counts)
    job.progress.advance(len(leaves))
