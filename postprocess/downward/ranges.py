"""Ranges of simulated errors: for each cell and size class, the narrowest, or the central, that holds a share of them.

Simulated errors within reach of a size: of a cell, or of several whose errors are taken together.

Sizes and cells with too few simulated errors take those of their neighbours in size, then of cells that are about as
frequent, then of the whole table; where that has too few, it makes do with fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postprocess.algebra import chunks
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.downward.simulated_margins import ALONE, ENOUGH, ERROR_CLASSES, SIZE_CLASSES, SizedErrors, size_class

#: Counted errors whose ranges are looked for at once.
_CHUNK_ERRORS = 1_000_000

#: Counts `(n, classes)`, shares and the error of each row's first class `(n,)` -> the ends of a range that holds the
#: share of each row: first class, one after.
RangeOf = Callable[[IntArray, FloatArray, IntArray], tuple[IntArray, IntArray]]
#: Cells whose errors are taken together: the owner of each cell `(n_cells,)`; how far each size looks for errors; how
#: many are needed of a size, and of all sizes.
Kind = tuple[IntArray, IntArray, int, float]
#: Errors within reach of some size classes of some owners: owner, size class and class of the first error, `(n,)` each,
#: and how often each error was seen, `(n, classes)`.
Chunk = tuple[IntArray, IntArray, IntArray, IntArray]


def _chunks(errors: tuple[IntArray, IntArray, IntArray, IntArray], reach: IntArray, used: BoolArray) -> Iterator[Chunk]:
    """The errors within reach of the size classes that are used.

    Args:
        errors: owner, size class, class of the error, and how often, `(n,)` each.
        reach: how far each size class of each owner looks for errors, `(owners, size classes)`.
        used: the same shape.
    """
    owner, sizes, error, times = errors
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(len(used) + 1))
    windows: list[Chunk] = []
    numbers = widest = 0
    for number in np.flatnonzero(used.any(axis=1)):
        known, chosen = np.flatnonzero(used[number]), order[starts[number] : starts[number + 1]]
        least = int(error[chosen].min())
        width = int(error[chosen].max()) - least + 1
        places = sizes[chosen] * width + error[chosen] - least
        of_sizes = np.bincount(places, times[chosen], len(SIZE_CLASSES) * width).astype(np.int64).reshape(-1, width)
        before = np.concatenate([np.zeros((1, width), dtype=np.int64), np.cumsum(of_sizes, axis=0)])
        first, last = _ends(known, reach[number, known], len(of_sizes))
        windows.append((np.full_like(known, number), known, np.full_like(known, least), before[last] - before[first]))
        numbers, widest = numbers + len(known), max(widest, width)
        if numbers * widest > _CHUNK_ERRORS:
            yield _side_by_side(windows, widest)
            windows, numbers, widest = [], 0, 0
    if windows:
        yield _side_by_side(windows, widest)


def _side_by_side(windows: Sequence[Chunk], width: int) -> Chunk:
    """One chunk of several; classes without errors on the right change no range: of several, the first is taken."""
    owner, size, first = (np.concatenate([each[place] for each in windows]) for place in range(3))
    errors = [np.pad(each, ((0, 0), (0, width - each.shape[1]))) for *_, each in windows]
    return owner, size, first, np.concatenate(errors)


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


#: How far a size class may look to both sides for errors: a third of the size, then half an octave.
REACH_OF_SIZES = np.where(SIZE_CLASSES <= ALONE, np.maximum(1, SIZE_CLASSES // 3), 4)
REACH_OF_SIZES[0] = 0
#: Any distance, but for counts of 0, which are unlike all others.
_ANY = np.where(SIZE_CLASSES > 0, len(SIZE_CLASSES), 0)
#: Errors that a quantile needs where a whole table has no `ENOUGH` of them.
FEWER = 100
#: Pairs of size classes and released counts held at once.
_CHUNK_COUNTS = 20_000
#: Errors of one kind of owners that are held, at most.
_HELD = 8_000_000


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
        cls, errors: SizedErrors, n_cells: int, range_of: RangeOf, shares: float | FloatArray, *, kept: bool = False
    ) -> Ranges:
        """From the errors of a table with `n_cells` answers; see `Windows`."""
        kinds = usual_kinds(errors, cell_groups(errors, n_cells))
        return Windows.of(errors, kinds).ranges(range_of, shares, kept=kept)


@dataclass(frozen=True, eq=False)
class Windows:
    """Where ranges are looked for: in errors of a cell's own, or of cells like it, or of all, where it has too few.

    Attributes:
        owners: of each kind, from what is always there to what fits best.
    """

    owners: tuple[_Owners, ...]

    @classmethod
    def of(
        cls,
        errors: SizedErrors,
        kinds: Sequence[Kind],
        *,
        sizes: BoolArray | None = None,
        held: bool = False,
    ) -> Windows:
        """The ranges of a table.

        Args:
            errors: of the table.
            kinds: of owners, from what is always there to what fits best.
            sizes: which size classes ranges are looked for in, `(size classes,)`; by default all.
            held: the errors are kept in memory, where they are not too many: they are used several times.
        """
        cells, size, error = errors.parts()
        left = np.broadcast_to(True if sizes is None else sizes, (len(kinds[0][0]), len(SIZE_CLASSES))).copy()
        owners: list[_Owners] = []
        for of_cells, most, needed, in_all in reversed(kinds):
            owner, n = of_cells[cells], int(of_cells.max()) + 1
            places = owner * len(SIZE_CLASSES) + size
            seen = np.bincount(places, errors.times, n * len(SIZE_CLASSES)).astype(np.int64).reshape(n, -1)
            reach = np.where(seen.sum(axis=1, keepdims=True) < in_all, -1, _reach_of(seen, most, needed))
            mine = left & (reach >= 0)[of_cells]
            left &= ~mine
            found = partial(_chunks, (owner, size, error, errors.times), reach, _largest(of_cells, mine))
            owners.append(_Owners(of_cells, mine, _kept(found) if held else found))
        return cls(tuple(reversed(owners)))

    def ranges(self, range_of: RangeOf, shares: float | FloatArray, *, kept: bool = False) -> Ranges:
        """The ranges of each cell and size class; NaN where none is known.

        Args:
            range_of: what is looked for.
            shares: what ranges hold of the errors, `(n_cells, size classes)` or one; of cells whose errors are taken
                together the largest.
            kept: a range that reaches into the classes of errors without an end is that far at least, and is kept.
        """
        shape = self.owners[0].mine.shape
        ranges = Ranges(np.full(shape, np.nan), np.full(shape, np.nan))
        shares = np.broadcast_to(shares, shape)
        for owners in self.owners:
            found = owners.ends(range_of, shares)
            ends = found if kept else _with_ends(*found)
            for of_cells, of_owners in zip((ranges.low, ranges.high), ends, strict=True):
                np.copyto(of_cells, of_owners[owners.of_cells], where=owners.mine)
        return ranges


@dataclass(frozen=True, eq=False)
class _Owners:
    """One kind of owners, and which cells take their ranges from them.

    Attributes:
        of_cells: the number of the owner of each cell, `(n_cells,)`.
        mine: `(n_cells, size classes)` which do.
        chunks: gives the errors that are used.
    """

    of_cells: IntArray
    mine: BoolArray
    chunks: Callable[[], Iterable[Chunk]]

    def ends(self, range_of: RangeOf, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The ends of the ranges that are used, `(owners, size classes)`, for the shares `(n_cells, size classes)`."""
        most = _largest(self.of_cells, shares)
        low, high = np.full((2, *most.shape), np.nan)
        for owner, size, first, errors in self.chunks():
            start, stop = range_of(errors, most[owner, size], first)
            low[owner, size], high[owner, size] = start + first, stop + first
        return low, high


