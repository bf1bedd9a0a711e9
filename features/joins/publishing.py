"""Microdata of persons in households, tables by their households, and average household sizes.

As all microdata (`pipeline.release.microdata`), with one more column of persons, the number of their household, null
for persons outside of households; and two more of households, `household`, the number of the row from 1, and `members`,
the number of persons who have it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from features.joins.files import HOUSEHOLD_SIZES, HouseholdSizes, sizes_file, write_household_sizes
from features.joins.link import HOUSEHOLD, MEMBERS, Households, HouseholdTable, SizeSource
from features.joins.mathematics.assignment import AssignmentError, assigned_spans
from pipeline.execution.job import Job
from pipeline.execution.steps import Step
from pipeline.metadata.products import files_of
from pipeline.model.schema import Schema
from pipeline.model.universe import Table
from pipeline.release.form import FormWriter, Values
from pipeline.release.histograms import LabelColumns, geounit_batches, read_histogram
from pipeline.release.microdata import microdata_form
from pipeline.release.tables import ReleasedTable, read_table_parts, rows_at_once, write_table
from postprocess.arrays import IntArray
from postprocess.errors import SolverError
from postprocess.statistics import Counted, average_sizes


@dataclass(frozen=True, eq=False)
class JoinedRecords:
    """The released records of a universe that is joined with another, to be written.

    Attributes:
        target: the file.
        schema: whose cells are the columns of `counts`.
        counts: `(n_leaves, n_cells)` int64, not negative, each cell once and in order.
    """

    target: Path
    schema: Schema
    counts: sp.csr_array


@dataclass(frozen=True, eq=False)
class AssignedHouseholds:
    """The households that persons were assigned to.

    Attributes:
        records: one of each household.
        column: the column of the persons' file with the number of their household.
        assigned: for successive leaves, how many, and the household of each of their persons, in the order of the file:
            its number among those of its leaf, from 0, or -1.
        tables: of persons by these households.
        counts: of each table, of the leaves so far: `(n_leaves, size)` of each span.
    """

    records: JoinedRecords
    column: str
    assigned: Iterable[tuple[int, IntArray]]
    tables: Sequence[HouseholdTable] = ()
    counts: dict[str, list[sp.csr_array]] = field(default_factory=lambda: defaultdict(list))


def write_joined_microdata(
    persons: JoinedRecords,
    households: Sequence[AssignedHouseholds],
    staging: Path,
    level: str,
    geocodes: NDArray[np.str_],
    *,
    published: bool = True,
) -> int:
    """Write one row for each person and one for each household, and count the tables of persons by their households.

    Memory is that of some leaves beside the counts.

    Args:
        persons: of the release's own universe.
        households: of each companion that is joined.
        staging: the folder for the files while they are written.
        level: name of the leaf level.
        geocodes: of all leaves, `(n_leaves,)`.
        published: whether the rows are written; else tables are counted alone.

    Returns:
        The number of persons.

    Raises:
        ReleaseError: a file cannot be written.
        InputError: an attribute has the name of one of the columns.
        ValueError: the leaves of `assigned` do not fit the counts.
    """
    of_each: list[tuple[JoinedRecords, tuple[str, ...], bool]]
    of_each = [(each.records, (HOUSEHOLD, MEMBERS), False) for each in households]
    of_each.append((persons, tuple(each.column for each in households), True))
    first = n_persons = 0
    with ExitStack() as stack:
        *homes, people = (
            stack.enter_context(_joined_writer(records, columns, staging, level, geocodes, nullable=nullable))
            if published
            else None
            for records, columns, nullable in of_each
        )
        for parts in zip(*(each.assigned for each in households), strict=True):
            stop = first + parts[0][0]
            leaves, cells = rows_of_leaves(persons, first, stop)
            numbers = []
            for each, sink, (n_leaves, assigned) in zip(households, homes, parts, strict=True):
                if first + n_leaves != stop or len(assigned) != len(leaves):
                    raise ValueError(f"leaves {first} to {stop - 1}: {len(leaves)} persons, {len(assigned)} assigned")
                home_leaves, home_cells = rows_of_leaves(each.records, first, stop)
                number = np.where(assigned < 0, -1, np.searchsorted(home_leaves, leaves) + assigned)
                inside = number >= 0
                for table in each.tables:
                    answers = table.persons.cell_answer[cells[inside]] * table.households.size
                    answers += table.households.cell_answer[home_cells[number[inside]]]
                    place, shape = (leaves[inside] - first, answers), (n_leaves, table.size)
                    ones = np.ones(len(answers), dtype=np.int64)
                    each.counts[table.name].append(sp.coo_array((ones, place), shape=shape).tocsr())
                if sink is not None:
                    members = np.bincount(number[inside], minlength=len(home_leaves))
                    numbers.append(np.where(inside, number + sink.written + 1, 0))
                    sink.add(home_leaves, home_cells, sink.written + 1 + np.arange(len(home_leaves)), members)
            if people is not None:
                people.add(leaves, cells, *numbers)
            n_persons += len(leaves)
            first = stop
        if first != len(geocodes):
            raise ValueError(f"persons of {first} leaves are assigned; there are {len(geocodes)}")
    return n_persons


def rows_of_leaves(records: JoinedRecords, first: int, stop: int) -> tuple[IntArray, NDArray[np.integer]]:
    """Leaf and cell of each record of the leaves from `first` to before `stop`, `(n,)`, as the file has them."""
    leaves, cells = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for start, batch in geounit_batches(records.counts[first:stop], stop - first, records.schema):
        rows = np.repeat(np.arange(batch.shape[0]), np.diff(batch.indptr))
        leaves.append(np.repeat(rows, batch.data) + (first + start))
        cells.append(np.repeat(batch.indices, batch.data))
    return np.concatenate(leaves), np.concatenate(cells)


def _joined_writer(
    records: JoinedRecords,
    numbers: tuple[str, ...],
    staging: Path,
    level: str,
    geocodes: NDArray[np.str_],
    *,
    nullable: bool = False,
) -> AbstractContextManager[FormWriter]:
    """The writer of microdata with columns of numbers behind the labels; if they are `nullable`, 0 becomes null."""
    labels = LabelColumns(geocodes, records.schema)

    def made(leaves: IntArray, cells: IntArray, *columns: IntArray) -> list[Values]:
        return [*labels.arrays(leaves, cells), *(pa.array(one, mask=one == 0 if nullable else None) for one in columns)]

    return microdata_form(records.schema, level, numbers, nullable=nullable).writer(records.target, staging, made)


# -- average household sizes ------------------------------------------------------------------------------------------


def size_steps(job: Job, link: Households, number: int) -> list[Step]:
    """Average household sizes of a level."""
    level = job.spine.levels[number]
    if (source := link.average_size(level.name)) is None:
        return []
    publish = partial(publish_household_sizes, job, source, number)
    files = files_of(job, HOUSEHOLD_SIZES, universe=link.by, level=level.name)
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
    households = []
    for link in links:
        folder, schema = job.folder(link.households), link.households.schema
        homes = read_histogram(job.readable(folder.histogram(leaves.name)), leaves.geocodes, schema)
        assigned = assigned_spans(link.joins, counts, homes, job.spec.postprocess.seed)
        records = JoinedRecords(folder.microdata, schema, homes)
        households.append(AssignedHouseholds(records, link.column, assigned, link.tables))
    written = (job.run.staging, leaves.name, leaves.geocodes)
    try:
        write_joined_microdata(persons, households, *written, published=job.spec.publish.microdata)
    except AssignmentError as error:
        place = f"{leaves.name} {leaves.geocodes[error.leaf]}"
        raise SolverError(f"{place}: its persons cannot be assigned to its households: {error.why}") from error
    for each in households:
        for table in each.tables:
            _write_table(job, table, sp.csr_array(sp.vstack(each.counts[table.name], format="csr")))
    job.progress.advance(len(leaves))


def _write_table(job: Job, table: HouseholdTable, leaves: sp.csr_array) -> None:
    """Write a table at all its levels; counts of a geounit are the sums over its leaves, `(n_leaves, size)`."""
    n_leaves, step = job.spine.n_leaves, rows_at_once(table.labels, with_margins=False)
    for level in table.levels:
        number = job.spine.index_of(level)
        geocodes = job.spine.levels[number].geocodes
        above = (np.ones(n_leaves, dtype=np.int64), (job.spine.leaf_ancestors(number), np.arange(n_leaves)))
        counts = sp.csr_array(sp.csr_array(above, shape=(len(geocodes), n_leaves)) @ leaves)
        parts = (
            ReleasedTable(
                name=table.name,
                level=level,
                query=table.query,
                geocodes=geocodes[rows],
                labels=table.labels,
                counts=counts[rows].toarray().astype(np.int64),
            )
            for rows in (slice(first, first + step) for first in range(0, len(geocodes), step))
        )
        write_table(table.file(job.run.public, level), job.run.staging, parts)
