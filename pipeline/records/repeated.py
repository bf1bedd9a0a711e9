"""Finds cells that occur in several rows of a file in long form, over all chunks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class SeenKeys:
    """The keys of the rows that have been read, in sorted runs, each at least twice as long as the next.

    8 bytes a row are held, as many again while runs are merged.
    """

    def __init__(self) -> None:
        self._runs: list[NDArray[np.int64]] = []

    def again(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of `keys` (n,) stood in an earlier row, of this chunk or of one before; takes note of them."""
        first = np.zeros(keys.size, dtype=np.bool_)
        distinct, at = np.unique(keys, return_index=True)
        first[at] = True
        for run in self._runs:
            place = np.minimum(np.searchsorted(run, distinct), run.size - 1)
            first[at[run[place] == distinct]] = False
        self._add(distinct[first[at]])
        return ~first

    def _add(self, new: NDArray[np.int64]) -> None:
        """Keep sorted keys that were not there."""
        if not new.size:
            return
        self._runs.append(new)
        while len(self._runs) > 1 and self._runs[-2].size < 2 * self._runs[-1].size:
            last, before = self._runs.pop(), self._runs.pop()
            self._runs.append(np.sort(np.concatenate([before, last]), kind="stable"))


def cell_keys(
    leaves: NDArray[np.int64], codes: Sequence[NDArray[np.int64]], sizes: Sequence[int], n_leaves: int
) -> NDArray[np.int64] | None:
    """A number for each combination of a leaf and codes below `sizes`, `(n,)`; None where 64 bits do not hold them."""
    if max(n_leaves, 1) * math.prod(sizes) >= 2**63:
        return None
    keys = leaves.copy()
    for numbers, size in zip(codes, sizes, strict=True):
        keys = keys * size + numbers
    return keys