def _kept(chunks: Callable[[], Iterable[Chunk]]) -> Callable[[], Iterable[Chunk]]:
    """The same, held in memory if they have at most `_HELD` numbers."""
    found, numbers = [], 0
    for chunk in chunks():
        found.append(chunk)
        numbers += chunk[-1].size
        if numbers > _HELD:
            return chunks
    return lambda: found


def _largest(of_cells: IntArray, values: NDArray[Any]) -> NDArray[Any]:
    """The largest value of each owner's cells, `(owners, size classes)`, of those of cells; every owner has some."""
    order = np.argsort(of_cells, kind="stable")
    begun = np.flatnonzero(np.diff(of_cells[order], prepend=-1))
    return np.maximum.reduceat(values[order], begun, axis=0)


def usual_kinds(errors: SizedErrors, group: IntArray) -> list[Kind]:
    """Owners of a table's errors: all cells; those that are alike, of a `group` `(n_cells,)`; each by itself."""
    each, size = np.arange(len(group)), errors.parts()[1]
    few = any(0 < errors.times[which].sum() < ENOUGH for which in (size == 0, size > 0))
    return [
        *([(0 * each, _ANY, FEWER, 0.0)] if few else []),
        (0 * each, _ANY, ENOUGH, 0.0),
        (group, _ANY, ENOUGH, 0.0),
        (group, REACH_OF_SIZES, ENOUGH, 0.0),
        (each, REACH_OF_SIZES, ENOUGH, 0.0),
    ]


