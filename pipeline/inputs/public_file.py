"""A public table that a spec names, opened as files of records are."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from geography.spine import text_column
from pipeline.errors import InputError, RecordsError
from pipeline.model.memory_table import Source
from pipeline.model.text_format import PLAIN, TextFormat
from pipeline.records.record_files import RecordsFile, open_records

_CHUNK_ROWS = 1_000_000


def open_public(path: Source, columns: Sequence[str], label: str, text: TextFormat = PLAIN) -> RecordsFile:
    """The public file, or table in memory: messages about it may show its content."""
    try:
        return open_records(path, columns, _CHUNK_ROWS, label=label, text=text)
    except RecordsError as error:
        raise InputError(str(error)) from None


def text_columns(path: Source, names: Sequence[str], label: str, text: TextFormat = PLAIN) -> list[pa.Array]:
    """Columns of a public file, or of a table in memory, as text without nulls.

    Raises:
        InputError: it cannot be read; SpineError: a column holds neither text nor whole numbers.
    """
    file = open_public(path, names, label, text)
    parts: dict[str, list[pa.Array]] = {name: [] for name in file.columns}
    try:
        for chunk in file.chunks():
            for name in file.columns:
                parts[name].append(text_column(chunk.column(name), name))
    except RecordsError as error:
        raise InputError(str(error)) from None
    return [pa.concat_arrays(parts[name]) if parts[name] else pa.array([], pa.string()) for name in names]
