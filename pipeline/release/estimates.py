"""The Parquet form of unbiased estimates: one file a level, one row a geounit.

For each table two columns of lists, "<table>" and "<table>:variance", whose entries are in the order of the table's
columns. A value is NaN where the measurements do not determine a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.model.universe import Table
from pipeline.storage.files import RowGroups, parquet_sink, rows_per_group, strings
from postprocess.arrays import FloatArray

#: What the name of a column of variances ends with.
VARIANCE_SUFFIX = ":variance"
_LIST = pa.list_(pa.field("element", pa.float64(), nullable=False))


def write_estimates(
    target: Path,
    staging: Path,
    level: str,
    geocodes: NDArray[np.str_],
    tables: Sequence[Table],
    chunks: Iterable[tuple[slice, Sequence[FloatArray]]],
) -> None:
    """Write the estimates of one level.

    Args:
        target: the file.
        staging: the folder for the file while it is written.
        level: name of the level.
        geocodes: `(n_geounits,)` of the level.
        tables: the tables whose estimates are written.
        chunks: successive geounits; of each table its estimates `(n, size)`, persons, then their variances.

    Raises:
        ReleaseError: the file cannot be written.
    """
    names = [name for table in tables for name in (table.name, table.name + VARIANCE_SUFFIX)]
    fields = [
        pa.field("geocode", pa.string(), nullable=False),
        *(pa.field(name, _LIST, nullable=False) for name in names),
    ]
    header = {"kind": "estimates", "level": level, "queries": {table.name: table.query.name for table in tables}}
    groups = RowGroups(rows_per_group(2 * sum(table.query.size for table in tables)))
    with parquet_sink(target, staging, pa.schema(fields), header) as sink:
        for rows, columns in chunks:
            for part in groups.add(geocodes[rows], *columns):
                sink.write(*_arrays(part))
        for part in groups.rest():
            sink.write(*_arrays(part))


def _arrays(columns: Sequence[NDArray[np.generic]]) -> list[pa.Array]:
    """Geocodes `(n,)` and values `(n, size)` as columns of text and of lists."""
    arrays: list[pa.Array] = [strings(columns[0])]
    for values in columns[1:]:
        n, size = values.shape
        offsets = pa.array(np.arange(0, n * size + 1, size, dtype=np.int32))
        arrays.append(pa.ListArray.from_arrays(offsets, pa.array(values.reshape(-1)), type=_LIST))
    return arrays
