"""A table's file and its format, so that readers need not know the format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.model.text_format import PLAIN, TextFormat
from pipeline.records.columns import Distinct
from pipeline.records.record_files import column_names, open_records

CHUNK_ROWS = 500_000


@dataclass(frozen=True)
class TableFile:
    """A CSV or Parquet file."""

    path: Path
    text: TextFormat = PLAIN

    def __str__(self) -> str:
        return str(self.path)

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
