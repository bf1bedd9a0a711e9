"""The form of a file with rows: what its header says and which columns it has; one writer, and one strict reader.

A `Form` is a value from which files are written and read. The header's "kind" names it; a file with another header, or
with other columns, types or nulls than its form has, is refused. Rows are cut into row groups of a number that the form
alone decides, so that the bytes of a file do not depend on the batches in which its rows are computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import ReleaseError
from pipeline.storage.files import (
    VALUES_PER_ROW_GROUP,
    ParquetSink,
    open_parquet,
    parquet_sink,
    read_header,
    read_row_group,
    reading,
    rows_per_group,
    strings,
    texts,
)
from pipeline.storage.guard import GuardedFile
from pipeline.storage.paths import Readable
from postprocess.arrays import IntArray

TEXT, WHOLE, REAL = pa.string(), pa.int64(), pa.float64()
#: A text of few, held once.
LABEL: Final = pa.dictionary(pa.int32(), pa.string())
#: Columns that messages name.
_NAMED: Final = 12

#: What one column of some rows is written from: `(n,)`, `(n, k)` of lists of one length, or an array that is made.
Values: TypeAlias = NDArray[Any] | pa.Array


def list_of(kind: pa.DataType) -> pa.DataType:
    """Lists of numbers, of which none is missing."""
    return pa.list_(pa.field("element", kind, nullable=False))


@dataclass(frozen=True, eq=False)
class Form:
    """A kind of file with rows.

    Attributes:
        what: such a file in sentences, "a measurement".
        header: what its header states; "kind" is the name of the form.
        columns: name and type of each, in order.
        nullable: columns in which a value may be missing: NaN, where they are of numbers.
        numbers: of a row, by which rows are cut into groups; None: as many as columns.
        values: numbers in a row group.
    """

    what: str
    header: Mapping[str, object]
    columns: Mapping[str, pa.DataType]
    nullable: Sequence[str] = ()
    numbers: int | None = None
    values: int = VALUES_PER_ROW_GROUP

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns as Arrow has them."""
        return pa.schema([pa.field(name, kind, name in self.nullable) for name, kind in self.columns.items()])

    @property
    def rows(self) -> int:
        """Rows of a row group."""
        return rows_per_group(len(self.columns) if self.numbers is None else self.numbers, self.values)

    @contextmanager
    def writer(
        self,
        target: Path,
        staging: Path,
        made: Callable[..., Sequence[Values]] = lambda *columns: columns,
        *,
        private: bool = False,
    ) -> Iterator[FormWriter]:
        """The writer of a file that appears at `target` when the block ends without an error.

        Args:
            target: the file.
            staging: the folder for the file while it is written.
            made: the form's columns, from those of a row group that are given to `FormWriter.add`.
            private: only the owner may read the file, as in `files.staged`.

        Raises:
            ReleaseError: the file cannot be written.
        """
        with parquet_sink(target, staging, self.schema, self.header, private=private) as sink:
            writer = FormWriter(sink, self, made)
            yield writer
            writer.finish()

    def check(self, header: Mapping[str, object], schema: pa.Schema, path: Path) -> None:
        """ReleaseError where a file's header or columns are others; floats of another machine may end differently."""
        if header.get("kind") != self.header["kind"]:
            raise ReleaseError(f"{path} is not {self.what}")
        for key in dict.fromkeys([*self.header, *header]):
            found, expected = (one.get(key, "missing") for one in (header, self.header))
            if not _same(found, expected):
                raise ReleaseError(
                    f"{path} does not match the spec: its {key} is {found!s:.200}, and {expected!s:.200} is expected"
                )
        if not schema.equals(self.schema):
            raise ReleaseError(
                f"{path} is damaged: it has the columns {_listed(schema)}; {self.what} has {_listed(self.schema)}"
            )


def _same(found: object, expected: object) -> bool:
    """Whether what a header states is as expected, floats but for their last digits."""
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(_same, found, expected))
    if isinstance(found, float) and isinstance(expected, float):
        return math.isclose(found, expected)
    return found == expected


