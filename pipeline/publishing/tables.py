"""What is published of the released histograms: tables, microdata, and persons by what their households are."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.spine import Level
from pipeline.execution.job import Job
from pipeline.model.household_table import HouseholdTable
from pipeline.model.links.households import Households
from pipeline.model.universe import Table, Universe
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.microdata import (
    AssignedHouseholds,
    JoinedRecords,
    rows_of_leaves,
    write_joined_microdata,
    write_microdata,
)
from pipeline.release.tables import ReleasedTable, long_terms, rows_at_once, write_table
from postprocess.errors import SolverError
from postprocess.joins.assignment import assigned_spans
from postprocess.joins.flow import AssignmentError


class MarginSource(Protocol):
    """Margins of error of a table's numbers."""

    @property
    def replicates(self) -> int:
        """Simulated runs; 0 where there are no margins."""

    def of(
        self, table: Table, level: int, answers: NDArray[np.int64], rows: slice
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """The ends `(n, size)` of the intervals of the answers of some geounits of a level."""


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
    for start in range(0, len(geounits), step):
        rows = slice(start, min(start + step, len(geounits)))
        answers = table.query.answer_csr(counts[rows])
        lows, highs = margins.of(table, level, answers, rows) or (None, None)
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


def publish_joined_microdata(job: Job, links: Sequence[Households], counts: sp.csr_array) -> None:
    """Write what follows from who lives in which household.

    That is the microdata of persons and of the companions that they are joined with, if they are published, and the
    tables of persons by their households.

    Args:
        job: the run.
        links: of the persons with their households, one or more.
        counts: the released histogram of the leaves of the persons, `(n, n_cells)`; those of companions are written.

    Raises:
        ReleaseError: a released histogram is not there, or a file cannot be written.
        SolverError: the persons of a leaf cannot be assigned to its households; the message names it.
    """
    leaves, universe = job.spine.leaf_level, links[0].persons
    persons = JoinedRecords(job.folder(universe).microdata, universe.schema, counts)
    households, tallies = [], []
    for link in links:
        folder, schema = job.folder(link.households), link.households.schema
        homes = read_histogram(folder.histogram(leaves.name), leaves.geocodes, schema)
        assigned = assigned_spans(link.joins, counts, homes, job.spec.postprocess.seed)
        records = JoinedRecords(folder.microdata, schema, homes)
        tallies.append(HouseholdTally(link.tables, persons, records))
        households.append(AssignedHouseholds(records, link.column, tallies[-1].counting(assigned)))
    try:
        if job.spec.publish.microdata:
            write_joined_microdata(persons, households, job.run.staging, leaves.name, leaves.geocodes)
        else:
            for each in households:
                deque(each.assigned, maxlen=0)
    except AssignmentError as error:
        place = f"{leaves.name} {leaves.geocodes[error.leaf]}"
        raise SolverError(f"{place}: its persons cannot be assigned to its households: {error.why}") from error
    for tally in tallies:
        write_household_tables(job, tally)
    job.progress.advance(len(leaves))


class HouseholdTally:
    """The leaves' counts of the tables with one companion.

    Args:
        tables: with the companion.
        persons, households: released records of the leaves.
    """

    def __init__(self, tables: Sequence[HouseholdTable], persons: JoinedRecords, households: JoinedRecords) -> None:
        self._tables = tables
        self._persons = persons
        self._households = households
        self._parts: list[list[sp.csr_array]] = [[] for _ in tables]

    def counting(self, assigned: Iterator[tuple[int, NDArray[np.int64]]]) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """The same spans of leaves as they come, each counted on its way; see `AssignedHouseholds.assigned`."""
        first = 0
        for n_leaves, numbers in assigned:
            if self._tables:
                self._add(first, first + n_leaves, numbers)
            yield n_leaves, numbers
            first += n_leaves

    def _add(self, first: int, stop: int, numbers: NDArray[np.int64]) -> None:
        leaves, cells = rows_of_leaves(self._persons, first, stop)
        home_leaves, home_cells = rows_of_leaves(self._households, first, stop)
        inside = numbers >= 0
        leaves, cells = leaves[inside], cells[inside]
        homes = home_cells[np.searchsorted(home_leaves, leaves) + numbers[inside]]
        for table, parts in zip(self._tables, self._parts, strict=True):
            answers = table.persons.cell_answer[cells] * table.households.size + table.households.cell_answer[homes]
            ones = np.ones(len(answers), dtype=np.int64)
            shape = (stop - first, table.size)
            parts.append(sp.coo_array((ones, (leaves - first, answers)), shape=shape).tocsr())

    def counts(self) -> Iterator[tuple[HouseholdTable, sp.csr_array]]:
        """Each table with its counts in the leaves, `(n_leaves, size)`, once all spans have come."""
        for table, parts in zip(self._tables, self._parts, strict=True):
            yield table, sp.csr_array(sp.vstack(parts, format="csr"))


def write_household_tables(job: Job, tally: HouseholdTally) -> None:
    """Write the tables of a tally at all their levels; counts of a geounit are the sums over its leaves.

    Raises:
        ReleaseError: a file cannot be written.
    """
    n_leaves = job.spine.n_leaves
    for table, leaves in tally.counts():
        for level in table.levels:
            number = job.spine.index_of(level)
            geounits = job.spine.levels[number]
            above = (np.ones(n_leaves, dtype=np.int64), (job.spine.leaf_ancestors(number), np.arange(n_leaves)))
            summed = sp.csr_array(sp.csr_array(above, shape=(len(geounits), n_leaves)) @ leaves)
            _write(job.run, table, geounits, summed)


def _write(run: RunDirectory, table: HouseholdTable, geounits: Level, counts: sp.csr_array) -> None:
    step = rows_at_once(table.labels, with_margins=False)
    parts = (
        ReleasedTable(
            name=table.name,
            level=geounits.name,
            query=table.query,
            geocodes=geounits.geocodes[first : first + step],
            labels=table.labels,
            counts=counts[first : first + step].toarray().astype(np.int64),
        )
        for first in range(0, len(geounits), step)
    )
    write_table(run.household_table(table.name, geounits.name), run.staging, parts)
