"""A Parquet file of the folder, written batch by batch."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.storage.local_name import local_name


class BatchWriter:
    """Writes batches to an existing file, which is written over; without one it stays as it is.

    Attributes:
        n_rows: that were written.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._writer: pq.ParquetWriter | None = None
        self.n_rows = 0

    def __enter__(self) -> BatchWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; the columns are those of the first batch."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(local_name(self._target), batch.schema, compression="zstd")
        self._writer.write_batch(batch)
        self.n_rows += batch.num_rows
