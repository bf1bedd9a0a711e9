"""The stated columns of a table in memory: each as its distinct texts and a code for each row."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.imports.tables.files import Opened
from geography.spine import first_few
from pipeline.errors import InputError
from pipeline.records.columns import Distinct
from pipeline.records.record_files import column_names, open_records
from postprocess.arrays import BoolArray, IntArray

_CHUNK_ROWS = 500_000


@dataclass(frozen=True, eq=False)
class Coded:
    """A column.

    Attributes:
        codes: `(n_rows,)` int32, the place of each row's text among `texts`.
        texts: distinct, in the order in which they are met; "" where a value is missing.
    """

    codes: NDArray[np.int32]
    texts: list[str]

    def translated(self, to: Callable[[str], str]) -> Coded:
        """The column with other texts, those that become the same made one."""
        place: dict[str, int] = {}
        new = np.array([place.setdefault(to(text), len(place)) for text in self.texts], dtype=np.int32)
        return Coded(new[self.codes], list(place))

    def holds(self, condition: Callable[[str], bool]) -> BoolArray:
        """`(n_rows,)`, whether the text of each row meets a condition."""
        return np.array([condition(text) for text in self.texts], dtype=np.bool_)[self.codes]

    def at(self, rows: IntArray) -> Coded:
        """The column of some rows."""
        return Coded(self.codes[rows], self.texts)

    def present(self) -> Coded:
        """The column with the texts that a row has, in their order."""
        used = np.bincount(self.codes, minlength=len(self.texts)) > 0
        place = (np.cumsum(used) - 1).astype(np.int32)
        return Coded(place[self.codes], [text for text, here in zip(self.texts, used, strict=True) if here])

    def arrow(self) -> pa.DictionaryArray:
        """Text, null where it is missing."""
        null = np.array([text == "" for text in self.texts], dtype=bool)
        indices = pa.array(self.codes, mask=null[self.codes]) if null.any() else pa.array(self.codes)
        return pa.DictionaryArray.from_arrays(indices, pa.array(self.texts, pa.string()))


@dataclass(frozen=True, eq=False)
class RecordTable:
    """Columns of a table.

    Attributes:
        opened: the file.
        columns: those that were read.
        rows: `(n_rows,)` int64, the number in the file of each row, from 0.
        names: of all columns of the file.
    """

    opened: Opened
    columns: dict[str, Coded]
    rows: IntArray
    names: tuple[str, ...]

    def __str__(self) -> str:
        return self.opened.label

    def __len__(self) -> int:
        return len(self.rows)

    def place(self, row: int) -> str:
        """Where a row stands in the user's file: "counts.csv, line 5"."""
        number = int(self.rows[row]) + 1
        found = open_records(self.opened.path, self.names[:1], _CHUNK_ROWS, text=self.opened.text).find_lines
        lines = found([number]) if found is not None else {}
        return f"{self}, {self.opened.unit} {lines.get(number, number):,}"

    def both(self, row: int, other: int) -> str:
        """Where two rows stand: "counts.csv, line 5 and line 7"."""
        first, second = sorted((int(row), int(other)))
        return f"{self.place(first)} and {self.place(second)[len(str(self)) + 2 :]}"

    def found(self, column: str, texts: Sequence[str], values: Coded | None = None) -> str:
        """Where the first of some texts stands, and what they are: "counts.csv, line 5, column 'age': found '5-May'".

        Args:
            column: of the table.
            texts: of the column, or of `values`, which were made of it.
            values: `(n_rows,)`.
        """
        one = values or self.columns[column]
        row = int(np.argmax(one.codes == one.texts.index(texts[0])))
        shown = first_few([text or "nothing" for text in texts]) if any(texts) else "nothing"
        return f"{self.place(row)}, column {column!r}: found {shown}"

    def only(self, kept: BoolArray) -> RecordTable:
        """Some of the rows."""
        if kept.all():
            return self
        columns = {name: Coded(one.codes[kept], one.texts).present() for name, one in self.columns.items()}
        return RecordTable(self.opened, columns, self.rows[kept], self.names)


def normal(text: str) -> str:
    """Stripped, in NFC."""
    return unicodedata.normalize("NFC", text).strip()


def column_names_of(opened: Opened) -> tuple[str, ...]:
    """The names of the columns of a file."""
    with opened.named():
        return column_names(opened.path, text=opened.text)


def read_table(opened: Opened, columns: Iterable[str], option: str = "the statement") -> RecordTable:
    """The columns of a file, their texts stripped and in NFC.

    Raises:
        InputError: a column is not there.
        RecordsError: the file cannot be read.
    """
    names = column_names_of(opened)
    wanted = tuple(dict.fromkeys(columns))
    for name in wanted:
        if name not in names:
            raise InputError(
                f"{opened.label}: no column {name!r}, which {option} names; the columns are {', '.join(names[:30])}"
            )
    if not wanted:
        wanted = names[:1]
    places: dict[str, dict[str, int]] = {name: {} for name in wanted}
    codes: dict[str, list[NDArray[np.int32]]] = {name: [] for name in wanted}
    with opened.named():
        for chunk in open_records(opened.path, wanted, _CHUNK_ROWS, text=opened.text).chunks():
            for name in wanted:
                distinct, place = Distinct.of(chunk.column(name)), places[name]
                own = [place.setdefault(normal(text), len(place)) for text in (*distinct.texts, "")]
                codes[name].append(np.array(own, dtype=np.int32)[distinct.index])
    read = {name: Coded(np.concatenate(codes.pop(name)), list(places[name])).present() for name in wanted}
    return RecordTable(opened, read, np.arange(len(read[wanted[0]].codes)), names)


def keys_of(columns: Sequence[Coded]) -> IntArray:
    """`(n_rows,)`, a number for each combination of the columns' values."""
    keys = columns[0].codes.astype(np.int64)
    size = len(columns[0].texts)
    for column in columns[1:]:
        if size * len(column.texts) >= 1 << 62:
            keys = np.unique(keys, return_inverse=True)[1].astype(np.int64)
            size = int(keys.max()) + 1
        keys = keys * len(column.texts) + column.codes
        size *= len(column.texts)
    return keys
