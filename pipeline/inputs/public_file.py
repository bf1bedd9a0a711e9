"""A public table that a spec names, opened as files of records are."""

from __future__ import annotations

from collections.abc import Sequence

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
