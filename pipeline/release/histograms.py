"""Histograms of a level in long form: one row for each nonzero cell of each geounit.

Columns: geocode, one for each attribute of the schema (strings, held as dictionaries, which pandas
reads as categories in the schema's order), count (int64). Rows are in the order of geounits, then of cells. Released
and confidential histograms have the same form. Sums of amounts that may be below 0 are the only ones that are negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from pipeline.errors import InputError, ReleaseError
from pipeline.model.schema import Schema
from pipeline.storage.files import (
    VALUES_PER_ROW_GROUP,
    RowGroups,
    open_parquet,
    parquet_sink,
    read_header,
    read_row_groups,
    reading,
    rows_per_group,
    strings,
)
from pipeline.storage.guard import GuardedFile
from pipeline.storage.paths import Readable
from postprocess.arrays import IntArray

_LABEL = pa.dictionary(pa.int32(), pa.string())


def write_histogram(
    target: Path,
    staging: Path,
    level: str,
    geocodes: NDArray[np.str_],
    schema: Schema,
    counts: sp.csr_array | Iterable[sp.csr_array],
    *,
    private: bool = False,
    signed: bool = False,
) -> None:
    """Write the histograms of a level.

    Args:
        target: the file.
        staging: the folder for the file while it is written.
        level: name of the level.
        geocodes: of all its geounits, `(n_geounits,)`.
        schema: whose cells are the columns of `counts`.
        counts: `(n_geounits, n_cells)` int64, or batches of successive rows of it; not negative unless `signed`. The
            bytes written do not depend on the batches.
        private: only the owner may read the file, as in `files.staged`.
        signed: sums of an amount that may be below 0.

    Raises:
        ReleaseError: the file cannot be written.
        InputError: an attribute has the name of one of the columns.
    """
    columns = _columns(schema)
    header = {"kind": "histogram", "level": level, "schema": schema.fingerprint()}
    labels = LabelColumns(geocodes, schema)
    groups = RowGroups(rows_per_group(len(columns)))
    with parquet_sink(target, staging, columns, header, private=private) as sink:
        for first, batch in geounit_batches(counts, len(geocodes), schema, signed=signed):
            rows = np.repeat(np.arange(first, first + batch.shape[0]), np.diff(batch.indptr))
            filled = np.flatnonzero(batch.data)
            full = groups.add(rows[filled], batch.indices[filled], batch.data[filled])
            for geounits, cells, persons in full:
                sink.write(*labels.arrays(geounits, cells), pa.array(persons))
        for geounits, cells, persons in groups.rest():
            sink.write(*labels.arrays(geounits, cells), pa.array(persons))


def _columns(schema: Schema) -> pa.Schema:
    return pa.schema([*label_fields(schema, ("geocode", "count")), pa.field("count", pa.int64(), nullable=False)])


def read_histogram(path: Readable, geocodes: NDArray[np.str_], schema: Schema, *, signed: bool = False) -> sp.csr_array:
    """The histograms written by `write_histogram`, `(n_geounits, n_cells)` int64 in the order of `geocodes`.

    Raises:
        ReleaseError: the file is missing, damaged, of another schema, or names a geounit or value that is unknown.
    """
    with open_parquet(path, rows=len(geocodes) * schema.n_cells) as file, reading(path):
        columns = _columns(schema)
        if read_header(file, path).get("schema") != schema.fingerprint() or not file.schema_arrow.equals(columns):
            raise ReleaseError(
                f"{path} is not a histogram of this schema, whose columns are {', '.join(columns.names)}"
            )
        indices = np.empty(file.metadata.num_rows, dtype=np.int32 if schema.n_cells < 2**31 else np.int64)
        data = np.empty(file.metadata.num_rows, dtype=np.int64)
        rows_of = np.zeros(len(geocodes), dtype=np.int64)
        start, last = 0, -1
        for geounits, cells, persons in _row_groups(file, path, geocodes, schema):
            keys = np.concatenate([[last], geounits * schema.n_cells + cells])
            if not (np.diff(keys) > 0).all() or not (persons != 0 if signed else persons > 0).all():
                raise ReleaseError(
                    f"{path} is damaged: rows must be in the order of geounits and cells, with counts "
                    f"{'other than' if signed else 'above'} 0"
                )
            stop, last = start + len(cells), int(keys[-1])
            indices[start:stop], data[start:stop] = cells, persons
            rows_of += np.bincount(geounits, minlength=len(geocodes))
            start = stop
    indptr = np.concatenate([[0], np.cumsum(rows_of)])
    return sp.csr_array((data, indices, indptr), shape=(len(geocodes), schema.n_cells))


def _row_groups(
    file: GuardedFile, path: Path, geocodes: NDArray[np.str_], schema: Schema
) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Numbers of geounits and cells, and counts, of each row group, all `(n_rows,)`."""
    order = np.argsort(geocodes)
    for table in read_row_groups(file, path):
        column = table.column("geocode").combine_chunks()
        codes = np.asarray(column.dictionary.to_numpy(zero_copy_only=False), dtype=np.str_)
        near = order[np.minimum(np.searchsorted(geocodes, codes, sorter=order), len(order) - 1)]
        geounits = _numbers(np.where(geocodes[near] == codes, near, -1), column, path, "geocode")
        cells = np.zeros(table.num_rows, dtype=np.int64)
        for attribute in schema.attributes:
            column = table.column(attribute.name).combine_chunks()
            number = {value: index for index, value in enumerate(attribute.values)}
            of_label = np.array([number.get(label, -1) for label in column.dictionary.to_pylist()], dtype=np.int64)
            cells = cells * len(attribute.values) + _numbers(of_label, column, path, attribute.name)
        yield geounits, cells, table.column("count").to_numpy()


