"""The user's tables, in memory or in files, as the sources that Spinewise reads.

A pandas frame is converted column by column when it is read. Everything else supplies its columns through the Arrow
PyCapsule interface (`__arrow_c_stream__`), so that neither polars nor duckdb has to be imported. Nothing is written to
a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline.errors import InputError, RecordsError
from pipeline.model.memory_table import MemoryTable, Source

if TYPE_CHECKING:
    import pandas as pd

#: What can be given as a table.
ALLOWED = (
    "a pandas or polars DataFrame, a pyarrow Table, anything else with __arrow_c_stream__, or the path of a .csv, "
    ".csv.gz or .parquet file"
)


def as_source(table_or_path: object, what: str, name: str | None = None) -> Source:
    """A table or a path, as a source of rows.

    Args:
        table_or_path: what the user supplied.
        what: its name in messages, such as "records".
        name: its name in the public spec; by default the same.

    Raises:
        InputError: it is neither, or there is no such file.
    """
    if isinstance(table_or_path, MemoryTable):
        return table_or_path
    if isinstance(table_or_path, str | Path):
        path = Path(table_or_path).expanduser()
        if not path.exists():
            raise InputError(f"{what}: {path}: no such file; allowed is {ALLOWED}")
        return path.resolve()
    kind = f"a {type(table_or_path).__module__.partition('.')[0]} {type(table_or_path).__name__}"
    label = f"{what} ({kind}, rows counted from 1)"
    if _is_pandas(table_or_path):
        return _of_pandas(table_or_path, name or what, label)
    if hasattr(table_or_path, "__arrow_c_stream__"):
        try:
            table = pa.table(table_or_path)
        except (pa.ArrowException, TypeError, ValueError):
            table = None
        if isinstance(table, pa.Table):
            return MemoryTable(name or what, label, tuple(table.schema.names), table.select)
    hint = "call .collect() first; " if hasattr(table_or_path, "collect") else ""
    raise InputError(f"{what}: found {kind}; {hint}allowed is {ALLOWED}")


def folder_of(path_or_table: object) -> Path | None:
    """The folder, if it is one, with files of the names that the spec has; None if it is something else."""
    if not isinstance(path_or_table, str | Path):
        return None
    path = Path(path_or_table).expanduser()
    return path if path.is_dir() else None


def records_of(records: object) -> dict[str, Source]:
    """Records by universe: a table or file is the release's own, a dict may have companions' too, a folder gives {}.

    Raises:
        InputError: a value is neither a table nor a path.
    """
    if records is None or folder_of(records) is not None:
        return {}
    if not isinstance(records, Mapping):
        return {"": as_source(records, "records")}
    wrong = [name for name, value in records.items() if not isinstance(name, str) or isinstance(value, Mapping | list)]
    if wrong:
        raise InputError(
            f'records: found {wrong[0]!r} in a dict; its keys are "" for the release\'s own records and the names of '
            f"companions, and each value is {ALLOWED}"
        )
    return {name: as_source(value, f"records of {name}" if name else "records") for name, value in records.items()}


def _is_pandas(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "columns") and hasattr(value, "iloc")


def _of_pandas(frame: Any, name: str, label: str) -> MemoryTable:
    columns = tuple(map(str, frame.columns))

    def read(names: Sequence[str]) -> pa.Table:
        part = frame.iloc[:, [columns.index(column) for column in names]].set_axis(list(names), axis=1)
        try:
            return pa.Table.from_pandas(part, preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass
        # Raised outside the handler and with a text of its own, since the library's message shows a value.
        raise RecordsError(_unreadable(part, label))

    return MemoryTable(name, label, columns, read)


def _unreadable(part: pd.DataFrame, label: str) -> str:
    """A message that names the column whose values are not of one type."""
    for number, name in enumerate(part.columns):
        try:
            pa.Table.from_pandas(part.iloc[:, [number]], preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            kinds = sorted({type(value).__name__ for value in part.iloc[:, number].dropna()})
            return (
                f"{label}, column {name!r}: found values of the types {', '.join(kinds)}; write all of them as text, "
                f"such as frame[{name!r}].astype(str), or all as numbers"
            )
    return f"{label}: cannot be read as a table"
