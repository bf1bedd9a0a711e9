"""What is published of the released histograms: tables and microdata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import scipy.sparse as sp

from geography.spine import Level
from pipeline.estimation.constraints import IntervalRule
from pipeline.execution.job import Job
from pipeline.model.universe import Table, Universe
from pipeline.release.microdata import write_microdata
from pipeline.release.tables import ReleasedTable, long_terms, rows_at_once, write_table


class MarginSource(Protocol):
    """Margins of error of a table's numbers."""

    @property
    def replicates(self) -> int:
        """Simulated runs; 0 where there are no margins."""

    def rule(self, table: Table, level: int) -> IntervalRule | None:
        """Those of one of `Universe.tabulated` at a level; None where there are no margins."""


def publish_tables(job: Job, universe: Universe, level: int, counts: sp.csr_array, margins: MarginSource) -> None:
    """Write every table of one level, with margins of error if there are any.

    Args:
        job: the run.
        universe: whose tables are written.
        level: index of the level, 0 at the top.
        counts: the released histogram of the level, `(n, n_cells)`.
        margins: of error.
    """
    geounits = job.spine.levels[level]
    for table in universe.tables:
        if geounits.name in table.levels:
            target = job.folder(universe).table(table.name, geounits.name)
            write_table(target, job.run.staging, _parts(table, level, geounits, counts, margins))
    job.progress.advance(len(geounits))


def _parts(
    table: Table, level: int, geounits: Level, counts: sp.csr_array, margins: MarginSource
) -> Iterator[ReleasedTable]:
    """The table of one level, some geounits at a time."""
    labels, terms = table.query.answer_labels(), long_terms(table.name, table.query)
    step = rows_at_once(labels, with_margins=bool(margins.replicates), terms=terms)
    rule = margins.rule(table, level)
    for start in range(0, len(geounits), step):
        rows = slice(start, min(start + step, len(geounits)))
        answers = table.query.answer_csr(counts[rows])
        lows, highs = (None, None) if rule is None else rule(answers, rows)
        yield ReleasedTable(
            name=table.name,
            level=geounits.name,
            query=table.query.name,
            geocodes=geounits.geocodes[rows],
            labels=labels,
            counts=answers,
            lows=lows,
            highs=highs,
            terms=terms,
        )


def publish_microdata(job: Job, universe: Universe, counts: sp.csr_array) -> None:
    """Write one row for each person of the released leaves.

    Args:
        job: the run.
        universe: whose microdata are written.
        counts: the released histogram of the leaves, `(n, n_cells)`.
    """
    leaves = job.spine.leaf_level
    target = job.folder(universe).microdata
    write_microdata(target, job.run.staging, leaves.name, leaves.geocodes, universe.schema, counts)
    job.progress.advance(len(leaves))
