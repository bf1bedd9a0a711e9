"""The file of noisy answers that were drawn only where the released parent is positive: one row a geounit.

Columns: geocode (string), answer (list of int32, the numbers of the answers that were drawn, ascending, in the order of
`Query.answer_labels` from 0), value (list of int64, the noisy answers), variance (float64, of the noise on each).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import ReleaseError
from pipeline.release.measurements import MeasurementHeader, header_in
from pipeline.storage.files import (
    VALUES_PER_ROW_GROUP,
    ParquetSink,
    open_parquet,
    parquet_sink,
    read_header,
    read_row_groups,
    reading,
    strings,
    texts,
)
from pipeline.storage.paths import Readable
from postprocess.arrays import IntArray

#: The kind in the header of such a file.
KIND = "positive"

_SCHEMA = pa.schema(
    [
        pa.field("geocode", pa.string(), nullable=False),
        pa.field("answer", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False),
        pa.field("value", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False),
        pa.field("variance", pa.float64(), nullable=False),
    ]
)


@dataclass(frozen=True, eq=False)
class PositiveRows:
    """Noisy answers of successive geounits of a level.

    Attributes:
        geocodes: `(n,)` of str.
        starts: `(n + 1,)` the first of each geounit's answers, and their number.
        answers: `(m,)` their numbers.
        values: `(m,)` int64.
    """

    geocodes: NDArray[np.str_]
    starts: IntArray
    answers: IntArray
    values: IntArray

    def __len__(self) -> int:
        return len(self.geocodes)

    def rows(self, start: int, stop: int) -> PositiveRows:
        """The geounits at positions [start, stop)."""
        first, last = self.starts[start], self.starts[stop]
        return PositiveRows(
            self.geocodes[start:stop],
            self.starts[start : stop + 1] - first,
            self.answers[first:last],
            self.values[first:last],
        )


def joined_rows(parts: list[PositiveRows]) -> PositiveRows:
    """Those of several parts, in their order."""
    counts = np.concatenate([np.zeros(0, dtype=np.int64), *(np.diff(part.starts) for part in parts)])
    return PositiveRows(
        np.concatenate([np.zeros(0, dtype=np.str_), *(part.geocodes for part in parts)]),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.concatenate([np.zeros(0, dtype=np.int64), *(part.answers for part in parts)]),
        np.concatenate([np.zeros(0, dtype=np.int64), *(part.values for part in parts)]),
    )


class PositiveWriter:
    """Takes geounits in batches of any size; `PositiveWriter.open` gives one.

    A row group ends with the geounit with which it has at least so many answers, whatever the batches.
    """

    def __init__(self, sink: ParquetSink, header: MeasurementHeader) -> None:
        self._sink = sink
        self._header = header
        self._waiting: list[PositiveRows] = []
        self._n_waiting = 0

    @classmethod
    @contextmanager
    def open(cls, target: Path, staging: Path, header: MeasurementHeader) -> Iterator[PositiveWriter]:
        """The writer of a file that appears at `target` when the block ends without an error.

        Raises:
            ReleaseError: the file cannot be written.
        """
        content = header.to_json() | {"kind": KIND}
        with parquet_sink(target, staging, _SCHEMA, content) as sink:
            writer = cls(sink, header)
            yield writer
            if writer._waiting:
                writer._write(joined_rows(writer._waiting))

    def write(self, rows: PositiveRows) -> None:
        """Append geounits; the arrays are not retained beyond the next ones."""
        start = 0
        while start < len(rows):
            needed = VALUES_PER_ROW_GROUP - self._n_waiting
            stop = int(np.searchsorted(rows.starts, rows.starts[start] + needed, side="left"))
            full, stop = stop <= len(rows), min(max(stop, start + 1), len(rows))
            part = rows.rows(start, stop)
            self._waiting.append(part)
            self._n_waiting += len(part.values)
            if full:
                self._write(joined_rows(self._waiting))
                self._waiting, self._n_waiting = [], 0
            start = stop

    def _write(self, rows: PositiveRows) -> None:
        offsets = pa.array(rows.starts.astype(np.int32))
        answers = pa.ListArray.from_arrays(
            offsets, pa.array(rows.answers.astype(np.int32)), type=_SCHEMA.field("answer").type
        )
        values = pa.ListArray.from_arrays(offsets, pa.array(rows.values), type=_SCHEMA.field("value").type)
        variances = pa.array(np.full(len(rows), self._header.variance))
        self._sink.write(strings(rows.geocodes), answers, values, variances)


class PositiveFile:
    """An open file of such answers; see `open_positive`."""

    def __init__(self, file: Any, path: Path) -> None:
        self._file = file
        self._path = path
        self.header = header_in(read_header(file, path), path, KIND)
        with reading(path):
            columns = file.schema_arrow
        if not columns.equals(_SCHEMA):
            raise ReleaseError(f"{path} has the columns {columns.names}, such a file has {_SCHEMA.names}")

    def parts(self) -> Iterator[PositiveRows]:
        """All geounits, a row group at a time."""
        with reading(self._path):
            for table in read_row_groups(self._file, self._path):
                yield self._rows(table)

    def _rows(self, table: pa.Table) -> PositiveRows:
        answers, values = (table.column(name).combine_chunks() for name in ("answer", "value"))
        starts = np.asarray(answers.offsets, dtype=np.int64)
        numbers = answers.values.to_numpy().astype(np.int64)
        ascending = np.diff(numbers) > 0
        ascending[starts[1:-1][(starts[1:-1] > 0) & (starts[1:-1] < len(numbers))] - 1] = True
        right = (
            np.array_equal(starts, np.asarray(values.offsets))
            and starts[0] == 0
            and starts[-1] == len(numbers) == len(values.values)
            and bool(ascending.all())
            and (not len(numbers) or (int(numbers.min()) >= 0 and int(numbers.max()) < self.header.size))
            and bool((table.column("variance").to_numpy() == self.header.variance).all())
        )
        if not right:
            raise ReleaseError(
                f"{self._path} is damaged: not every row has ascending answers of the {self.header.size}, a value for "
                f"each and the variance {self.header.variance} that its header states"
            )
        geocodes = texts(table.column("geocode"))
        return PositiveRows(geocodes, starts, numbers, values.values.to_numpy())


@contextmanager
def open_positive(path: Readable, rows: int, answers: int) -> Iterator[PositiveFile]:
    """The open file, of at most so many geounits with at most so many answers each.

    Raises:
        ReleaseError: it is missing, damaged, longer or of another kind.
    """
    with open_parquet(path, rows) as file:
        file.at_most(rows, answers)
        yield PositiveFile(file, path)
