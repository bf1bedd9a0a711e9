"""Intervals beside published counts: which truths go with a released number, at 90 %.

A released count that is not large (`LARGE` standard errors above zero) gets the union of two intervals:

- by inverting the test (Neyman 1937): every truth t of which this release is not unusual, that is, among the narrowest
  range that holds `SIMULATED_COVERAGE` of the simulated releases of truths of that size. It covers the truth whatever
  its size;
- from the released number: the narrowest range that holds that share of the simulated t - r of releases of its size.
  It holds for readers who start from what is published, where most small numbers are not what they seem.

A large count gets its standard error by the exact linear variance, times the quantiles of the simulated errors in
standard errors of counts of its size, one to each side: where small counts become 0, large ones beside them grow. Sizes
and cells with too few simulated errors take those of their neighbours in size, then of the whole table. Whatever is not
certain has an interval of at least one person to each side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np

from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray, IntArray, distinct_places
from postprocess.downward.simulated_margins import (
    ALONE,
    ENOUGH,
    ERROR_CLASSES,
    SIMULATED_COVERAGE,
    SIZE_CLASSES,
    STEP,
    ErrorCounts,
    PublishedTable,
    SizedErrors,
    evenly,
    is_large,
    size_class,
    standard_errors,
)
from postprocess.linear.downward import AnswerVariances, LevelVariances
from postprocess.linear.half_widths import NORMAL_QUANTILE, is_exact

#: How far a size class may look to both sides for errors: a third of the size, then half an octave.
REACH_OF_SIZES = np.where(SIZE_CLASSES <= ALONE, np.maximum(1, SIZE_CLASSES // 3), 4)
REACH_OF_SIZES[0] = 0
#: Any distance, but for counts of 0, which are unlike all others.
_ANY = np.where(SIZE_CLASSES > 0, len(SIZE_CLASSES), 0)
#: Pairs of size classes and released counts held at once.
_CHUNK_COUNTS = 20_000
#: Counted errors whose ranges are looked for at once.
_CHUNK_ERRORS = 1_000_000


#: Counts `(n, classes)` -> the ends of a range that holds so much of each row: first class, one after.
RangeOf = Callable[[IntArray], tuple[IntArray, IntArray]]


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
    def of(cls, errors: SizedErrors, n_cells: int, range_of: RangeOf, *, kept: bool = False) -> Ranges:
        """From the errors of a table: of a cell's own, or of cells like it, or of all, where it has too few.

        Args:
            errors: of the table.
            n_cells: answers of its query.
            range_of: what is looked for.
            kept: a range that reaches into the classes of errors without an end is that far at least, and is kept.
        """
        cells, sizes, error = errors.parts()
        ranges = cls(*(np.full((n_cells, len(SIZE_CLASSES)), np.nan) for _ in range(2)))
        alike = _alike(cells, sizes, errors.times, n_cells)
        each = np.arange(n_cells)
        owners = [(0 * alike, _ANY), (alike, _ANY), (alike, REACH_OF_SIZES), (each, REACH_OF_SIZES)]
        for owner, most in owners:  # from what is always there to what fits best
            counted = Counted(owner[cells], sizes, error, errors.times, int(owner.max()) + 1)
            known, *ends = counted.ends(most, range_of)
            if not kept:
                ends = _with_ends(*ends)
            for mine, of_owners in zip((ranges.low, ranges.high), ends, strict=True):
                np.copyto(mine, of_owners[owner], where=known[owner])
        return ranges


def _alike(cells: IntArray, sizes: IntArray, times: IntArray, n_cells: int) -> IntArray:
    """A number for each cell, the same for cells that are about as frequent; each number has enough errors.

    Cells are alike if their mean counts are within the same power of 4; the rarest are taken together as far as needed.
    """
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

    def ends(self, most: IntArray, range_of: RangeOf) -> tuple[BoolArray, FloatArray, FloatArray]:
        """Where enough errors were seen within a reach of at most `most`, and the ends: `(owners, size classes)`."""
        places = self.owner * len(SIZE_CLASSES) + self.sizes
        seen = np.bincount(places, self.times, self.owners * len(SIZE_CLASSES)).astype(np.int64)
        reach = _reach_of(seen.reshape(self.owners, -1), most)
        low, high = np.full(reach.shape, np.nan), np.full(reach.shape, np.nan)
        held: list[tuple[int, IntArray, int, IntArray]] = []
        numbers = widest = 0
        for each in self._windows(reach):
            numbers, widest = numbers + len(each[1]), max(widest, each[3].shape[1])
            held.append(each)
            if numbers * widest > _CHUNK_ERRORS:
                _put_ends(held, range_of, low, high)
                held, numbers, widest = [], 0, 0
        if held:
            _put_ends(held, range_of, low, high)
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
    held: Sequence[tuple[int, IntArray, int, IntArray]], range_of: RangeOf, low: FloatArray, high: FloatArray
) -> None:
    """Put the ends of the ranges of some owners' size classes in their places; arguments as in `Counted`."""
    counts = [len(known) for _, known, *_ in held]
    # Classes without errors on the right change no range: of several, the first is taken.
    together = np.zeros((sum(counts), max(errors.shape[1] for *_, errors in held)), dtype=np.int64)
    for end, count, (*_, errors) in zip(accumulate(counts), counts, held, strict=True):
        together[end - count : end, : errors.shape[1]] = errors
    owner, first = (np.repeat([each[place] for each in held], counts) for place in (0, 2))
    size = np.concatenate([known for _, known, *_ in held])
    start, stop = (ends + first for ends in range_of(together))
    low[owner, size], high[owner, size] = start, stop