def _numbers(number_of_label: IntArray, column: pa.DictionaryArray, path: Path, name: str) -> IntArray:
    """Numbers of a dictionary column's rows, `(n_rows,)`; ReleaseError where a label in use has the number -1."""
    indices = column.indices.to_numpy()
    if len(indices) and not 0 <= indices.min() <= indices.max() < len(number_of_label):
        raise ReleaseError(f"{path} is damaged: column {name} has rows without a label")
    numbers: IntArray = number_of_label[indices]
    if (numbers < 0).any():
        label = column[int(np.flatnonzero(numbers < 0)[0])].as_py()
        raise ReleaseError(f"{path}, column {name}: {label!r} is not known")
    return numbers


def label_fields(schema: Schema, reserved: tuple[str, ...]) -> list[pa.Field]:
    """Fields geocode and one per attribute; InputError where an attribute has one of the names in `reserved`."""
    for name in schema.names:
        if name in reserved:
            raise InputError(f"schema.attributes: {name!r} names a column of the release; give it another name")
    return [pa.field(name, _LABEL, nullable=False) for name in ("geocode", *schema.names)]


class LabelColumns:
    """Turns numbers of geounits and cells into columns of labels.

    Args:
        geocodes: of all geounits of the level.
        schema: whose cells are numbered.
    """

    def __init__(self, geocodes: NDArray[np.str_], schema: Schema) -> None:
        self._geocodes = geocodes
        self._codes = [np.ascontiguousarray(codes) for codes in schema.cell_codes().T.astype(np.int32)]
        self._values = [pa.array(attribute.values, type=pa.string()) for attribute in schema.attributes]

    def arrays(self, geounits: IntArray, cells: NDArray[Any]) -> list[pa.Array]:
        """Dictionary arrays: geocode, then each attribute.

        Args:
            geounits: `(n_rows,)`, not decreasing; only these geounits are in the dictionary.
            cells: `(n_rows,)`.
        """
        new = np.concatenate([[True], geounits[1:] != geounits[:-1]])
        used = strings(self._geocodes[geounits[new]])
        indices = pa.array(np.cumsum(new, dtype=np.int32) - np.int32(1))
        arrays = [pa.DictionaryArray.from_arrays(indices, used)]
        for codes, values in zip(self._codes, self._values, strict=True):
            arrays.append(pa.DictionaryArray.from_arrays(pa.array(codes[cells]), values))
        return arrays


def geounit_batches(
    counts: sp.csr_array | Iterable[sp.csr_array], n_geounits: int, schema: Schema, *, signed: bool = False
) -> Iterator[tuple[int, sp.csr_array]]:
    """Batches of `counts` with the number of their first geounit, checked.

    Raises:
        ValueError: a batch has another number of cells, negative counts (unless `signed`) or unsorted cells, or the
            batches together are not `n_geounits` long.
    """
    first = 0
    batches: Iterable[Any] = [counts] if sp.issparse(counts) else counts
    for batch in batches:
        if batch.shape[1] != schema.n_cells or batch.data.dtype != np.int64:
            raise ValueError(f"counts must be int64 over {schema.n_cells} cells, got {batch.dtype} of {batch.shape}")
        if not batch.has_canonical_format or (not signed and (batch.data < 0).any()):
            raise ValueError("counts must have each cell once, in order, and none negative")
        if first + batch.shape[0] > n_geounits:
            raise ValueError(f"counts must be given for {n_geounits} geounits, got more")
        # Work on about a row group's worth of entries at a time: whole geounits, however large the batch.
        marks = np.arange(0, batch.nnz, VALUES_PER_ROW_GROUP)
        cuts = np.unique([0, *np.searchsorted(batch.indptr, marks), batch.shape[0]])
        for start, stop in pairwise(cuts.tolist()):
            yield first + start, batch[start:stop]
        first += batch.shape[0]
    if first != n_geounits:
        raise ValueError(f"counts must be given for {n_geounits} geounits, got {first}")