def _listed(schema: pa.Schema) -> str:
    """Columns and their types, as messages show them."""
    some = [f"{field.name} ({field.type}{', or nothing' if field.nullable else ''})" for field in schema][:_NAMED]
    return ", ".join(some) + (f" and {len(schema) - _NAMED} more" if len(schema) > _NAMED else "")


class FormWriter:
    """Takes rows in batches of any size, and cuts them into row groups; `Form.writer` gives one.

    Rows that wait for their group to fill are copied, so that the caller may reuse its arrays.

    Attributes:
        written: rows that were added.
    """

    def __init__(self, sink: ParquetSink, form: Form, made: Callable[..., Sequence[Values]]) -> None:
        self._sink = sink
        self._form = form
        self._made = made
        self._waiting: list[tuple[NDArray[Any], ...]] = []
        self._free = form.rows
        self.written = 0

    def add(self, *columns: NDArray[Any]) -> None:
        """Append rows; the arrays, of the same first dimension, are not retained."""
        n_rows, start = len(columns[0]), 0
        self.written += n_rows
        while n_rows - start >= self._free:
            stop = start + self._free
            self._waiting.append(tuple(column[start:stop] for column in columns))
            self.finish()
            start = stop
        if start < n_rows:
            self._waiting.append(tuple(column[start:].copy() for column in columns))
            self._free -= n_rows - start

    def finish(self) -> None:
        """Write the rows that wait as a row group."""
        if self._waiting:
            parts, self._waiting, self._free = self._waiting, [], self._form.rows
            one = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
            self.put(*self._made(*one))

    def put(self, *columns: Values) -> None:
        """Append a row group of the form's columns as it is."""
        fields = zip(self._form.schema, columns, strict=True)
        self._sink.write(*(_written(field, values) for field, values in fields))


def _written(field: pa.Field, values: Values) -> pa.Array:
    """A column of a row group as Arrow has it."""
    if isinstance(values, pa.Array):
        return values
    if pa.types.is_string(field.type):
        return strings(values)
    if pa.types.is_list(field.type):
        return lists(np.full(len(values), values.shape[1]), values.reshape(-1), field.type)
    return pa.array(values, field.type, mask=np.isnan(values) if field.nullable else None)


def lists(lengths: IntArray, values: NDArray[Any], kind: pa.DataType) -> pa.ListArray:
    """A column of lists of such lengths `(n,)`, whose numbers one after the other are `values`."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values, kind.value_type), type=kind)


class FormFile:
    """An open file of a form, read by row groups; `open_form` gives one.

    Attributes:
        path: of the file.
        file: as it is.
        header: what it states.
        starts: `(n_groups + 1,)` the first row of each row group, and the number of rows.
    """

    def __init__(self, path: Path, file: GuardedFile) -> None:
        self.path = path
        self.file = file
        self.header = read_header(file, path)
        rows = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        self.starts = np.cumsum([0, *rows], dtype=np.int64)

    def group(self, number: int) -> list[Any]:
        """The columns of a row group, in the order of the form; see `_read`."""
        with reading(self.path):
            return [_read(column) for column in self._table(number).columns]

    def groups(self, geocodes: NDArray[np.str_] | None = None) -> Iterator[list[Any]]:
        """The columns of each row group; of a file without any, those of no rows.

        Args:
            geocodes: of the level that the header names, if the file must have a row for each of its geounits.

        Raises:
            ReleaseError: the file is damaged, or the geocodes, its first column, are not these in this order.
        """
        first = 0
        for columns in map(self.group, range(max(1, self.file.num_row_groups))):
            if geocodes is not None:
                check_order(self.path, columns[0], geocodes, first)
            yield columns
            first += len(columns[0])
        if geocodes is not None:
            check_complete(self.path, geocodes, first)

    def whole(self) -> pa.Table:
        """The whole file."""
        with reading(self.path):
            return pa.concat_tables(map(self._table, range(max(1, self.file.num_row_groups))))

    def _table(self, number: int) -> pa.Table:
        return read_row_group(self.file, number, self.path) if self.file.num_row_groups else self.file.read()

    def damaged(self, why: str) -> ReleaseError:
        """The error that says what is wrong with the file."""
        return ReleaseError(f"{self.path} is damaged: {why}")


def _read(column: pa.ChunkedArray) -> Any:
    """A column `(n,)`: texts; numbers, NaN for missing ones; lengths and numbers of lists; labels as an array."""
    if pa.types.is_string(column.type):
        return texts(column)
    if pa.types.is_dictionary(column.type):
        return column.combine_chunks()
    if pa.types.is_list(column.type):
        joined = column.combine_chunks()
        return np.diff(np.asarray(joined.offsets)).astype(np.int64), joined.flatten().to_numpy()
    return column.to_numpy()


def check_geocodes(path: Path, found: NDArray[np.str_], geocodes: NDArray[np.str_]) -> None:
    """ReleaseError where the rows of a file are not those of a level's geounits, each once and in their order."""
    check_order(path, found, geocodes, 0)
    check_complete(path, geocodes, len(found))


