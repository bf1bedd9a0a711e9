"""Types of the arrays that are passed between the parts of the post-processing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
#: Some rows of an array: successive ones, or their numbers.
Rows = slice | NDArray[np.int64]
#: Arrays by their names, such as the result of a part.
Arrays = Mapping[str, NDArray[Any]]
#: For each attribute, a weight for each value in each of k sums, `(k, n_j)`; a cell's weight is their product.
Weights = Sequence[FloatArray]
#: The least and the most that each of some numbers may be, two arrays of one shape; NaN where that is not known.
Ends = tuple[FloatArray, FloatArray]

#: Places spread over at most so many times their number are told apart without sorting.
_CLOSE = 16


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


def runs(offsets: IntArray, most: int) -> Iterator[tuple[int, int]]:
    """Runs of successive families `(first, last)` with at most `most` members together, one family at least.

    `offsets` `(n + 1,)` are where the members of each family begin.
    """
    first, n = 0, len(offsets) - 1
    while first < n:
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1)
        yield first, min(last, n)
        first = last


def owners(offsets: IntArray) -> IntArray:
    """The family of each member, by where the members of each begin `(n + 1,)`, as in the `indptr` of sparse rows."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def members(offsets: IntArray, families: IntArray) -> tuple[IntArray, IntArray]:
    """The members of some families, one family after the other, and where those of each begin, with the end."""
    sizes = np.diff(offsets)[families]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return np.repeat(offsets[families] - starts[:-1], sizes) + np.arange(starts[-1]), starts


def group_sums(values: NDArray[Any], group: IntArray, size: int) -> NDArray[Any]:
    """Sums `(n, size)` over groups of columns `(n, k)`, in the values' own type, one column after the other."""
    out = np.zeros((len(values), size), dtype=values.dtype)
    np.add.at(out.T, group, values.T)
    return out


def over_siblings(parents: IntArray, values: FloatArray) -> FloatArray:
    """Sums over the children of a parent, for each of its children: `(n, ...)`; `parents` are `(n,)`."""
    total = np.zeros((int(parents.max(initial=-1)) + 1, *values.shape[1:]))
    np.add.at(total, parents, values)
    return total[parents]


def largest_of(values: NDArray[Any]) -> float:
    """The largest absolute value; 0 of none."""
    return float(np.abs(values).max(initial=0.0))


def adding_up(counts: FloatArray, totals: FloatArray | IntArray) -> FloatArray:
    """Counts `(n, k)` with what they miss of their totals `(n,)`, which are known, spread evenly over them."""
    return counts + (totals - counts.sum(axis=1))[:, None] / counts.shape[1]


def distinct_places(places: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct places in order, and which of them each is; places that lie close together are not sorted."""
    if not len(places):
        return places, places
    first = int(places.min())
    n = int(places.max()) - first + 1
    if n > _CLOSE * len(places):
        return np.unique(places, return_inverse=True)
    there = np.zeros(n, dtype=bool)
    there[places - first] = True
    return np.flatnonzero(there) + first, (np.cumsum(there) - 1)[places - first]
