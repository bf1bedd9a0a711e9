"""A column that the records do not have is said openly, and before anything is counted: its name is in the spec.

Only the process that counts looks for it: the footer of a Parquet file holds least and greatest values, and the first
block of a CSV file its first records. What a file has instead is shown of a table and of a Parquet file; the first line
of a CSV file that lacks its header is a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from pipeline.errors import InputError, RecordsError
from pipeline.model.memory_table import MemoryTable
from pipeline.model.universe import Universe
from pipeline.records.cells import needed_columns
from pipeline.records.problems import list_allowed, quote
from pipeline.records.record_files import column_names, is_text_file

#: Forms of records with a column for each attribute.
_FORMS = ("microdata", "long")


def refuse_missing_columns(universes: Sequence[Universe]) -> None:
    """Look at the names of the columns alone; what cannot be read is told by whoever reads it.

    Raises:
        InputError: a file of records has not the columns that it needs.
    """
    for universe in universes:
        records = universe.require_input()
        if records.form not in _FORMS or not universe.source.has_truth:
            continue
        with suppress(RecordsError):
            present = column_names(records.file, text=records.text_format)
            missing = [name for name in needed_columns(records, universe.schema) if name not in present]
            if missing:
                named = ", ".join(map(quote, missing))
                raise InputError(f"{records.file}: no column {named}; {_instead(records.file, present)}")


def _instead(source: object, present: Sequence[str]) -> str:
    if isinstance(source, MemoryTable):
        return f"the table's columns are {list_allowed(present)}"
    if is_text_file(source):  # type: ignore[arg-type]
        return "the first line of the file names its columns; [input] says which of them is which"
    return f"the file's columns are {list_allowed(present)}"
