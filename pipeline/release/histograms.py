"""Histograms of a level in long form: one row for each nonzero cell of each geounit.

Columns: geocode, one for each attribute of the schema (strings, held as dictionaries, which pandas
reads as categories in the schema's order), count (int64). Rows are in the order of geounits, then of cells. Released
and confidential histograms have the same form. Sums of amounts that may be below 0 are the only ones that are negative.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.model.schema import Schema
from pipeline.release.form import LABEL, WHOLE, Form, Values, label_numbers, open_form, value_numbers
from pipeline.storage.files import VALUES_PER_ROW_GROUP, strings
from pipeline.storage.paths import Readable
from postprocess.arrays import IntArray


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
    labels = LabelColumns(geocodes, schema)

    def made(geounits: IntArray, cells: IntArray, persons: IntArray) -> list[Values]:
        return [*labels.arrays(geounits, cells), persons]

    with _form(level, schema).writer(target, staging, made, private=private) as out:
        for first, batch in geounit_batches(counts, len(geocodes), schema, signed=signed):
            rows = np.repeat(np.arange(first, first + batch.shape[0]), np.diff(batch.indptr))
            filled = np.flatnonzero(batch.data)
            out.add(rows[filled], batch.indices[filled], batch.data[filled])


def _form(level: object, schema: Schema) -> Form:
    columns = {**label_columns(schema, ("geocode", "count")), "count": WHOLE}
    header = {"kind": "histogram", "level": level, "schema": schema.fingerprint()}
    return Form("a histogram", header, columns)


def read_histogram(path: Readable, geocodes: NDArray[np.str_], schema: Schema, *, signed: bool = False) -> sp.csr_array:
    """The histograms written by `write_histogram`, `(n_geounits, n_cells)` int64 in the order of `geocodes`.

    Raises:
        ReleaseError: the file is missing, damaged, of another schema, or names a geounit or value that is unknown.
    """
    with open_form(path, lambda file: _form(file.header.get("level"), schema), len(geocodes) * schema.n_cells) as file:
        indices = np.empty(file.starts[-1], dtype=np.int32 if schema.n_cells < 2**31 else np.int64)
        data = np.empty(file.starts[-1], dtype=np.int64)
        rows_of = np.zeros(len(geocodes), dtype=np.int64)
        start, last, order = 0, -1, np.argsort(geocodes)
        for codes, *labels, persons in file.groups():
            geounits = _geounits(codes, geocodes, order, path)
            cells = np.zeros(len(persons), dtype=np.int64)
            for attribute, column in zip(schema.attributes, labels, strict=True):
                numbers = value_numbers(column, attribute.values, path, attribute.name)
                cells = cells * len(attribute.values) + numbers
            keys = np.concatenate([[last], geounits * schema.n_cells + cells])
            if not (np.diff(keys) > 0).all() or not (persons != 0 if signed else persons > 0).all():
                raise file.damaged(
                    "rows must be in the order of geounits and cells, with counts "
                    f"{'other than' if signed else 'above'} 0"
                )
            stop, last = start + len(cells), int(keys[-1])
            indices[start:stop], data[start:stop] = cells, persons
            rows_of += np.bincount(geounits, minlength=len(geocodes))
            start = stop
    indptr = np.concatenate([[0], np.cumsum(rows_of)])
    return sp.csr_array((data, indices, indptr), shape=(len(geocodes), schema.n_cells))


def _geounits(column: pa.DictionaryArray, geocodes: NDArray[np.str_], order: IntArray, path: Path) -> IntArray:
    """The number of each row's geounit, `(n_rows,)`; `order` sorts the geocodes."""
    codes = np.asarray(column.dictionary.to_numpy(zero_copy_only=False), dtype=np.str_)
    near = order[np.minimum(np.searchsorted(geocodes, codes, sorter=order), len(order) - 1)]
    return label_numbers(column, np.where(geocodes[near] == codes, near, -1), path, "geocode")


def label_columns(schema: Schema, reserved: Collection[str]) -> dict[str, pa.DataType]:
    """Columns geocode and one per attribute; InputError where an attribute has one of the names in `reserved`."""
    for name in schema.names:
        if name in reserved:
            raise InputError(f"schema.attributes: {name!r} names a column of the release; give it another name")
    return dict.fromkeys(("geocode", *schema.names), LABEL)


class LabelColumns:
    """Turns numbers of geounits and cells into columns of labels.

    Args:
        geocodes: of all geounits of the level.
        schema: whose cells are numbered.
    """

    def __init__(self, geocodes: NDArray[np.str_], schema: Schema) -> None:
        self._geocodes = geocodes
        self._schema = schema
        self._values = [pa.array(attribute.values, type=pa.string()) for attribute in schema.attributes]

    @cached_property
    def _codes(self) -> IntArray:
        """The number of each cell's value of each attribute, `(n_attributes, n_cells)`."""
        return np.ascontiguousarray(self._schema.cell_codes().T.astype(np.int32))

    def arrays(self, geounits: IntArray, cells: NDArray[Any]) -> list[pa.Array]:
        """Dictionary arrays: geocode, then each attribute.

        Args:
            geounits: `(n_rows,)`, not decreasing; only these geounits are in the dictionary.
            cells: `(n_rows,)`.
        """
        return self.of_values(geounits, [codes[cells] for codes in self._codes])

    def of_values(self, geounits: IntArray, codes: Iterable[IntArray]) -> list[pa.Array]:
        """The same, given the number of each row's value of each attribute, `(n_rows,)` int32."""
        new = np.concatenate([[True], geounits[1:] != geounits[:-1]])
        used = strings(self._geocodes[geounits[new]])
        indices = pa.array(np.cumsum(new, dtype=np.int32) - np.int32(1))
        columns = zip(map(pa.array, codes), self._values, strict=True)
        return [pa.DictionaryArray.from_arrays(*column) for column in ((indices, used), *columns)]


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
