"""The files of public shares, one row a geounit: that which a spec names, and that which a release publishes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.shares.public_share import PublicShare, shares_of
from geography.spine import Spine
from pipeline.errors import ReleaseError
from pipeline.inputs.area_numbers import read_area_numbers
from pipeline.metadata.contents import ProductFile
from pipeline.metadata.products import Product, ReleaseScope
from pipeline.release.facilities import read_numbers_of_level
from pipeline.release.layout import UniverseDirectory, file_name
from pipeline.storage.files import write_parquet
from pipeline.storage.readable import Readable


def path_of(folder: UniverseDirectory, name: str) -> Path:
    """Where a universe's public numbers of a share are: geocode, a column for each of the spec's file."""
    return folder.public / "shares" / f"{file_name('shares', name)}.parquet"


def _files(of: ReleaseScope) -> Iterator[ProductFile]:
    for universe in of.universes:
        for share in shares_of(universe):
            yield ProductFile(path_of(of.run.universe(universe.name), share.name), universe.name, share.level, share)


SHARES: Final = Product(
    "shares/NAME.parquet",
    "geocode, the public numbers by which areas share (postprocess.shares)",
    "input",
    _files,
    after="constraints/bound-N.parquet",
)


def read_shares(share: PublicShare, spine: Spine) -> NDArray[np.float64]:
    """The public numbers of the geounits of the file's level, `(n_geounits, n_columns)`: distinct columns, in order.

    Raises:
        InputError: the file cannot be read, or does not have one row with a number from 0 for each geounit.
    """
    where, upto = f"postprocess.shares.{share.name}", spine.down_to(share.level)
    return read_area_numbers(where, share.file, share.geocode, share.distinct_columns, upto)


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


def read_public_shares(path: Readable, share: PublicShare, geocodes: NDArray[np.str_]) -> NDArray[np.float64]:
    """The numbers written by `write_shares`; ReleaseError where they are of others."""
    columns, whose = _share_columns(share), f"the shares {share.name!r}"
    numbers = read_numbers_of_level(path, columns, whose, share.level, geocodes).astype(np.float64)
    if not (np.isfinite(numbers).all() and (numbers >= 0).all()):
        raise ReleaseError(f"{path} is damaged: it has a number that is negative, or none")
    return numbers
