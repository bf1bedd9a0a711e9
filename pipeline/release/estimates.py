"""The Parquet form of unbiased estimates: one file a level, one row a geounit.

For each table two columns of lists, "<table>" and "<table>:variance", whose entries are in the order of the table's
columns. A value is NaN where the measurements do not determine a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.model.universe import Table
from pipeline.release.form import REAL, TEXT, Form, list_of
from postprocess.arrays import FloatArray

#: What the name of a column of variances ends with.
VARIANCE_SUFFIX = ":variance"


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
    header = {"kind": "estimates", "level": level, "queries": {table.name: table.query.name for table in tables}}
    columns = {"geocode": TEXT, **dict.fromkeys(names, list_of(REAL))}
    numbers = 2 * sum(table.query.size for table in tables)
    with Form("a file of estimates", header, columns, numbers=numbers).writer(target, staging) as out:
        for rows, values in chunks:
            out.add(geocodes[rows], *values)
