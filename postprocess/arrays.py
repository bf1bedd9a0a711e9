"""Types of the arrays that are passed between the parts of the post-processing."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def wide_enough(dtype: np.dtype[np.signedinteger], values: IntArray) -> np.dtype[np.signedinteger]:
    """`dtype`, or the next signed type that holds the values."""
    least, most = values.min(initial=0), values.max(initial=0)
    while not np.iinfo(dtype).min <= least <= most <= np.iinfo(dtype).max:
        dtype = np.dtype(f"i{2 * dtype.itemsize}")
    return dtype


def successive(rows: IntArray, most: int = 1 << 22) -> list[tuple[int, int]]:
    """Stretches of successive rows, `most` at a time: their first place in `rows`, and the place after the last."""
    breaks = [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
    return [(start, min(start + most, end)) for first, end in pairwise(breaks) for start in range(first, end, most)]


def distinct_places(places: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct places in order, and which of them each is; places that lie close together are not sorted."""
    if not len(places) or int(places.max()) > 16 * len(places):
        distinct, inverse = np.unique(places, return_inverse=True)
        return distinct, inverse.ravel()
    there = np.zeros(int(places.max()) + 1, dtype=bool)
    there[places] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[places]