def check_complete(path: Path, geocodes: NDArray[np.str_], n_rows: int) -> None:
    """ReleaseError where a file has fewer rows than a level has geounits."""
    if n_rows < len(geocodes):
        raise ReleaseError(f"{path} is damaged: it has no row for the geocode {str(geocodes[n_rows])!r}")


def check_order(path: Path, found: NDArray[np.str_], geocodes: NDArray[np.str_], first: int) -> None:
    """ReleaseError where the rows of a file from `first` on are not those of a level's geounits in their order."""
    there = geocodes[first : first + len(found)]
    wrong = np.flatnonzero(found[: len(there)] != there)
    if not wrong.size and len(there) == len(found):
        return
    row = int(wrong[0]) if wrong.size else len(there)
    if found[row] in geocodes[: first + row]:
        raise ReleaseError(f"{path} is damaged: it has several rows for the geocode {str(found[row])!r}")
    needed = (
        f"{str(there[row])!r} stands there on the spine" if wrong.size else f"the level has {len(geocodes):,} geounits"
    )
    raise ReleaseError(
        f"{path} is damaged: row {first + row + 1:,} is of the geocode {str(found[row])!r}, and {needed}; each geounit "
        "of the level has one row, in the order of the spine"
    )


@contextmanager
def open_form(path: Readable, form: Form | Callable[[FormFile], Form], rows: int | None = None) -> Iterator[FormFile]:
    """The open file of a form.

    Args:
        path: of the file.
        form: that it must have; or what makes it of the file, where the file alone says of which form it is.
        rows: that it can have at most, by the spine and the schema; None if the reader cannot know.

    Raises:
        ReleaseError: it is missing, damaged, longer, or of another form.
    """
    with open_parquet(path, rows) as file:
        with reading(path):
            opened = FormFile(path, file)
            (form if isinstance(form, Form) else form(opened)).check(opened.header, file.schema_arrow, path)
        yield opened


def label_numbers(
    column: pa.DictionaryArray, of_label: IntArray, path: Path, name: str, *, nullable: bool = False
) -> IntArray:
    """The numbers of a column's rows, `(n_rows,)`, -1 where a row has no label.

    Args:
        column: of labels.
        of_label: the number of each label of its dictionary; -1 where it is not known.
        path, name: of file and column, for messages.
        nullable: whether a row may have none.

    Raises:
        ReleaseError: a row has a label that is not known, or none.
    """
    none = len(of_label)
    indices = column.indices.fill_null(none).to_numpy(zero_copy_only=False)
    if len(indices) and not 0 <= indices.min() <= indices.max() <= none - (not nullable):
        raise ReleaseError(f"{path} is damaged: column {name} has rows without a label")
    numbers: IntArray = np.append(of_label, -1)[indices]
    without = np.flatnonzero(numbers < 0)
    if len(unknown := without[indices[without] < none]):
        raise ReleaseError(f"{path}, column {name}: {column[int(unknown[0])].as_py()!r} is not known")
    return numbers


def value_numbers(
    column: pa.DictionaryArray, values: Sequence[str], path: Path, name: str, *, nullable: bool = False
) -> IntArray:
    """The place of each row's label among `values`; see `label_numbers`."""
    number = {value: index for index, value in enumerate(values)}
    of_label = np.array([number.get(label, -1) for label in column.dictionary.to_pylist()], dtype=np.int64)
    return label_numbers(column, of_label, path, name, nullable=nullable)
