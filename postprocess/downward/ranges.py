"""Ranges of simulated errors: for each cell and size class, the narrowest, or the central, that holds a share of them.

Sizes and cells with too few simulated errors take those of their neighbours in size, then of cells that are about as
frequent, then of the whole table; where that has too few, it makes do with fewer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.downward.sized_errors import ALONE, ENOUGH, ERROR_CLASSES, SIZE_CLASSES, SizedErrors, size_class

#: How far a size class may look to both sides for errors: a third of the size, then half an octave.
REACH_OF_SIZES = np.where(SIZE_CLASSES <= ALONE, np.maximum(1, SIZE_CLASSES // 3), 4)
REACH_OF_SIZES[0] = 0
#: Any distance, but for counts of 0, which are unlike all others.
_ANY = np.where(SIZE_CLASSES > 0, len(SIZE_CLASSES), 0)
#: Errors that a quantile needs where a whole table has no `ENOUGH` of them.
FEWER = 100
#: Pairs of size classes and released counts held at once.
_CHUNK_COUNTS = 20_000
#: Counted errors whose ranges are looked for at once.
_CHUNK_ERRORS = 1_000_000

#: Counts `(n, classes)`, shares `(n,)` -> the ends of a range that holds the share of each row: first class, one after.
RangeOf = Callable[[IntArray, FloatArray], tuple[IntArray, IntArray]]


@dataclass(frozen=True, eq=False)
class Ranges:
    """The range of errors that holds a share of them, for each cell and size class, in classes of errors.

    Attributes:
        low, high: `(cells, size classes)`, the first class of the range, and the first after it; NaN where it is not
            known: too few errors were seen, or it reaches into the classes of errors without an end.
    """

    low: FloatArray
    high: FloatArray

    @classmethod
    def of(
        cls,
        errors: SizedErrors,
        n_cells: int,
        range_of: RangeOf,
        shares: float | FloatArray,
        *,
        alike: IntArray | None = None,
        kept: bool = False,
    ) -> Ranges:
        """From the errors of a table: of a cell's own, or of cells like it, or of all, where it has too few.

        Args:
            errors: of the table.
            n_cells: answers of its query.
            range_of: what is looked for.
            shares: what ranges hold of the errors, `(n_cells, size classes)` or one; of cells whose errors are taken
                together the largest.
            alike: a number for each cell, the same for cells whose errors may be taken together; by default those of
                `alike_cells`.
            kept: a range that reaches into the classes of errors without an end is that far at least, and is kept.
        """
        cells, sizes, error = errors.parts()
        ranges = cls(*(np.full((n_cells, len(SIZE_CLASSES)), np.nan) for _ in range(2)))
        shares = np.broadcast_to(shares, ranges.low.shape)
        each = np.arange(n_cells)
        if alike is None:
            alike = alike_cells(errors, n_cells)
        owners = [
            (0 * each, _ANY, ENOUGH),
            (alike, _ANY, ENOUGH),
            (alike, REACH_OF_SIZES, ENOUGH),
            (each, REACH_OF_SIZES, ENOUGH),
        ]
        if any(0 < errors.times[which].sum() < ENOUGH for which in (sizes == 0, sizes > 0)):
            owners.insert(0, (0 * each, _ANY, FEWER))
        for owner, most, needed in owners:  # from what is always there to what fits best
            counted = Counted(owner[cells], sizes, error, errors.times, int(owner.max()) + 1)
            held = np.zeros((counted.owners, len(SIZE_CLASSES)))
            np.maximum.at(held, owner, shares)
            known, *ends = counted.ends(most, needed, range_of, held)
            if not kept:
                ends = _with_ends(*ends)
            for mine, of_owners in zip((ranges.low, ranges.high), ends, strict=True):
                np.copyto(mine, of_owners[owner], where=known[owner])
        return ranges


def alike_cells(errors: SizedErrors, n_cells: int) -> IntArray:
    """A number for each cell, the same for cells that are about as frequent; each number has enough errors.

    Cells are alike if their mean counts are within the same power of 4; the rarest are taken together as far as needed.
    """
    (cells, sizes, _), times = errors.parts(), errors.times
    total = np.bincount(cells, weights=SIZE_CLASSES[sizes] * times, minlength=n_cells)
    mean = total / np.maximum(1, np.bincount(cells, weights=times, minlength=n_cells))
    powers, power = np.unique(np.floor(np.log2(np.maximum(mean, 1e-9)) / 2 + 1e-9), return_inverse=True)
    seen = np.bincount(power.ravel()[cells], weights=np.where(sizes > 0, times, 0), minlength=len(powers))
    # A power begins a number of its own if those before it have enough, and it and those after it have.
    before = np.concatenate([[0.0], np.cumsum(seen)])
    number, begun, numbers = 0, 0.0, np.zeros(len(powers), dtype=np.int64)
    for place in range(len(powers)):
        if before[place] - begun >= ENOUGH and before[-1] - before[place] >= ENOUGH:
            number, begun = number + 1, float(before[place])
        numbers[place] = number
    return numbers[power.ravel()]


@dataclass(frozen=True, eq=False)
class Counted:
    """The errors of a table, `(n,)` each: owner, size class, class of the error, how often; and how many own some.

    An owner is a cell, or are cells whose errors are taken together.
    """

    owner: IntArray
    sizes: IntArray
    error: IntArray
    times: IntArray
    owners: int

    def ends(
        self, most: IntArray, needed: int, range_of: RangeOf, shares: FloatArray
    ) -> tuple[BoolArray, FloatArray, FloatArray]:
        """Where the errors `needed` were seen within a reach of at most `most`, and the ends, all like the `shares`."""
        places = self.owner * len(SIZE_CLASSES) + self.sizes
        seen = np.bincount(places, self.times, self.owners * len(SIZE_CLASSES)).astype(np.int64)
        reach = _reach_of(seen.reshape(self.owners, -1), most, needed)
        low, high = np.full(reach.shape, np.nan), np.full(reach.shape, np.nan)
        held: list[tuple[int, IntArray, int, IntArray]] = []
        numbers = widest = 0
        for each in self._windows(reach):
            numbers, widest = numbers + len(each[1]), max(widest, each[3].shape[1])
            held.append(each)
            if numbers * widest > _CHUNK_ERRORS:
                _put_ends(held, range_of, shares, low, high)
                held, numbers, widest = [], 0, 0
        if held:
            _put_ends(held, range_of, shares, low, high)
        return reach >= 0, low, high

    def _windows(self, reach: IntArray) -> Iterator[tuple[int, IntArray, int, IntArray]]:
        """Owner by owner, size classes with enough errors within reach, the least error, and the errors within reach.

        They are counted in classes from the least error on: `(size classes, width)`.
        """
        order = np.argsort(self.owner, kind="stable")
        starts = np.searchsorted(self.owner[order], np.arange(self.owners + 1))
        for number, (first, last) in enumerate(pairwise(starts)):
            known = np.flatnonzero(reach[number] >= 0)
            if not len(known):
                continue
            chosen = order[first:last]
            error = self.error[chosen]
            least, most = int(error.min()), int(error.max())
            shape = len(SIZE_CLASSES), most - least + 1
            places = self.sizes[chosen] * shape[1] + error - least
            errors = np.bincount(places, self.times[chosen], math.prod(shape)).astype(np.int64).reshape(shape)
            yield number, known, least, _of_windows(errors, known, reach[number, known])


def _put_ends(
    held: Sequence[tuple[int, IntArray, int, IntArray]],
    range_of: RangeOf,
    shares: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> None:
    """Put the ends of the ranges of some owners' size classes in their places; arguments as in `Counted`."""
    counts = [len(known) for _, known, *_ in held]
    # Classes without errors on the right change no range: of several, the first is taken.
    together = np.zeros((sum(counts), max(errors.shape[1] for *_, errors in held)), dtype=np.int64)
    for end, count, (*_, errors) in zip(accumulate(counts), counts, held, strict=True):
        together[end - count : end, : errors.shape[1]] = errors
    owner, first = (np.repeat([each[place] for each in held], counts) for place in (0, 2))
    size = np.concatenate([known for _, known, *_ in held])
    start, stop = (ends + first for ends in range_of(together, shares[owner, size]))
    low[owner, size], high[owner, size] = start, stop


