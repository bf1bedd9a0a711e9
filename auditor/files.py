"""The files of a release, read with pyarrow alone: spine, measurements, true counts, and their headers."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from auditor.form import Query, Universe
from auditor.reading.errors import FormError

_HEADER = b"spinewise"


@dataclass(frozen=True, eq=False)
class Level:
    """The geounits of a level: their codes, and the number of each one's parent."""

    name: str
    codes: tuple[str, ...]
    parents: NDArray[np.int64]

    def numbers(self) -> dict[str, int]:
        """Code -> number."""
        return {code: number for number, code in enumerate(self.codes)}


@dataclass(frozen=True, eq=False)
class Measured:
    """A file of noisy or exact answers: geocodes, values `(n, size)`, variances `(n,)`, and its header."""

    codes: list[str]
    values: NDArray[np.int64]
    variances: NDArray[np.float64]
    header: dict[str, Any]


def _table(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    try:
        table = pq.read_table(path.absolute(), use_threads=False, partitioning=None)
        header = json.loads((table.schema.metadata or {})[_HEADER])
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise FormError(f"{path}: cannot be read ({str(error).splitlines()[0] if str(error) else error!r})") from None
    return table, header


def header_of(path: Path) -> dict[str, Any]:
    """The program's header in the metadata of a Parquet file."""
    return _table(path)[1]


def read_columns(path: Path, names: tuple[str, ...]) -> tuple[list[NDArray[np.int64]], dict[str, Any]]:
    """Columns of whole numbers, `(n_rows,)` each, and the header; FormError where the file has other columns."""
    table, header = _table(path)
    if tuple(table.column_names) != names:
        raise FormError(f"{path}: found the columns {', '.join(table.column_names)}; needed are {', '.join(names)}")
    try:
        return [table.column(name).to_numpy().astype(np.int64, casting="safe") for name in names], header
    except (TypeError, ValueError) as error:
        raise FormError(f"{path}: does not hold whole numbers ({error})") from None


def read_spine(path: Path, names: tuple[str, ...]) -> tuple[Level, ...]:
    """The levels, top first, geounits in the order in which the rows first name them; FormError if it is no tree."""
    table, _ = _table(path)
    levels: list[Level] = []
    above = np.zeros(table.num_rows, dtype=np.int64)
    for name in names:
        if name not in table.column_names:
            raise FormError(f"{path}: has no column {name!r}")
        encoded = table.column(name).combine_chunks().dictionary_encode()
        codes = tuple(encoded.dictionary.to_pylist())
        rows = encoded.indices.to_numpy().astype(np.int64)
        parents = np.full(len(codes), -1, dtype=np.int64)
        if levels:
            parents[rows] = above
            if (parents[rows] != above).any():
                raise FormError(f"{path}: a {name} has two parents")
        levels.append(Level(name, codes, parents))
        above = rows
    return tuple(levels)


def spine_fingerprint(levels: tuple[Level, ...]) -> str:
    """SHA-256 over names, codes and parents, as docs/mathematics.md states it; parents at the top are -1."""
    header = [["spine", 1], *([level.name, len(level.codes)] for level in levels)]
    digest = hashlib.sha256(json.dumps(header).encode())
    for level in levels:
        digest.update(np.array([len(code) for code in level.codes], dtype="<i8").tobytes())
        digest.update("".join(level.codes).encode())
        digest.update(level.parents.astype("<i8").tobytes())
    return digest.hexdigest()


def read_measured(path: Path) -> Measured:
    """The answers in a file of measurements, selections or invariants with answers of one length."""
    table, header = _table(path)
    try:
        values = table.column("value").combine_chunks()
        variances = table.column("variance").to_numpy().astype(np.float64)
        rows = np.asarray(values.flatten()).astype(np.int64).reshape(table.num_rows, int(header["size"]))
        return Measured(table.column("geocode").to_pylist(), rows, variances, header)
    except (KeyError, ValueError, TypeError, pa.ArrowException) as error:
        raise FormError(f"{path}: does not hold the answers that its header states ({error!r})") from None


def read_selected(path: Path) -> tuple[list[str], list[str], list[list[int]], dict[str, Any]]:
    """Geocodes, versions, answers and header of a file of private choices."""
    table, header = _table(path)
    try:
        columns = [table.column(name).to_pylist() for name in ("geocode", "version", "value")]
    except KeyError as error:
        raise FormError(f"{path}: {error}") from None
    return columns[0], columns[1], columns[2], header


@dataclass(frozen=True, eq=False)
class Counts:
    """Nonzero counts of a level: geounit, cell, persons, in that order."""

    geounits: NDArray[np.int64]
    cells: NDArray[np.int64]
    persons: NDArray[np.int64]

    def answers(self, query: Query, n_geounits: int) -> NDArray[np.int64]:
        """`(n_geounits, size)`."""
        out = np.zeros((n_geounits, query.size), dtype=np.int64)
        np.add.at(out, (self.geounits, query.answer[self.cells]), self.persons)
        return out


def read_counts(path: Path, level: Level, universe: Universe) -> Counts:
    """A histogram, true or released."""
    table, _ = _table(path)
    try:
        cells = np.zeros(table.num_rows, dtype=np.int64)
        for name, values in universe.attributes:
            cells = cells * len(values) + _coded(table.column(name), values)
        geounits = _coded(table.column("geocode"), level.codes)
        persons = table.column("count").to_numpy().astype(np.int64)
    except (KeyError, ValueError) as error:
        raise FormError(f"{path}: is not a histogram of the spec's cells ({error})") from None
    order = np.argsort(geounits * universe.n_cells + cells, kind="stable")
    return Counts(geounits[order], cells[order], persons[order])


def _coded(column: pa.ChunkedArray, values: tuple[str, ...]) -> NDArray[np.int64]:
    """The number of each row's text, `(n_rows,)`."""
    numbers = {value: number for number, value in enumerate(values)}
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    coded = [np.zeros(0, dtype=np.int64)]
    for chunk in column.chunks:
        found = np.array([numbers.get(text, -1) for text in chunk.dictionary.to_pylist()], dtype=np.int64)
        coded.append(found[chunk.indices.to_numpy()] if len(chunk) else coded[0])
    rows = np.concatenate(coded)
    if (rows < 0).any():
        raise ValueError(f"row {int(np.flatnonzero(rows < 0)[0]) + 1} has an unknown text")
    return rows


def counts_digest(counts: Counts, n_geounits: int, n_cells: int) -> bytes:
    """SHA-256 of the counts of the leaves in one canonical form, as docs/mathematics.md states it."""
    digest = hashlib.sha256(b"spinewise counts 1\0")
    starts = np.concatenate([[0], np.cumsum(np.bincount(counts.geounits, minlength=n_geounits))])
    for part in (np.array([n_geounits, n_cells, len(counts.cells)]), starts, counts.cells, counts.persons):
        digest.update(part.astype("<i8").tobytes())
    return digest.digest()


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


def exact_variance(mechanism: str, scale: Fraction) -> float:
    """The variance of the noise, by summation of the whole distribution or its closed form."""
    s = float(scale)
    if mechanism == "discrete_laplace":
        exact = 0.5 / np.sinh(0.5 / s) ** 2 if s > 2e-3 else 0.0
        return float(max(exact, 2e-6 * s * s))
    reach = np.arange(1, int(40 * np.sqrt(s)) + 2, dtype=np.float64)
    if s > 10**4:
        return s
    weights = np.exp(-(reach**2) / (2 * s))
    return float(max(2 * (reach**2 * weights).sum() / (1 + 2 * weights.sum()), 1e-6 * s))
