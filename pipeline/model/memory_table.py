"""A table that the caller holds in memory, in the place of a file that a spec names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa


@dataclass(frozen=True, eq=False)
class MemoryTable:
    """Columns in memory, read where a CSV or Parquet file of the same columns would be; never written to a file.

    Attributes:
        name: what the public spec calls it, like a file's name.
        label: what messages call it.
        columns: the names of its columns.
        read: some of its columns, by name, as an Arrow table; None until the caller supplies the table. It is not
            shown, since the columns may be confidential.
    """

    name: str
    label: str
    columns: tuple[str, ...] = ()
    read: Callable[[Sequence[str]], pa.Table] | None = field(default=None, repr=False)

    @property
    def given(self) -> bool:
        """Whether the table has been supplied, or only its place is known."""
        return self.read is not None

    def place(self) -> MemoryTable:
        """Where the table is, without the table."""
        return replace(self, read=None)

    def __str__(self) -> str:
        return self.label

    def __reduce__(self) -> str | tuple[object, ...]:
        if not self.given:
            return MemoryTable, (self.name, self.label, self.columns)
        raise TypeError(f"{self.label}: a table in memory stays in its process; it may be confidential")


#: Where rows with columns come from.
Source = Path | MemoryTable


def records_place(universe: str) -> MemoryTable:
    """The place of a universe's confidential records ("" for the release's own), which the caller has yet to supply."""
    name = f"records of {universe}" if universe else "records"
    return MemoryTable(name, name)


def areas_place() -> MemoryTable:
    """The place of the public list of areas, which the caller has yet to supply."""
    return MemoryTable("areas", "areas")
