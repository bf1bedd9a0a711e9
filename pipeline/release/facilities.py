"""Counts of facilities, and public numbers behind shares, as a release publishes them: one row a geounit.

Facilities have one column for each answer that is bounded, shares one for each of the columns of their file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import ReleaseError
from pipeline.model.public_share import PublicShare
from pipeline.model.universe import Bound
from pipeline.storage.files import open_parquet, reading, write_parquet


def _facility_columns(bound: Bound) -> pa.Schema:
    labels = bound.query.answer_labels()
    counts = [pa.field(labels[answer], pa.int64(), nullable=False) for answer in sorted(bound.columns)]
    return pa.schema([pa.field("geocode", pa.string(), nullable=False), *counts])


def write_facilities(
    target: Path, staging: Path, bound: Bound, geocodes: NDArray[np.str_], facilities: NDArray[np.int64]
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


def read_public_facilities(path: Path, bound: Bound, geocodes: NDArray[np.str_]) -> NDArray[np.int64]:
    """The facilities written by `write_facilities`; ReleaseError where they are of others."""
    with open_parquet(path, rows=len(geocodes)) as file, reading(path):
        if not file.schema_arrow.equals(_facility_columns(bound)):
            raise ReleaseError(f"{path} does not have the columns of the bound {bound.name!r}")
        table = file.read()
        if table.column("geocode").to_pylist() != geocodes.tolist():
            raise ReleaseError(f"{path} is damaged: its rows are not the geounits of level {bound.level!r}")
        facilities = np.stack([column.to_numpy() for column in table.columns[1:]], axis=1).astype(np.int64)
    if (facilities < 0).any():
        raise ReleaseError(f"{path} is damaged: it has a negative number of facilities")
    return facilities


def _share_columns(share: PublicShare) -> pa.Schema:
    numbers = [pa.field(f"number_{i + 1}", pa.float64(), nullable=False) for i in range(len(share.distinct_columns))]
    return pa.schema([pa.field("geocode", pa.string(), nullable=False), *numbers])


def write_shares(
    target: Path, staging: Path, share: PublicShare, geocodes: NDArray[np.str_], numbers: NDArray[np.float64]
) -> None:
    """Write the numbers of each geounit of the file's level."""
    labels, places = share.query.answer_labels(), share.distinct_columns
    header = {
        "kind": "shares",
        "name": share.name,
        "level": share.level,
        "levels": list(share.levels),
        "query": share.query.name,
        "columns": list(places),
        "answers": [[labels[answer], 1 + places.index(column)] for answer, column in share.columns.items()],
    }
    columns = [pa.array(geocodes, pa.string()), *(pa.array(column) for column in numbers.T)]
    write_parquet(target, pa.table(columns, schema=_share_columns(share)), staging, header)


def read_public_shares(path: Path, share: PublicShare, geocodes: NDArray[np.str_]) -> NDArray[np.float64]:
    """The numbers written by `write_shares`; ReleaseError where they are of others."""
    with open_parquet(path, rows=len(geocodes)) as file, reading(path):
        if not file.schema_arrow.equals(_share_columns(share)):
            raise ReleaseError(f"{path} does not have the columns of the shares {share.name!r}")
        table = file.read()
        if table.column("geocode").to_pylist() != geocodes.tolist():
            raise ReleaseError(f"{path} is damaged: its rows are not the geounits of level {share.level!r}")
        numbers = np.stack([column.to_numpy() for column in table.columns[1:]], axis=1).astype(np.float64)
    if not (np.isfinite(numbers).all() and (numbers >= 0).all()):
        raise ReleaseError(f"{path} is damaged: it has a number that is negative, or none")
    return numbers