def cell_groups(errors: SizedErrors, n_cells: int) -> IntArray:
    """A number for each cell, the same for cells that are about as frequent; each number has enough errors.

    Cells are alike if their mean counts are within the same power of 4; the rarest are taken together as far as needed.
    """
    (cells, sizes, _), times = errors.parts(), errors.times
    total = np.bincount(cells, weights=SIZE_CLASSES[sizes] * times, minlength=n_cells)
    mean = total / np.maximum(1, np.bincount(cells, weights=times, minlength=n_cells))
    powers, power = np.unique(np.floor(np.log2(np.maximum(mean, 1e-9)) / 2 + 1e-9), return_inverse=True)
    seen = np.bincount(power[cells], weights=np.where(sizes > 0, times, 0), minlength=len(powers))
    # A power begins a number of its own if those before it have enough, and it and those after it have.
    before = np.concatenate([[0.0], np.cumsum(seen)])
    number, begun, numbers = 0, 0.0, np.zeros(len(powers), dtype=np.int64)
    for place in range(len(powers)):
        if before[place] - begun >= ENOUGH and before[-1] - before[place] >= ENOUGH:
            number, begun = number + 1, float(before[place])
        numbers[place] = number
    return numbers[power]


def _with_ends(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same ends, NaN where they reach into the classes of errors without an end."""
    endless = (low <= -ERROR_CLASSES) | (high > ERROR_CLASSES)
    return np.where(endless, np.nan, low), np.where(endless, np.nan, high)


def narrowest(
    errors: IntArray, share: float | FloatArray, first: int | IntArray = 0, *, must: tuple[int, int] | None = None
) -> tuple[IntArray, IntArray]:
    """The narrowest range that holds the share of each row, of several the fullest; see `RangeOf`.

    Whether some range of a width holds enough is monotone in the width, which is found by bisection.

    Args:
        errors: `(n, classes)`.
        share: of each row, or one.
        first: the error of the first class, of each row, or one.
        must: errors that the range has in any case, from the one to before the other.
    """
    begin, stop, left = np.full(len(errors), errors.shape[1]), np.zeros(len(errors), dtype=np.int64), 0
    least = np.ones(len(errors), dtype=np.int64)
    if must is not None:
        begin, stop = (each - first + 0 * stop for each in must)
        left, right = max(0, -int(begin.min(initial=0))), max(0, int(stop.max(initial=0)) - errors.shape[1])
        errors, begin, stop, least = np.pad(errors, ((0, 0), (left, right))), begin + left, stop + left, stop - begin
    below = np.concatenate([np.zeros((len(errors), 1), dtype=np.int64), np.cumsum(errors, axis=1)], axis=1)
    needed = np.ceil(share * below[:, -1]).astype(np.int64)
    n = errors.shape[1]
    starts, most = np.arange(n)[None, :], np.full(len(errors), n, dtype=np.int64)
    early = starts <= begin[:, None]

    def held(width: IntArray) -> IntArray:
        after = starts + width[:, None]
        inside = np.take_along_axis(below, np.minimum(after, n), axis=1) - below[:, :-1]
        return np.where(early & (after <= n) & (after >= stop[:, None]), inside, -1)

    while (least < most).any():
        middle = (least + most) // 2
        enough = held(middle).max(axis=1) >= needed
        most = np.where(enough, middle, most)
        least = np.where(enough, least, np.minimum(middle + 1, most))
    begun = held(most).argmax(axis=1) - left
    return begun, begun + most


def central(errors: IntArray, share: float | FloatArray, _: int | IntArray = 0) -> tuple[IntArray, IntArray]:
    """The range with half of what the share leaves on either side of it, in each row; see `RangeOf`."""
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
    low, high = inverted_places(by_truth, unit, cells, released)
    size = size_class(released)
    low = np.fmin(low, released + unit * by_release.low[cells, size])
    high = np.fmax(high, released + unit * by_release.high[cells, size] - 1)
    return low, high


def inverted_places(by_truth: Ranges, unit: int, cells: IntArray, released: IntArray) -> tuple[FloatArray, FloatArray]:
    """The interval by inversion alone of released counts `(n,)` of some cells; arguments as in `united`."""
    low, high = np.full(len(cells), np.nan), np.full(len(cells), np.nan)
    for rows in chunks(len(cells), 1, _CHUNK_COUNTS):
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
