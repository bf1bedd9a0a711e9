"""Persons by what their households are: counted while each released person is given a household, leaf by leaf."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.spine import Level
from pipeline.execution.job import Job
from pipeline.model.household_table import HouseholdTable
from pipeline.release.layout import RunDirectory
from pipeline.release.microdata import JoinedRecords, rows_of_leaves
from pipeline.release.tables import ReleasedTable, rows_at_once, write_table


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
