"""Released tables: for one query at one level, one row for each geounit and one column for each answer.

Columns: geocode, then for each answer its count (int64) under the answer's label and, where margins of error are
published, a column "<label>:moe90" (float64) right after it. All geounits of the level have a row, empty ones too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.errors import InputError, ReleaseError
from pipeline.storage.files import (
    open_parquet,
    parquet_sink,
    read_header,
    read_row_groups,
    reading,
    rows_per_group,
    strings,
)

#: Suffix of the column with the margin of error, in persons: half the width of a 90 % interval.
MARGIN_SUFFIX = ":moe90"

#: More than elsewhere: with thousands of columns, many short row groups cost more than their content.
_VALUES_PER_ROW_GROUP = 1 << 24


@dataclass(frozen=True, eq=False)
class ReleasedTable:
    """A table of one query at one level.

    Attributes:
        name: of the table.
        level: of the geounits.
        query: tabulated.
        geocodes: `(n,)` of str.
        labels: of the answers, `size` of them.
        counts: `(n, size)` int64, persons.
        margins: `(n, size)` float64, persons, or None where none are published.
    """

    name: str
    level: str
    query: str
    geocodes: NDArray[np.str_]
    labels: tuple[str, ...]
    counts: NDArray[np.int64]
    margins: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        shape = (len(self.geocodes), len(self.labels))
        if self.counts.shape != shape or self.counts.dtype != np.int64:
            raise ValueError(f"counts must be int64 of shape {shape}, got {self.counts.dtype} of {self.counts.shape}")
        if self.margins is not None and (self.margins.shape != shape or self.margins.dtype != np.float64):
            raise ValueError(
                f"margins must be float64 of shape {shape}, got {self.margins.dtype} of {self.margins.shape}"
            )
        check_labels(self.name, self.labels)


def check_labels(table: str, labels: Sequence[str]) -> None:
    """Refuse labels that cannot be columns side by side.

    Raises:
        InputError: a label is "geocode", ends like a margin's column, or occurs twice.
    """
    for label, times in Counter(labels).items():
        if label == "geocode" or label.endswith(MARGIN_SUFFIX) or times > 1:
            raise InputError(
                f"tables.{table}: {label!r} cannot be the label of {'two answers' if times > 1 else 'an answer'}: "
                "labels become columns and must differ from each other and from 'geocode', and not end in "
                f"{MARGIN_SUFFIX!r}"
            )


def _columns(labels: Sequence[str], with_margins: bool) -> pa.Schema:
    fields = [pa.field("geocode", pa.string(), nullable=False)]
    for label in labels:
        fields.append(pa.field(label, pa.int64(), nullable=False))
        if with_margins:
            fields.append(pa.field(label + MARGIN_SUFFIX, pa.float64(), nullable=False))
    return pa.schema(fields)


def rows_at_once(labels: Sequence[str], *, with_margins: bool) -> int:
    """Geounits in one row group of a table."""
    return rows_per_group(len(_columns(labels, with_margins)), _VALUES_PER_ROW_GROUP)


def write_table(target: Path, staging: Path, parts: Iterable[ReleasedTable]) -> None:
    """Write a table from its parts: successive geounits, `rows_at_once` of them in each but the last.

    Raises:
        ReleaseError: it cannot be written.
        ValueError: there is no part, or a part has the wrong size.
    """
    rest = iter(parts)
    first = next(rest, None)
    if first is None:
        raise ValueError("a table needs at least one part")
    columns = _columns(first.labels, first.margins is not None)
    header = {
        "kind": "table",
        "name": first.name,
        "level": first.level,
        "query": first.query,
        "margins": first.margins is not None,
    }
    rows = rows_at_once(first.labels, with_margins=first.margins is not None)
    last = rows
    with parquet_sink(target, staging, columns, header) as sink:
        for part in chain([first], rest):
            if last != rows or len(part.geocodes) > rows:
                raise ValueError(f"a part of a table must have {rows} geounits, unless it is the last")
            last = len(part.geocodes)
            arrays = [strings(part.geocodes)]
            counts = np.ascontiguousarray(part.counts.T)
            margins = None if part.margins is None else np.ascontiguousarray(part.margins.T)
            for index in range(len(part.labels)):
                arrays.append(pa.array(counts[index]))
                if margins is not None:
                    arrays.append(pa.array(margins[index]))
            sink.write(*arrays)


def read_table(path: Path, rows: int | None = None) -> ReleasedTable:
    """The table written by `write_table`, of at most `rows` geounits.

    Raises:
        ReleaseError: it is missing, damaged, longer or of another kind.
    """
    parts = list(read_table_parts(path, rows))
    first = parts[0]
    geocodes = np.concatenate([part.geocodes for part in parts])
    if len(unique := np.unique(geocodes)) < len(geocodes):
        twice = next(str(code) for code in unique if (geocodes == code).sum() > 1)
        raise ReleaseError(f"{path} is damaged: it has several rows for the geocode {twice!r}")
    if len(parts) == 1:
        return first
    return replace(
        first,
        geocodes=geocodes,
        counts=np.concatenate([part.counts for part in parts]),
        margins=None if first.margins is None else np.concatenate([part.margins for part in parts]),
    )


def read_table_parts(path: Path, rows: int | None = None) -> Iterator[ReleasedTable]:
    """The same, some rows at a time, at least one part; for tables that do not fit into memory."""
    with open_parquet(path, rows) as file, reading(path):
        facts = _facts(file, path)
        labels, with_margins = facts.labels, facts.margins is not None
        step = 2 if with_margins else 1
        parts = read_row_groups(file, path) if file.metadata.num_row_groups else iter([file.read()])
        for part in parts:
            counts = np.empty((part.num_rows, len(labels)), dtype=np.int64)
            margins = np.empty(counts.shape) if with_margins else None
            for index in range(len(labels)):
                counts[:, index] = part.column(1 + step * index).to_numpy()
                if margins is not None:
                    margins[:, index] = part.column(2 + step * index).to_numpy()
            geocodes = np.asarray(part.column(0).to_numpy(), dtype=np.str_)
            yield replace(facts, geocodes=geocodes, counts=counts, margins=margins)


def read_table_facts(path: Path) -> ReleasedTable:
    """The table without its rows: what it is, and its columns; ReleaseError as `read_table`."""
    with open_parquet(path) as file, reading(path):
        return _facts(file, path)


def _facts(file: pq.ParquetFile, path: Path) -> ReleasedTable:
    header = read_header(file, path)
    if header.get("kind") != "table" or header.keys() != {"kind", "name", "level", "query", "margins"}:
        raise ReleaseError(f"{path} is not a table of a release")
    with_margins = bool(header["margins"])
    labels = tuple(file.schema_arrow.names[1 :: 2 if with_margins else 1])
    if not file.schema_arrow.equals(_columns(labels, with_margins)):
        raise ReleaseError(f"{path} is damaged: its columns are not geocode and then a count for each answer")
    return ReleasedTable(
        name=str(header["name"]),
        level=str(header["level"]),
        query=str(header["query"]),
        geocodes=np.empty(0, dtype=np.str_),
        labels=labels,
        counts=np.empty((0, len(labels)), dtype=np.int64),
        margins=np.empty((0, len(labels))) if with_margins else None,
    )