def _with_ends(low: FloatArray, high: FloatArray) -> list[FloatArray]:
    """The same ends, NaN where they reach into the classes of errors without an end."""
    endless = (low <= -ERROR_CLASSES) | (high > ERROR_CLASSES)
    return [np.where(endless, np.nan, low), np.where(endless, np.nan, high)]


def _reach_of(seen: IntArray, most: IntArray) -> IntArray:
    """The least reach `(n, size classes)`, at most `most`, at which enough errors were seen; -1 where none is."""
    before = np.pad(np.cumsum(seen, axis=1), ((0, 0), (1, 0)))
    least = np.zeros(seen.shape, dtype=np.int64)
    last = np.broadcast_to(most, seen.shape).copy()
    numbers = np.arange(seen.shape[1])

    def enough(reach: IntArray) -> BoolArray:
        first, stop = _ends(numbers, reach, seen.shape[1])
        within = np.take_along_axis(before, stop, axis=1) - np.take_along_axis(before, first, axis=1)
        return np.asarray(within >= ENOUGH)

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


def _narrowest(errors: IntArray, share: float = SIMULATED_COVERAGE) -> tuple[IntArray, IntArray]:
    """The narrowest range that holds the share of each row, of several the fullest; see `RangeOf`.

    Whether some range of a width holds enough is monotone in the width, which is found by bisection.
    """
    below = np.concatenate([np.zeros((len(errors), 1), dtype=np.int64), np.cumsum(errors, axis=1)], axis=1)
    needed = np.ceil(share * below[:, -1]).astype(np.int64)
    n = errors.shape[1]
    least, most = np.ones(len(errors), dtype=np.int64), np.full(len(errors), n, dtype=np.int64)
    start = np.arange(n)[None, :]

    def held(width: IntArray) -> IntArray:
        stop = start + width[:, None]
        inside = np.take_along_axis(below, np.minimum(stop, n), axis=1) - below[:, :-1]
        return np.where(stop <= n, inside, -1)

    while (least < most).any():
        middle = (least + most) // 2
        enough = held(middle).max(axis=1) >= needed
        most = np.where(enough, middle, most)
        least = np.where(enough, least, np.minimum(middle + 1, most))
    first = held(most).argmax(axis=1)
    return first, first + most


def _central(errors: IntArray, share: float = SIMULATED_COVERAGE) -> tuple[IntArray, IntArray]:
    """The range with half of what the share leaves on either side of it, in each row."""
    below = np.cumsum(errors, axis=1)
    outside = 0.5 * (1.0 - share) * below[:, -1:]
    return (below <= outside).sum(axis=1), 1 + (below < below[:, -1:] - outside).sum(axis=1)


