"""Simulated errors within reach of a size: of a cell, or of several whose errors are taken together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.downward.sized_errors import SIZE_CLASSES

#: Counted errors whose ranges are looked for at once.
_CHUNK_ERRORS = 1_000_000

#: Counts `(n, classes)`, shares `(n,)` -> the ends of a range that holds the share of each row: first class, one after.
RangeOf = Callable[[IntArray, FloatArray], tuple[IntArray, IntArray]]


@dataclass(frozen=True, eq=False)
class CountedErrors:
    """The errors of a table, `(n,)` each: owner, size class, class of the error, how often; and how many own some.

    An owner is a cell, or are cells whose errors are taken together.
    """

    owner: IntArray
    sizes: IntArray
    error: IntArray
    times: IntArray
    owners: int

    def reach(self, most: IntArray, needed: int) -> IntArray:
        """The least reach at which `needed` errors are seen, `(owners, size classes)`; -1 where it is beyond `most`."""
        places = self.owner * len(SIZE_CLASSES) + self.sizes
        seen = np.bincount(places, self.times, self.owners * len(SIZE_CLASSES)).astype(np.int64)
        return _reach_of(seen.reshape(self.owners, -1), most, needed)

    def ends(
        self, most: IntArray, needed: int, range_of: RangeOf, shares: FloatArray
    ) -> tuple[BoolArray, FloatArray, FloatArray]:
        """Where the errors `needed` were seen within a reach of at most `most`, and the ends, all like the `shares`."""
        reach = self.reach(most, needed)
        low, high = np.full((2, *reach.shape), np.nan)
        for chunk in self.chunks(reach, reach >= 0):
            chunk.put_ends(range_of, shares, low, high)
        return reach >= 0, low, high

    def chunks(self, reach: IntArray, used: BoolArray) -> Iterator[Chunk]:
        """The errors within `reach` of the size classes that are `used`, both `(owners, size classes)`."""
        windows: list[tuple[int, IntArray, int, IntArray]] = []
        numbers = widest = 0
        for each in self._windows(reach, used):
            numbers, widest = numbers + len(each[1]), max(widest, each[3].shape[1])
            windows.append(each)
            if numbers * widest > _CHUNK_ERRORS:
                yield Chunk.of(windows)
                windows, numbers, widest = [], 0, 0
        if windows:
            yield Chunk.of(windows)

    def _windows(self, reach: IntArray, used: BoolArray) -> Iterator[tuple[int, IntArray, int, IntArray]]:
        """Owner by owner, size classes that are used, the least error, and the errors within reach.

        They are counted in classes from the least error on: `(size classes, width)`.
        """
        order = np.argsort(self.owner, kind="stable")
        starts = np.searchsorted(self.owner[order], np.arange(self.owners + 1))
        for number, (first, last) in enumerate(pairwise(starts)):
            known = np.flatnonzero(used[number])
            if not len(known):
                continue
            chosen = order[first:last]
            error = self.error[chosen]
            least, most = int(error.min()), int(error.max())
            shape = len(SIZE_CLASSES), most - least + 1
            places = self.sizes[chosen] * shape[1] + error - least
            errors = np.bincount(places, self.times[chosen], math.prod(shape)).astype(np.int64).reshape(shape)
            yield number, known, least, _of_windows(errors, known, reach[number, known])


@dataclass(frozen=True, eq=False)
class Chunk:
    """Errors within reach of some size classes of some owners.

    Attributes:
        owner, size: `(n,)`.
        first: the class of the first of the errors, `(n,)`.
        errors: how often each was seen, `(n, classes)`.
    """

    owner: IntArray
    size: IntArray
    first: IntArray
    errors: IntArray

    @classmethod
    def of(cls, windows: Sequence[tuple[int, IntArray, int, IntArray]]) -> Chunk:
        """Of `CountedErrors._windows`."""
        counts = [len(sizes) for _, sizes, *_ in windows]
        # Classes without errors on the right change no range: of several, the first is taken.
        errors = np.zeros((sum(counts), max(each.shape[1] for *_, each in windows)), dtype=np.int64)
        for end, count, (*_, each) in zip(accumulate(counts), counts, windows, strict=True):
            errors[end - count : end, : each.shape[1]] = each
        owner, first = (np.repeat([each[place] for each in windows], counts) for place in (0, 2))
        return cls(owner, np.concatenate([sizes for _, sizes, *_ in windows]), first, errors)

    def put_ends(self, range_of: RangeOf, shares: FloatArray, low: FloatArray, high: FloatArray) -> None:
        """Put the ends of the ranges in their places, `(owners, size classes)`, like the shares."""
        start, stop = range_of(self.errors, shares[self.owner, self.size])
        low[self.owner, self.size], high[self.owner, self.size] = start + self.first, stop + self.first


def at_most(chunks: Iterator[Chunk], numbers: int) -> list[Chunk] | None:
    """The chunks, if they have at most so many numbers."""
    found = []
    for chunk in chunks:
        numbers -= chunk.errors.size
        if numbers < 0:
            return None
        found.append(chunk)
    return found


def _reach_of(seen: IntArray, most: IntArray, needed: int) -> IntArray:
    """The least reach `(n, size classes)`, at most `most`, at which so many errors were seen; -1 where none is."""
    before = np.pad(np.cumsum(seen, axis=1), ((0, 0), (1, 0)))
    least = np.zeros(seen.shape, dtype=np.int64)
    last = np.broadcast_to(most, seen.shape).copy()
    numbers = np.arange(seen.shape[1])

    def enough(reach: IntArray) -> BoolArray:
        first, stop = _ends(numbers, reach, seen.shape[1])
        within = np.take_along_axis(before, stop, axis=1) - np.take_along_axis(before, first, axis=1)
        return within >= needed

    found = enough(last)
    while (least < last).any():
        middle = (least + last) // 2
        there = enough(middle)
        last = np.where(there, middle, last)
        least = np.where(there, least, np.minimum(middle + 1, last))
    return np.where(found, last, -1)


def _ends(sizes: IntArray, reach: IntArray, n_sizes: int) -> tuple[IntArray, IntArray]:
    """First and one after the last size class within reach; counts of 0 are unlike all others."""
    first = np.where(sizes == 0, 0, np.maximum(1, sizes - reach))
    last = np.where(sizes == 0, 1, np.minimum(n_sizes, sizes + reach + 1))
    return first, last


def _of_windows(errors: IntArray, sizes: IntArray, reach: IntArray) -> IntArray:
    """Errors `(n, width)` within reach of some size classes, of those of all `(size classes, width)`."""
    before = np.concatenate([np.zeros((1, errors.shape[1]), dtype=np.int64), np.cumsum(errors, axis=0)])
    first, last = _ends(sizes, reach, len(errors))
    return before[last] - before[first]