def _with_ends(low: FloatArray, high: FloatArray) -> list[FloatArray]:
    """The same ends, NaN where they reach into the classes of errors without an end."""
    endless = (low <= -ERROR_CLASSES) | (high > ERROR_CLASSES)
    return [np.where(endless, np.nan, low), np.where(endless, np.nan, high)]


def _reach_of(seen: IntArray, most: IntArray, needed: int) -> IntArray:
    """The least reach `(n, size classes)`, at most `most`, at which so many errors were seen; -1 where none is."""
    before = np.pad(np.cumsum(seen, axis=1), ((0, 0), (1, 0)))
    least = np.zeros(seen.shape, dtype=np.int64)
    last = np.broadcast_to(most, seen.shape).copy()
    numbers = np.arange(seen.shape[1])

    def enough(reach: IntArray) -> BoolArray:
        first, stop = _ends(numbers, reach, seen.shape[1])
        within = np.take_along_axis(before, stop, axis=1) - np.take_along_axis(before, first, axis=1)
        return np.asarray(within >= needed)

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


def narrowest(
    errors: IntArray, share: float | FloatArray, *, first: int | None = None, stop: int = 0
) -> tuple[IntArray, IntArray]:
    """The narrowest range that holds the share of each row, of several the fullest; see `RangeOf`.

    Whether some range of a width holds enough is monotone in the width, which is found by bisection.

    Args:
        errors: `(n, classes)`.
        share: of each row, or one.
        first, stop: classes that the range has in any case, from the first one to before `stop`.
    """
    below = np.concatenate([np.zeros((len(errors), 1), dtype=np.int64), np.cumsum(errors, axis=1)], axis=1)
    needed = np.ceil(share * below[:, -1]).astype(np.int64)
    n = errors.shape[1]
    starts = np.arange(n if first is None else first + 1)[None, :]
    least = np.full(len(errors), 1 if first is None else stop - first)
    most = np.full(len(errors), n, dtype=np.int64)

    def held(width: IntArray) -> IntArray:
        after = starts + width[:, None]
        inside = np.take_along_axis(below, np.minimum(after, n), axis=1) - below[:, : starts.shape[1]]
        return np.where((after <= n) & (after >= stop), inside, -1)

    while (least < most).any():
        middle = (least + most) // 2
        enough = held(middle).max(axis=1) >= needed
        most = np.where(enough, middle, most)
        least = np.where(enough, least, np.minimum(middle + 1, most))
    begun = held(most).argmax(axis=1)
    return begun, begun + most


