"""What is published of persons and households together: average sizes, microdata of both, tables by households."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from features.joins.files import HOUSEHOLD_SIZES, sizes_file
from features.joins.household_table import HouseholdTable
from features.joins.link import Households, SizeSource
from features.joins.mathematics.assignment import assigned_spans
from features.joins.mathematics.flow import AssignmentError
from features.joins.microdata import AssignedHouseholds, JoinedRecords, rows_of_leaves, write_joined_microdata
from features.joins.sizes import HouseholdSizes, write_household_sizes
from geography.spine import Level
from pipeline.execution.job import Job
from pipeline.execution.steps import Step
from pipeline.model.universe import Table
from pipeline.publishing.files import product_files
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.tables import ReleasedTable, read_table_parts, rows_at_once, write_table
from postprocess.errors import SolverError
from postprocess.statistics import Counted, average_sizes

# -- average household sizes ------------------------------------------------------------------------------------------


def size_steps(job: Job, link: Households, number: int) -> list[Step]:
    """Average household sizes of a level."""
    level = job.spine.levels[number]
    if (source := link.average_size(level.name)) is None:
        return []
    publish = partial(publish_household_sizes, job, source, number)
    files = product_files(job, HOUSEHOLD_SIZES, universe=link.by, level=level.name)
    return [Step("household sizes", publish, link.by, level.name, len(level), 0.2, files=files)]


def publish_household_sizes(job: Job, source: SizeSource, level: int) -> None:
    """Write the average household sizes of a level.

    Args:
        job: the run; the tables are published.
        source: the tables' numbers.
        level: index of the level, 0 at the top.

    Raises:
        ReleaseError: a table is missing or damaged, or the file cannot be written.
    """
    geounits, residents = job.spine.levels[level], source.residents
    persons = _counted(job, "", source.persons, geounits.name, len(geounits))
    households = _counted(job, residents.companion, source.households, geounits.name, len(geounits))
    sizes = HouseholdSizes(
        companion=residents.companion,
        level=geounits.name,
        geocodes=geounits.geocodes,
        persons=persons.counts,
        households=households.counts,
        averages=average_sizes(persons, households, residents.least, residents.most),
    )
    write_household_sizes(sizes_file(job.run, residents.companion, geounits.name), job.run.staging, sizes)
    job.progress.advance(len(geounits))


def _counted(job: Job, universe: str, number: tuple[Table, int], level: str, rows: int) -> Counted:
    """One number of a published table for all geounits of a level; memory is that of a part of the table beside it."""
    table, answer = number
    parts = [
        Counted.of_whole(
            part.counts[:, answer],
            None if part.lows is None else part.lows[:, answer],
            None if part.highs is None else part.highs[:, answer],
        )
        for part in read_table_parts(job.readable(job.run.universe(universe).table(table.name, level)), rows)
    ]
    return Counted.joined(parts)


# -- records, and tables of persons by their households ---------------------------------------------------------------


def publish_joined_records(job: Job, links: Sequence[Households], counts: sp.csr_array) -> None:
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
        homes = read_histogram(job.readable(folder.histogram(leaves.name)), leaves.geocodes, schema)
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
    write_table(table.file(run.public, geounits.name), run.staging, parts)
