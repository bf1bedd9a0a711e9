"""Counts of facilities as a release publishes them: one row a geounit, one column for each answer that is bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import ReleaseError
from pipeline.model.universe import Bound
from pipeline.storage.files import open_parquet, reading, write_parquet
from pipeline.storage.paths import Readable
from postprocess.arrays import IntArray

#: Geocodes that are compared at a time.
_AT_ONCE = 1 << 16


def _facility_columns(bound: Bound) -> pa.Schema:
    labels = bound.query.answer_labels()
    counts = [pa.field(labels[answer], pa.int64(), nullable=False) for answer in sorted(bound.columns)]
    return pa.schema([pa.field("geocode", pa.string(), nullable=False), *counts])


def write_facilities(
    target: Path, staging: Path, bound: Bound, geocodes: NDArray[np.str_], facilities: IntArray
) -> None:
    """Write the number of facilities in each geounit, one column an answer."""
    columns = [pa.array(geocodes, pa.string()), *(pa.array(column) for column in facilities.T)]
    header = {
        "kind": "constraint",
        "name": bound.name,
        "level": bound.level,
        "query": bound.query.name,
        "persons_each": [bound.lower, bound.upper],
    }
    write_parquet(target, pa.table(columns, schema=_facility_columns(bound)), staging, header)


def read_public_facilities(path: Readable, bound: Bound, geocodes: NDArray[np.str_]) -> IntArray:
    """The facilities written by `write_facilities`; ReleaseError where they are of others."""
    columns, whose = _facility_columns(bound), f"the bound {bound.name!r}"
    facilities = read_numbers_of_level(path, columns, whose, bound.level, geocodes).astype(np.int64, copy=False)
    if (facilities < 0).any():
        raise ReleaseError(f"{path} is damaged: it has a negative number of facilities")
    return facilities


def read_numbers_of_level(
    path: Readable, columns: pa.Schema, whose: str, level: str, geocodes: NDArray[np.str_]
) -> NDArray[Any]:
    """The numbers `(n, k)` of a file with a row for each geounit of a level, whose first column is the geocode.

    Raises:
        ReleaseError: it has other columns, or rows of other geounits.
    """
    with open_parquet(path, rows=len(geocodes)) as file, reading(path):
        if not file.schema_arrow.equals(columns):
            raise ReleaseError(f"{path} does not have the columns of {whose}")
        table = file.read()
        if not _are_codes(table.column("geocode"), geocodes):
            raise ReleaseError(f"{path} is damaged: its rows are not the geounits of level {level!r}")
        return np.stack([column.to_numpy() for column in table.columns[1:]], axis=1)


def _are_codes(column: pa.ChunkedArray, geocodes: NDArray[np.str_]) -> bool:
    """Whether a column has these codes, in this order; some at a time, since a country has millions."""
    if len(column) != len(geocodes):
        return False
    starts = range(0, len(geocodes), _AT_ONCE)
    return all(column.slice(at, _AT_ONCE).to_pylist() == geocodes[at : at + _AT_ONCE].tolist() for at in starts)
