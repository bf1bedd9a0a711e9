"""The microdata of joined universes: persons with the number of their household, and households with their members.

As all microdata (`pipeline.release.microdata`), with one more column of persons, the number of their household, null
for persons outside of households; and two more of households, `household`, the number of the row from 1, and `members`,
the number of persons who have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from features.joins.join import HOUSEHOLD, MEMBERS
from pipeline.model.schema import Schema
from pipeline.release.histograms import LabelColumns, geounit_batches, label_fields
from pipeline.storage.files import ParquetSink, RowGroups, parquet_sink, rows_per_group


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
    """

    records: JoinedRecords
    column: str
    assigned: Iterable[tuple[int, NDArray[np.int64]]]


def write_joined_microdata(
    persons: JoinedRecords,
    households: Sequence[AssignedHouseholds],
    staging: Path,
    level: str,
    geocodes: NDArray[np.str_],
) -> int:
    """Write one row for each person and one for each household; memory is that of some leaves beside the counts.

    Args:
        persons: of the release's own universe.
        households: of each companion that is joined.
        staging: the folder for the files while they are written.
        level: name of the leaf level.
        geocodes: of all leaves, `(n_leaves,)`.

    Returns:
        The number of persons.

    Raises:
        ReleaseError: a file cannot be written.
        InputError: an attribute has the name of one of the columns.
        ValueError: the leaves of `assigned` do not fit the counts.
    """
    columns = tuple(each.column for each in households)
    with ExitStack() as stack:
        homes = [
            stack.enter_context(_joined_sink(each.records, (HOUSEHOLD, MEMBERS), staging, level, geocodes))
            for each in households
        ]
        people = stack.enter_context(_joined_sink(persons, columns, staging, level, geocodes, nullable=True))
        first = 0
        for parts in zip(*(each.assigned for each in households), strict=True):
            stop = first + parts[0][0]
            leaves, cells = rows_of_leaves(persons, first, stop)
            numbers = []
            for each, sink, (n_leaves, assigned) in zip(households, homes, parts, strict=True):
                if first + n_leaves != stop or len(assigned) != len(leaves):
                    raise ValueError(f"leaves {first} to {stop - 1}: {len(leaves)} persons, {len(assigned)} assigned")
                home_leaves, home_cells = rows_of_leaves(each.records, first, stop)
                number = np.where(assigned < 0, -1, np.searchsorted(home_leaves, leaves) + assigned)
                members = np.bincount(number[number >= 0], minlength=len(home_leaves))
                numbers.append(np.where(number < 0, 0, number + sink.written + 1))
                sink.add(home_leaves, home_cells, sink.written + 1 + np.arange(len(home_leaves)), members)
            people.add(leaves, cells, *numbers)
            first = stop
        if first != len(geocodes):
            raise ValueError(f"persons of {first} leaves are assigned; there are {len(geocodes)}")
        for sink in (*homes, people):
            sink.finish()
    return people.written


def rows_of_leaves(records: JoinedRecords, first: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.integer]]:
    """Leaf and cell of each record of the leaves from `first` to before `stop`, `(n,)`, as the file has them."""
    leaves, cells = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for start, batch in geounit_batches(records.counts[first:stop], stop - first, records.schema):
        rows = np.repeat(np.arange(batch.shape[0]), np.diff(batch.indptr))
        leaves.append(np.repeat(rows, batch.data) + (first + start))
        cells.append(np.repeat(batch.indices, batch.data))
    return np.concatenate(leaves), np.concatenate(cells)


class _JoinedSink:
    """A file of microdata with columns of numbers behind the labels; if they are `nullable`, 0 is written as null."""

    def __init__(self, sink: ParquetSink, labels: LabelColumns, columns: int, *, nullable: bool) -> None:
        self._sink = sink
        self._labels = labels
        self._groups = RowGroups(rows_per_group(columns))
        self._nullable = nullable
        self.written = 0

    def add(self, leaves: NDArray[np.int64], cells: NDArray[np.integer], *numbers: NDArray[np.int64]) -> None:
        """Write rows; `numbers` are one array a column."""
        self.written += len(leaves)
        for group in self._groups.add(leaves, cells, *numbers):
            self._write(*group)

    def finish(self) -> None:
        """Write the rows that wait for their group to fill."""
        for group in self._groups.rest():
            self._write(*group)

    def _write(self, leaves: NDArray[np.int64], cells: NDArray[np.integer], *numbers: NDArray[np.int64]) -> None:
        arrays = [pa.array(column, mask=column == 0 if self._nullable else None) for column in numbers]
        self._sink.write(*self._labels.arrays(leaves, cells), *arrays)


@contextmanager
def _joined_sink(
    records: JoinedRecords,
    numbers: tuple[str, ...],
    staging: Path,
    level: str,
    geocodes: NDArray[np.str_],
    *,
    nullable: bool = False,
) -> Iterator[_JoinedSink]:
    fields = label_fields(records.schema, ("geocode", *numbers))
    fields += [pa.field(name, pa.int64(), nullable=nullable) for name in numbers]
    header = {"kind": "microdata", "level": level, "schema": records.schema.fingerprint()}
    with parquet_sink(records.target, staging, pa.schema(fields), header) as sink:
        yield _JoinedSink(sink, LabelColumns(geocodes, records.schema), len(fields), nullable=nullable)