def central(errors: IntArray, share: float | FloatArray) -> tuple[IntArray, IntArray]:
    """The range with half of what the share leaves on either side of it, in each row."""
    below = np.cumsum(errors, axis=1)
    outside = (0.5 * (1.0 - np.asarray(share)) * below[:, -1])[:, None]
    return (below <= outside).sum(axis=1), 1 + (below < below[:, -1:] - outside).sum(axis=1)


def united(
    by_truth: Ranges, by_release: Ranges, unit: int, cells: IntArray, released: IntArray
) -> tuple[FloatArray, FloatArray]:
    """The union of both intervals of released counts `(n,)` of some cells; NaN where too few errors were seen.

    Args:
        by_truth: r - t by the size of t.
        by_release: t - r by the size of r.
        unit: persons in a class of errors.
        cells: answers of the table's query, `(n,)`.
        released: the counts r.
    """
    low, high = np.full(len(cells), np.nan), np.full(len(cells), np.nan)
    for first in range(0, len(cells), _CHUNK_COUNTS):
        rows = slice(first, first + _CHUNK_COUNTS)
        cell, count = cells[rows], released[rows]
        least, most = inverted(unit * by_truth.low[cell], unit * by_truth.high[cell] - 1, count)
        size = size_class(count)
        low[rows] = np.fmin(least, count + unit * by_release.low[cell, size])
        high[rows] = np.fmax(most, count + unit * by_release.high[cell, size] - 1)
    return low, high


def inverted_places(by_truth: Ranges, unit: int, cells: IntArray, released: IntArray) -> tuple[FloatArray, FloatArray]:
    """The interval by inversion alone of released counts `(n,)` of some cells; arguments as in `united`."""
    low, high = np.full(len(cells), np.nan), np.full(len(cells), np.nan)
    for first in range(0, len(cells), _CHUNK_COUNTS):
        rows = slice(first, first + _CHUNK_COUNTS)
        least, most = unit * by_truth.low[cells[rows]], unit * by_truth.high[cells[rows]] - 1
        low[rows], high[rows] = inverted(least, most, released[rows])
    return low, high


def inverted(low: FloatArray, high: FloatArray, released: IntArray) -> tuple[FloatArray, FloatArray]:
    """The least and the most truth of which each released count `(n,)` is usual.

    Args:
        low, high: `(n, size classes)` usual errors r - t of truths of each size.
        released: the counts r.
    """
    least, most = SIZE_CLASSES, np.append(SIZE_CLASSES[1:] - 1, np.iinfo(np.int32).max)
    with np.errstate(invalid="ignore"):
        top = np.minimum(released[:, None] - low, most)
        bottom = np.maximum(released[:, None] - high, least)
        usual: BoolArray = (top >= least) & (bottom <= most)
    top, bottom = np.where(usual, top, -np.inf).max(axis=1), np.where(usual, bottom, np.inf).min(axis=1)
    return np.where(np.isfinite(bottom), bottom, np.nan), np.where(np.isfinite(top), top, np.nan)
