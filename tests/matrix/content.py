"""What is in the public files of a release: a line a column or field, without what differs between machines.

Numbers and texts of tables, measurements and answers are its numbers, whatever the form of the file; headers and the
manifest say how they are kept, and are its form.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

#: Fields of JSON files that differ between machines, packages and runs; hashes of files, which follow from the rest.
MACHINE: Final = frozenset(
    {
        "software",
        "files",
        "manifest_sha256",
        "solver",
        "receipts",
        "hash",
        "bytes",
        "sha256",
        "replaces",
        "question_sha256",
    }
)
#: Significant digits of a real number that are compared.
DIGITS: Final = 9


def content_of(public: Path) -> dict[str, str]:
    """What each column, header and field of the files below a public/ folder holds, by a name for it.

    The report is not in it: a text in it may change, and its numbers are those of the tables.
    """
    found: dict[str, str] = {}
    for path in sorted(public.rglob("*")):
        name = path.relative_to(public).as_posix()
        if path.suffix == ".parquet":
            found |= {f"{name}: {part}": text for part, text in _table(path)}
        elif path.suffix == ".json":
            found |= {f"{name}: {part}": text for part, text in _fields(json.loads(path.read_text("utf-8")))}
        elif path.suffix == ".csv":
            found |= {f"{name}: {part}": text for part, text in _rows(path)}
    return found


def is_form(name: str) -> bool:
    """Whether a line of what files hold says how they are kept: of a header, or of a file that describes others."""
    file, _, part = name.rpartition(": ")
    return part.startswith("header ") or file.endswith(("manifest.json", "datapackage.json"))


def streams_of(lines: Iterable[str]) -> dict[str, str]:
    """The keys of the streams that were drawn from, by level, query and the fingerprints that they are bound to."""
    found: dict[str, str] = {}
    for line in lines:
        level, query, fingerprints, key = json.loads(line)
        found[f"stream {level}, {query}, {' '.join(one[:16] for one in fingerprints)}"] = key[:16]
    return dict(sorted(found.items()))


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """A sentence for each thing that is other than it was."""
    told = [
        f"{name}: was {before[name]}, is {after[name]}"
        for name in before
        if after.get(name, before[name]) != before[name]
    ]
    told += [f"{name}: is gone" for name in before if name not in after]
    return told + [f"{name}: is new" for name in after if name not in before]


def _table(path: Path) -> Iterator[tuple[str, str]]:
    table = pq.read_table(path)
    header = (table.schema.metadata or {}).get(b"spinewise")
    if header is not None:
        yield from ((f"header {name}", text) for name, text in _fields(json.loads(header)))
    yield "rows", str(table.num_rows)
    for name in table.column_names:
        yield f"column {name}", _column(table.column(name).combine_chunks())


def _column(values: pa.Array) -> str:
    """Of the numbers, whatever their type in the file."""
    if pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type):
        lengths = hashlib.sha256(json.dumps(values.value_lengths().to_pylist()).encode()).hexdigest()[:8]
        return f"lists {lengths} of {_column(values.flatten())}"
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    listed = values.to_pylist()
    if pa.types.is_floating(values.type):
        listed = [None if value is None else _rounded(value) for value in listed]
    digest = hashlib.sha256(json.dumps(listed, default=str).encode()).hexdigest()[:16]
    if pa.types.is_integer(values.type):
        return f"sum {sum(value for value in listed if value is not None)}, {digest}"
    return digest


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    yield "rows", str(len(rows))
    for number, name in enumerate(header):
        yield f"column {name}", hashlib.sha256(json.dumps([row[number] for row in rows]).encode()).hexdigest()[:16]


def _fields(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and len(place.split(".")) < 3:
        for name, inner in value.items():
            if name not in MACHINE:
                yield from _fields(inner, f"{place}.{name}".lstrip("."))
        return
    text = json.dumps(_without_machine(value), sort_keys=True, ensure_ascii=False)
    yield (
        place,
        text if len(text) <= 100 else f"{len(text)} characters, {hashlib.sha256(text.encode()).hexdigest()[:16]}",
    )


def _without_machine(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_machine(inner) for name, inner in value.items() if name not in MACHINE}
    if isinstance(value, list):
        return [_without_machine(inner) for inner in value]
    return _rounded(value) if isinstance(value, float) else value


def _rounded(value: float) -> str:
    return np.format_float_scientific(value, precision=DIGITS - 1, unique=False) if np.isfinite(value) else str(value)