@dataclass(frozen=True, eq=False)
class Intervals:
    """The intervals of one table at one level.

    Attributes:
        table: which.
        errors: of the simulated runs.
    """

    table: PublishedTable
    errors: ErrorCounts

    def ends(
        self, basis: Basis, variances: LevelVariances | AnswerVariances, released: IntArray, rows: slice
    ) -> tuple[FloatArray, FloatArray]:
        """The least and the most that the truth may be, `(n, cells)`, for the released counts of some geounits.

        NaN where the measurements do not determine the answer: simulated errors say nothing about it, since a simulated
        run starts from the release, which is not tied to the truth there.

        Args:
            basis: of the problem.
            variances: of the level, or of some of its geounits.
            released: `(n, cells)`.
            rows: which geounits of `variances` these are.
        """
        standard = standard_errors(self.table, basis, variances)[variances.classes[rows]]
        small = ~is_large(released, standard) & ~np.isnan(standard) & ~is_exact(standard)
        places, inverse = distinct_places(np.nonzero(small)[1] * (1 + int(released.max(initial=0))) + released[small])
        by_size = self._by_size(*np.divmod(places, 1 + int(released.max(initial=0))))
        low, high = np.full(released.shape, np.nan), np.full(released.shape, np.nan)
        for ends, of_size in zip((low, high), by_size, strict=True):
            ends[small] = of_size[inverse]
        left = np.isnan(low) | np.isnan(high)
        for ends, by_variance in zip((low, high), self._by_variance(left, released, standard), strict=True):
            ends[left] = np.where(np.isnan(ends[left]), by_variance, ends[left])
        low, high = np.minimum(low, released - 1), np.maximum(high, released + 1)
        exact = is_exact(standard)
        low = np.where(exact, released, np.maximum(low, 0))
        high = np.where(exact, released, high)
        unknown = np.isnan(standard)
        return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)

    def large(
        self, basis: Basis, variances: LevelVariances | AnswerVariances, released: IntArray, rows: slice
    ) -> BoolArray:
        """Which released numbers `(n, cells)` are so far above 0 that non-negativity does not bite; as `ends`."""
        standard = standard_errors(self.table, basis, variances)[variances.classes[rows]]
        return is_large(released, standard)

    def _by_variance(self, which: BoolArray, released: IntArray, standard: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The ends of some numbers by their standard errors: as many whole numbers as the width is, right on average.

        To round up always would cover up to 97 % where the standard error is a person or two.
        """
        cell, released, standard = np.nonzero(which)[1], released[which], standard[which]
        size = size_class(released)
        least, most = self._in_steps.low[cell, size], self._in_steps.high[cell, size]
        few = np.isnan(least) | np.isnan(most)
        least = np.where(few, -NORMAL_QUANTILE, (least + 0.5) * STEP) * standard
        most = np.where(few, NORMAL_QUANTILE, (most - 0.5) * STEP) * standard
        numbers = np.floor(most - least + evenly(released, cell))
        # Whole numbers about the middle of what the truth may be.
        low = np.floor(released - 0.5 * (least + most) - 0.5 * numbers + 1.0)
        return low, low + numbers - 1

    @cached_property
    def _in_steps(self) -> Ranges:
        return Ranges.of(self.errors.large, self.table.marginal.size, _central, kept=True)

    @cached_property
    def _by_truth(self) -> Ranges:
        return Ranges.of(self.errors.by_truth, self.table.marginal.size, _narrowest)

    @cached_property
    def _by_release(self) -> Ranges:
        return Ranges.of(self.errors.by_release, self.table.marginal.size, _narrowest)

    def _by_size(self, cells: IntArray, released: IntArray) -> tuple[FloatArray, FloatArray]:
        """The union of both intervals for some cells' released counts; NaN where too few errors were seen."""
        low, high, unit = np.full(len(cells), np.nan), np.full(len(cells), np.nan), self.errors.unit
        for first in range(0, len(cells), _CHUNK_COUNTS):
            rows = slice(first, first + _CHUNK_COUNTS)
            cell, count = cells[rows], released[rows]
            inverted = _inverted(unit * self._by_truth.low[cell], unit * self._by_truth.high[cell] - 1, count)
            size = size_class(count)
            low[rows] = np.fmin(inverted[0], count + unit * self._by_release.low[cell, size])
            high[rows] = np.fmax(inverted[1], count + unit * self._by_release.high[cell, size] - 1)
        return low, high


def _inverted(low: FloatArray, high: FloatArray, released: IntArray) -> tuple[FloatArray, FloatArray]:
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
