"""Reads the columns that are needed of a table in memory, chunk by chunk, like those of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pipeline.errors import RecordsError
from pipeline.model.memory_table import MemoryTable


def open_memory_table(source: MemoryTable, columns: tuple[str, ...], chunk_rows: int) -> tuple[pa.RecordBatch, ...]:
    """The needed columns, in chunks of at most `chunk_rows` rows.

    The columns must be there (the caller checks it). Text in views, as polars has it, is made plain text.

    Raises:
        RecordsError: there are no rows, or a column holds other values than text and numbers.
    """
    if source.read is None:
        raise RecordsError(f"{source}: not given; a table or a file is needed")
    table = source.read(columns)
    for name in columns:
        if pa.types.is_nested(kind := table.schema.field(name).type):
            raise RecordsError(f"{source}, column {name!r}: found values of type {kind}; allowed are text and numbers")
    if table.num_rows == 0:
        raise RecordsError(f"{source}: the table has no rows; at least one is needed")
    return tuple(_plain(batch) for batch in _batches(table, chunk_rows))


def _batches(table: pa.Table, chunk_rows: int) -> Iterator[pa.RecordBatch]:
    yield from (batch for batch in table.to_batches(max_chunksize=chunk_rows) if batch.num_rows)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same chunk without views of text, which not every function of Arrow takes."""
    return pa.RecordBatch.from_arrays([_without_views(column) for column in batch.columns], batch.schema.names)


def _without_views(column: pa.Array) -> pa.Array:
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    if pa.types.is_dictionary(column.type) and pa.types.is_string_view(column.type.value_type):
        return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.large_string()))
    return column
