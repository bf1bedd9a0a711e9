"""Files of measurements and choices with their headers, and what a Parquet file hides."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from auditor.reading.findings import FormError, understood
from auditor.reading.guard import GuardedFile
from auditor.reading.values import IntArray, Stated, zeros

_HEADER = b"spinewise"


def read_whole(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    """A file, and the program's header in its metadata; FormError where there is none."""
    try:
        with GuardedFile(path, own_groups=False) as file:
            table = file.read()
        header = json.loads((table.schema.metadata or {})[_HEADER])
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise FormError(f"{path}: cannot be read ({str(error).splitlines()[0] if str(error) else error!r})") from None
    return table, header


def header_of_answers(level: str, query: str, size: int, mechanism: str) -> dict[str, Any]:
    """Of a file of all answers of a query, but for scales and variances."""
    return {"kind": "measurement", "level": level, "query": query, "size": size, "mechanism": mechanism}


def header_problems(
    path: Path, required: Stated, exact: Mapping[str, float], kinds: IntArray | None = None
) -> Iterator[str]:
    """What is wrong with the header and the variances of published numbers.

    Args:
        path: of their file.
        required: of the header, but for scales and variances.
        exact: scale -> variance, first that of the level.
        kinds: `(n_rows,)` which of these each row has; None where all have the first.

    Raises:
        FormError: the file cannot be read, or its header not understood.
    """
    table, header = read_whole(path)
    with understood(f"{path}: its header"):
        variances = table.column("variance").to_numpy().astype(np.float64)
        stated = header.pop("variance", None)
        own = [[header.get("scale"), stated], *header.pop("others", ())]
        required = {**required, "scale": next(iter(exact))}
        if wrong := sorted(k for k in header.keys() | required.keys() if header.get(k) != required.get(k)):
            yield f"its header states {', '.join(wrong)} as the spec does not"
        if {scale for scale, _ in own} != exact.keys():
            yield f"states the scales {[scale for scale, _ in own]}"
        for scale, variance in own:
            if not np.isclose(float(variance), exact.get(scale, np.nan), rtol=1e-10, atol=0):
                yield f"its header states the variance {variance} for the scale {scale}"
        kinds, right = zeros(len(variances)) if kinds is None else kinds, np.array(list(exact.values()))
        if len(kinds) != len(variances) or not np.allclose(variances, right[kinds], rtol=1e-10, atol=0):
            yield "its geounits do not have the variance of its noise"
        elif len(exact) == 1 and set(variances.tolist()) - {stated}:
            yield "its rows and its header have different variances"


def read_columns(path: Path, names: tuple[str, ...]) -> tuple[list[IntArray], dict[str, Any]]:
    """Columns of whole numbers, `(n_rows,)` each, and the header; FormError where the file has other columns."""
    table, header = read_whole(path)
    if tuple(table.column_names) != names:
        raise FormError(f"{path}: found the columns {', '.join(table.column_names)}; needed are {', '.join(names)}")
    with understood(f"{path}: its whole numbers"):
        return [table.column(name).to_numpy().astype(np.int64, casting="safe") for name in names], header


def read_measured(path: Path) -> tuple[list[str], IntArray]:
    """Geocodes and answers `(n, size)` of a file of measurements or invariants; FormError where it holds others."""
    table, header = read_whole(path)
    with understood(f"{path}: the answers that its header states"):
        values = np.asarray(table.column("value").combine_chunks().flatten()).astype(np.int64)
        return table.column("geocode").to_pylist(), values.reshape(table.num_rows, int(header["size"]))


def hidden_bytes(path: Path) -> str:
    """What a Parquet file holds beside its rows and its header: "" if writing both anew gives the same bytes.

    Columns, rows and header are read, and written again with the settings of docs/release_directory.md: a value in
    another key of the metadata, in `created_by`, in a statistic, or between the pages does not survive that. Where the
    file is of another version of pyarrow, only the metadata's keys are compared.
    """
    try:
        with pq.ParquetFile(path.absolute()) as file:
            keys = set(file.metadata.metadata or {})
            schema, made_by = file.schema_arrow, file.metadata.created_by
            groups = [file.read_row_group(number, use_threads=False) for number in range(file.num_row_groups)]
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        return f"cannot be read ({error})"
    if strange := sorted(key.decode(errors="replace") for key in keys - {_HEADER, b"ARROW:schema"}):
        return f"has metadata that no release has: {', '.join(map(ascii, strange))}"
    if set(schema.metadata or {}) != {_HEADER} or any(set(f.metadata or {}) - {b"PARQUET:field_id"} for f in schema):
        return "has metadata that no release has"
    try:
        header = json.loads(schema.metadata[_HEADER])
    except ValueError:
        return "has a header that is not JSON"
    if not made_by.startswith("parquet-cpp-arrow version "):
        return f"says that it was made by {made_by!r:.60}"
    if made_by != f"parquet-cpp-arrow version {pa.__version__}":
        version = made_by.removeprefix("parquet-cpp-arrow version ")
        return "" if all(p.isdigit() for p in version.split(".")) else f"says that it was made by {made_by!r:.60}"
    text = json.dumps(header, sort_keys=True, indent=2, ensure_ascii=False).encode() + b"\n"
    plain = pa.schema([field.remove_metadata() for field in schema]).with_metadata({_HEADER: text})
    sink = io.BytesIO()
    with pq.ParquetWriter(
        sink, plain, version="2.6", data_page_version="1.0", compression="zstd", compression_level=3,
        use_dictionary=True, dictionary_pagesize_limit=64 << 20, write_statistics=True, write_page_checksum=True,
        store_schema=True,
    ) as writer:  # fmt: skip
        for group in groups:
            joined = group.combine_chunks().cast(plain) if group.schema != plain else group.combine_chunks()
            writer.write_table(joined, row_group_size=max(1, joined.num_rows))
    same = sink.getvalue() == path.read_bytes()
    return "" if same else "holds bytes that are neither its rows nor its header"
