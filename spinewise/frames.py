"""Tables of the user's, in memory or in files, as the sources that Spinewise reads.

A pandas frame is taken column by column when it is read. Everything else hands its columns over by the Arrow PyCapsule
interface (`__arrow_c_stream__`), so that neither polars nor duckdb has to be imported. Nothing is written to a file.
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


def as_source(given: object, what: str, name: str | None = None) -> Source:
    """A table or a path, as a source of rows.

    Args:
        what: what messages call it, such as "records".
        name: what the public spec calls it; by default the same.

    Raises:
        InputError: it is neither, or there is no such file.
    """
    if isinstance(given, MemoryTable):
        return given
    if isinstance(given, str | Path):
        path = Path(given).expanduser()
        if not path.exists():
            raise InputError(f"{what}: {path}: no such file; allowed is {ALLOWED}")
        return path.resolve()
    kind = f"a {type(given).__module__.partition('.')[0]} {type(given).__name__}"
    label = f"{what} ({kind}, rows counted from 1)"
    if _is_pandas(given):
        return _of_pandas(given, name or what, label)
    if hasattr(given, "__arrow_c_stream__"):
        try:
            table = pa.table(given)
        except (pa.ArrowException, TypeError, ValueError):
            table = None
        if isinstance(table, pa.Table):
            return MemoryTable(name or what, label, tuple(table.schema.names), table.select)
    hint = "call .collect() first; " if hasattr(given, "collect") else ""
    raise InputError(f"{what}: found {kind}; {hint}allowed is {ALLOWED}")


def folder_of(given: object) -> Path | None:
    """The folder that is given, with files of the names that the spec has; None if it is something else."""
    if not isinstance(given, str | Path):
        return None
    path = Path(given).expanduser()
    return path if path.is_dir() else None


def records_of(given: object) -> dict[str, Source]:
    """Records by universe: a table or file is the release's own; a dict has some for companions too; a folder none.

    Raises:
        InputError: a value is neither a table nor a path.
    """
    if given is None or folder_of(given) is not None:
        return {}
    if not isinstance(given, Mapping):
        return {"": as_source(given, "records")}
    wrong = [name for name, value in given.items() if not isinstance(name, str) or isinstance(value, Mapping | list)]
    if wrong:
        raise InputError(
            f'records: found {wrong[0]!r} in a dict; its keys are "" for the release\'s own records and the names of '
            f"companions, and each value is {ALLOWED}"
        )
    return {name: as_source(value, f"records of {name}" if name else "records") for name, value in given.items()}


def _is_pandas(given: object) -> bool:
    return type(given).__module__.partition(".")[0] == "pandas" and hasattr(given, "columns") and hasattr(given, "iloc")


def _of_pandas(frame: Any, name: str, label: str) -> MemoryTable:
    columns = tuple(map(str, frame.columns))

    def read(names: Sequence[str]) -> pa.Table:
        part = frame.iloc[:, [columns.index(column) for column in names]].set_axis(list(names), axis=1)
        try:
            return pa.Table.from_pandas(part, preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass
        # Raised out here and said anew: the library's message shows a value.
        raise RecordsError(_unreadable(part, label))

    return MemoryTable(name, label, columns, read)


def _unreadable(part: pd.DataFrame, label: str) -> str:
    """Which column is not of one type."""
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
