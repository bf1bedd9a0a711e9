"""Values in a table with a row a cell whose rows are the sum of all others, whatever they are called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from features.imports.tables.cells import Cells
from features.imports.tables.coded import Coded
from features.imports.tables.sums import sums_of_rest, sums_of_smaller
from features.imports.tables.table_file import TableFile
from features.imports.tables.total_rows import is_total
from pipeline.errors import InputError

#: So many bits of agreement make a sum no accident.
_BITS = 30
_SHOWN = 6


def check_total_values(file: TableFile, leaf: str, count: Cells, attributes: Sequence[str]) -> None:
    """InputError where in every leaf the rows of one value of an attribute add up to those of all others."""
    table = Coded.of(file, [leaf, count.column, *attributes])
    counts = np.maximum(table.numbers(count), 0)
    n_leaves = len(table.texts[leaf])
    for name in attributes:
        values = table.texts[name]
        places = table.codes[leaf].astype(np.int64) * len(values) + table.codes[name]
        # Sums of fewer than 2^53 people are exact in doubles.
        shape = (n_leaves, len(values))
        cells = np.bincount(places, counts, shape[0] * shape[1]).astype(np.int64).reshape(shape)
        right, bits = sums_of_rest(cells[:, :, None])
        _check_parts(file, name, values, cells)
        for i, value in enumerate(values):
            if right[i] and cells[:, i].any() and (is_total(value) or bits[i] > _BITS):
                raise InputError(
                    f"{file}: column {name!r}: the rows with {value!r} are the sum of the others in every area, so "
                    f"that everybody would be counted twice; leave them out{_by_query(file, name, value)}, or give "
                    "the number of people that is right as --people"
                )


def _by_query(file: TableFile, name: str, value: str) -> str:
    """How a query leaves the rows of a value out, where one reads the user's own file; else nothing."""
    own = PurePath(str(file))
    if own.suffix.lower() not in (".csv", ".parquet") or not name.isidentifier() or "'" in f"{own.name}{value}":
        return ""
    kept = f"{name} <> '{value}'" if value else f"{name} is not null"
    return f", as with duckdb: and --query \"select * from '{own.name}' where {kept}\""


def _check_parts(file: TableFile, name: str, values: Sequence[str], cells: NDArray[np.int64]) -> None:
    """InputError where the rows of one value add up those of some others in every leaf: 0-29 those of 0-14 and 15-29.

    Args:
        cells: people of each leaf and value, `(n_leaves, n_values)`.
    """
    sums = sums_of_smaller(values, cells)
    for value, parts in sums.items():
        size = np.log2(1.0 + cells[:, values.index(value)].astype(np.float64)).sum()
        if len(parts) + 1 < len(values) and size > _BITS:
            some = f"{', '.join(map(repr, parts[:_SHOWN]))}{', ...' if len(parts) > _SHOWN else ''}"
            raise InputError(
                f"{file}: column {name!r}: the rows with {value!r} are the sum of those with {some} in every area, so "
                "that these people would be counted twice; leave the rows of one of them out"
            )
