"""A table's file, its format, and where each of its rows stands in the user's own file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.model.text_format import PLAIN, TextFormat
from pipeline.records.columns import Distinct
from pipeline.records.record_files import column_names, open_records

CHUNK_ROWS = 500_000
_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Origin:
    """The user's file, of which the table was made.

    Attributes:
        label: what messages call it: its path, and its sheet.
        rows: the number there of each row of the table, from 1; None where they follow each other from `first` on.
        first: the number there of the first row.
        unit: "row", or "line" of a text file.
    """

    label: str
    rows: NDArray[np.int64] | None = None
    first: int = 2
    unit: str = "row"

    def __len__(self) -> int:
        """The number of rows whose places are known one by one."""
        return 0 if self.rows is None else len(self.rows)

    def numbers(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers in the user's file of rows of the table, which are numbered from 0."""
        return rows + self.first if self.rows is None else self.rows[rows]

    def only(self, kept: NDArray[np.int64]) -> Origin:
        """The origin of a table of some of the rows."""
        return Origin(self.label, self.numbers(kept), self.first, self.unit)


@dataclass(frozen=True)
class TableFile:
    """A CSV or Parquet file.

    Attributes:
        path: the file that is read.
        text: how it is written.
        origin: the user's file, where the table was made of another one.
        kept: columns that were read before, as `Coded` has them, so that a long file is not read for each question.
    """

    path: Path
    text: TextFormat = PLAIN
    origin: Origin | None = field(default=None, compare=False)
    kept: dict[str, tuple[NDArray[np.int32], list[str]]] = field(default_factory=dict, compare=False, repr=False)

    def __str__(self) -> str:
        return str(self.path) if self.origin is None else self.origin.label

    def place(self, rows: Sequence[int]) -> str:
        """Where some rows, numbered from 0, stand in the user's file: "rows 5, 9, ..."."""
        origin = self.origin or Origin(str(self.path), unit="row" if self.path.suffix == ".parquet" else "line")
        if self.origin is None and origin.unit == "row":
            origin = Origin(origin.label, first=1)
        shown = [f"{n:,}" for n in origin.numbers(np.array(rows[:_SHOWN], dtype=np.int64)).tolist()]
        more = ", ..." if len(rows) > _SHOWN else ""
        return f"{origin.unit}{'s' if len(rows) > 1 else ''} {', '.join(shown)}{more}"

    def names(self, label: str = "the file of the records") -> tuple[str, ...]:
        """The columns, in the file's order."""
        return column_names(self.path, label=label, text=self.text)

    def chunks(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The columns, chunk by chunk.

        Raises:
            RecordsError: the file cannot be read, or a column is missing or occurs twice.
        """
        yield from open_records(self.path, names, CHUNK_ROWS, text=self.text).chunks()

    def texts(self, names: Sequence[str]) -> Iterator[dict[str, list[str]]]:
        """The columns as text, "" where a value is missing, chunk by chunk."""
        for chunk in self.chunks(names):
            columns = {}
            for name in names:
                distinct = Distinct.of(chunk.column(name))
                columns[name] = np.array([*distinct.texts, ""], dtype=object)[distinct.index].tolist()
            yield columns

    def distinct_rows(self, names: Sequence[str]) -> pd.DataFrame:
        """The distinct combinations of the columns, as text."""
        rows = pd.DataFrame(columns=list(names), dtype=object)
        for chunk in self.texts(names):
            rows = pd.concat([rows, pd.DataFrame(chunk, dtype=object).drop_duplicates()]).drop_duplicates()
        return rows

    def rows_with(self, name: str, texts: Sequence[str]) -> list[int]:
        """The rows, from 0, in which a column has one of the texts."""
        found: list[int] = []
        first = 0
        for chunk in self.chunks([name]):
            distinct = Distinct.of(chunk.column(name))
            wanted = np.array([text in texts for text in distinct.texts] + ["" in texts], dtype=bool)
            found += (first + np.flatnonzero(wanted[distinct.index])).tolist()
            first += chunk.num_rows
        return found
