"""Intervals beside published counts, also those made from reports: which truths go with a released number, at 90 %.

A released count that is not large (`LARGE` standard errors above zero) gets the union of two intervals:

- by inverting the test (Neyman 1937): every truth t of which this release is not unusual, that is, among the narrowest
  range that holds `SIMULATED_COVERAGE` of the simulated releases of truths of that size. It covers the truth whatever
  its size;
- from the released number: the narrowest range that holds that share of the simulated t - r of releases of its size.
  It holds for readers who start from what is published, where most small numbers are not what they seem.

Where both together hold more than they need to, each holds less (see below).

A large count gets its standard error by the exact linear variance, times the quantiles of the simulated errors in
standard errors of counts of its size, one to each side: where small counts become 0, large ones beside them grow. Sizes
and cells with too few simulated errors take those of their neighbours in size, then of the whole table; where that has
too few as well, quantiles are the normal ones, with what whole numbers add to the variance (`ROUNDED`). Whatever is not
certain has an interval of at least one person to each side.

Of sums of an amount, where a large number stands apart, as the few largest of a table of small ones do, such a release
is mostly of a smaller truth, and a truth of its size is not released much larger. Where inversion reaches further than
the quantiles by `APART` standard errors or more, the interval does too (of numbers up to `LARGEST` standard errors).

The two intervals of a small count hold so much that their union covers what it is to cover, and little more. Where
noise is large beside the counts, what a truth is released as is quite unlike what a release comes from: each of the
two intervals holds `SIMULATED_COVERAGE` of the errors, and their union up to 98 %. The simulated pairs (t, r) tell
how much it covers, by the size of t and by the size of r. Where that is too much by both, the shares are taken down:
that of the usual releases of a truth by what truths of its size show, and that of the usual truths of a release by
what releases of that size do.

Cells that are about as frequent have shares of their own in each octave of sizes, where enough pairs were seen: so a
frequent group never makes the intervals of a rare one shorter. Only of tables whose numbers are known not to be moved
(`postprocess.downward.moved`), half as many pairs are enough, those of all cells where these have fewer.

Intervals beside counts that are made from reports: which truths go with a released number, at 90 %.

The stand-ins of the truth are drawn around what is known of each cell, so what a released count says of the truth
depends on the cell, and on how many persons are in the area: of a rare answer, or in a small area, a large count says
that noise was at work. So the simulated t - r are counted by cell, by the persons in the area in octaves, and by the
size of r. The first of these that is known makes an interval of the truths of a released count:

- the narrowest range of whole numbers that holds 90 % of the errors of counts of this size, of the cell, else of cells
  about as frequent in such areas; `ENOUGH` errors are needed;
- a line: the truth is taken to be a + b r with normal errors, by least squares on the errors of all sizes, of cells
  about as frequent in such areas; `ON_A_LINE` errors are needed. Where noise is far larger than the differences between
  areas, b is near 0, and where it is far smaller, a is 0 and b is 1;
- the normal distribution around the released count, with the standard error that a count has of such a size.

Ranges and lines need errors of `STAND_INS` areas, or cells of areas.

An area that is unlike the others is not what these say. Where its own debiased count is `UNLIKE` standard errors from
the counts of such areas, the interval reaches to where the truth is by this count alone.

Each interval has the released number and a person to each side of it, as far as there can be: a range is the narrowest
that has them, so that it holds no more than it should for their sake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.special import ndtr, ndtri

from postprocess.algebra import chunks
from postprocess.arrays import BoolArray, Ends, FloatArray, IntArray, distinct_places
from postprocess.downward.ranges import (
    REACH_OF_SIZES,
    Ranges,
    Windows,
    cell_groups,
    central,
    inverted_places,
    narrowest,
    united,
    usual_kinds,
)
from postprocess.downward.simulated_margins import (
    ENOUGH,
    LARGE_COVERAGE,
    MIDDLES,
    SIMULATED_COVERAGE,
    SIZE_CLASSES,
    STEP,
    ErrorCounts,
    OwnErrors,
    PublishedTable,
    SizedErrors,
    is_large,
    n_owners,
    octave_of,
    owners_of,
    size_class,
    units_of,
    variances_of,
    whole_ends,
)
from postprocess.statistics import COVERAGE, NORMAL_QUANTILE, holding, is_exact

#: Standard errors by which the two ends of a large sum differ where it stands apart, and up to which it is looked at:
#: inversion takes errors of all geounits of a level together, whatever the standard error of each.
APART, LARGEST = 0.5, 8.0
#: What whole numbers add to a variance, in persons squared: that of rounding a release to them, 1/12, and as much again
#: for an interval that has so many whole numbers on average. Simulated errors are whole and are spread over their unit,
#: so they have both.
ROUNDED = 1 / 6
#: Numbers that are worked on together, so that they stay in a processor's cache.
_AT_ONCE = 1 << 17


@dataclass(frozen=True, eq=False)
class Intervals:
    """The intervals of one table at one level.

    Attributes:
        table: which.
        errors: of the simulated runs.
        of_sums: whether its numbers are sums of an amount.
        pooled: whether cells may be narrowed by what all cells show together; see `narrowed`.
    """

    table: PublishedTable
    errors: ErrorCounts
    of_sums: bool = False
    pooled: bool = False

    def ends(self, released: IntArray, standard: FloatArray) -> Ends:
        """The least and the most that the truth may be, for the released counts of some geounits.

        NaN where the measurements do not determine the answer: simulated errors say nothing about it, since a simulated
        run starts from the release, which is not tied to the truth there.

        Args:
            released: `(n, cells)`.
            standard: their standard errors; NaN where they are not determined.
        """
        low, high = np.empty(released.shape), np.empty(released.shape)
        for part in chunks(released.shape[0], released.shape[1], _AT_ONCE):
            low[part], high[part] = self._ends(released[part], standard[part])
        return low, high

    def _ends(self, released: IntArray, standard: FloatArray) -> Ends:
        """The same of few geounits."""
        small = ~is_large(released, standard) & ~np.isnan(standard) & ~is_exact(standard)
        low, high = np.full((2, *released.shape), np.nan)
        # NaN where too few errors were seen.
        low[small], high[small] = _of_distinct(partial(united, *self._ranges, self.errors.unit), small, released)
        left = np.isnan(low) | np.isnan(high)
        for ends, by_variance in zip((low, high), self._by_variance(left, released, standard), strict=True):
            ends[left] = np.where(np.isnan(ends[left]), by_variance, ends[left])
        if self.of_sums:
            self._reach_truths(low, high, released, standard)
        return _with_neighbours(low, high, released, standard)

    def prepared(self) -> Intervals:
        """The same, with all worked out that does not depend on any one number; it can be sent to another process."""
        _ = self._ranges, self._in_steps, self.of_sums and self._of_truths
        return self

    def _by_variance(self, which: BoolArray, released: IntArray, standard: FloatArray) -> Ends:
        """The ends of some numbers by their standard errors: as many whole numbers as the width is, right on average.

        To round up always would cover up to 97 % where the standard error is a person or two.
        """
        cell, released, standard = np.nonzero(which)[1], released[which], standard[which]
        size = size_class(released)
        least, most = self._in_steps.low[cell, size], self._in_steps.high[cell, size]
        few = np.isnan(least) | np.isnan(most)
        reach = NORMAL_QUANTILE * np.sqrt(standard**2 + ROUNDED)
        least = np.where(few, -reach, (least + 0.5) * STEP * standard)
        most = np.where(few, reach, (most - 0.5) * STEP * standard)
        return whole_ends(released - 0.5 * (least + most), most - least, released, cell)

    def _reach_truths(self, low: FloatArray, high: FloatArray, released: IntArray, standard: FloatArray) -> None:
        """Put the ends of large sums that stand apart where inversion has them; in place."""
        some = is_large(released, standard) & ~is_large(released, standard, LARGEST)
        if not some.any():
            return
        by_inversion = partial(inverted_places, self._of_truths, self.errors.unit)
        least, most = _of_distinct(by_inversion, some, released)
        least_distance = APART * standard[some]
        low[some] = np.where(least < low[some] - least_distance, least, low[some])
        high[some] = np.where(most > high[some] + least_distance, most, high[some])

    @cached_property
    def _in_steps(self) -> Ranges:
        return Ranges.of(self.errors.large, self.table.marginal.size, central, LARGE_COVERAGE, kept=True)

    @cached_property
    def _of_truths(self) -> Ranges:
        """Of usual releases of each truth, with all that they hold: pairs of usual sizes say nothing of the largest."""
        return Ranges.of(self.errors.by_truth, self.table.marginal.size, narrowest, SIMULATED_COVERAGE)

    @cached_property
    def _ranges(self) -> tuple[Ranges, Ranges]:
        """Of usual releases of each truth, and of usual truths of each release."""
        return narrowed(self.errors, self.table.marginal.size, pooled=self.pooled)


def _of_distinct(rule: Callable[[IntArray, IntArray], Ends], which: BoolArray, released: IntArray) -> Ends:
    """The ends of some released counts `(n, cells)` by a rule of cells and counts, asked once for each pair."""
    many = 1 + int(released.max(initial=0))
    places, inverse = distinct_places(np.nonzero(which)[1] * many + released[which])
    low, high = rule(*np.divmod(places, many))
    return low[inverse], high[inverse]


def _with_neighbours(
    low: FloatArray, high: FloatArray, released: IntArray, standard: FloatArray, most: IntArray | float = np.inf
) -> Ends:
    """The ends with the released count and a person to each side, from 0 to `most`; of what is exact the count alone.

    NaN where no standard error is known.
    """
    exact, unknown = is_exact(standard), np.isnan(standard)
    low, high = holding(low, high, released)
    low, high = np.where(exact, released, low), np.where(exact, released, np.minimum(high, most))
    return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)


#: From which size on shares are taken down. Runs start from a release, whose smallest counts are unlike the truth's.
FIRST = 8
#: What the union is to hold of the simulated pairs where it is narrowed, and by how much more it holds before it is.
GOAL, SPARE = 0.91, 0.025
#: The same where pairs of all cells tell: of tables that are not moved, whose simulated pairs hold less than truths.
POOLED_GOAL = 0.90
#: The least share that a range holds.
LEAST = 0.4
#: How often shares are changed; by how much of what is held too much, of a truth's releases and of a release's truths;
#: and by how much less each time.
_ROUNDS, _STEPS, _DAMPED = 6, (2.5, 1.5), 0.5
#: Lower ends of the octaves, and the size classes in which a share is that of its octave; in between it changes evenly.
_OCTAVES: IntArray = FIRST * 2 ** np.arange(int(SIZE_CLASSES[-1] // FIRST).bit_length() - 1)
_AT = size_class(np.append(FIRST // 2, 3 * _OCTAVES // 2))


def narrowed(errors: ErrorCounts, n_cells: int, *, pooled: bool = False) -> tuple[Ranges, Ranges]:
    """The ranges of r - t by the size of t, and of t - r by the size of r, whose union is the interval of r.

    Args:
        errors: of the table.
        n_cells: answers of its query.
        pooled: half as many pairs are enough, those of all cells together where cells that are alike have fewer, and
            `POOLED_GOAL` is aimed at.
    """
    both = errors.by_truth, errors.by_release
    ranges = [Ranges.of(each, n_cells, narrowest, SIMULATED_COVERAGE) for each in both]
    group = cell_groups(errors.by_release, n_cells)
    pairs = _Pairs.of(errors.by_release, errors.unit, group)
    covered = pairs.covered(*ranges, pooled=pooled)
    wide = covered.min(axis=0) > GOAL + SPARE
    if not wide.any():
        return ranges[0], ranges[1]
    # Only cells of which something changes are looked at again, but where all show it together.
    chosen = wide.any(axis=1)[group]
    parts = [_of_cells(each, chosen) for each in both]
    if not pooled:
        pairs = _Pairs.of(parts[1], errors.unit, group)
    shares = np.full((2, *wide.shape), SIMULATED_COVERAGE)
    larger = SIZE_CLASSES > FIRST // 2
    rows, sizes = np.flatnonzero(chosen)[:, None], np.flatnonzero(larger)
    windows = [Windows.of(part, usual_kinds(part, group), sizes=larger, held=True) for part in parts]
    for round_number in range(_ROUNDS):
        if round_number:
            covered = pairs.covered(*ranges, pooled=pooled)
        for number, (window, share, step) in enumerate(zip(windows, shares, _STEPS, strict=True)):
            too_much = (covered[number][wide] - (POOLED_GOAL if pooled else GOAL)) / (1.0 + _DAMPED * round_number)
            share[wide] = np.clip(share[wide] - step * too_much, LEAST, SIMULATED_COVERAGE)
            own = window.ranges(narrowest, _by_size(share)[group])
            low, high = ranges[number].low.copy(), ranges[number].high.copy()
            low[rows, sizes], high[rows, sizes] = own.low[rows, sizes], own.high[rows, sizes]
            ranges[number] = Ranges(low, high)
    return ranges[0], ranges[1]


def _by_size(shares: FloatArray) -> FloatArray:
    """Shares of each size class `(n, size classes)`, of those of octaves `(n, octaves)`."""
    sizes = np.arange(len(SIZE_CLASSES))
    return np.array([np.interp(sizes, _AT, [SIMULATED_COVERAGE, *of_cells]) for of_cells in shares])


def _of_cells(errors: SizedErrors, chosen: BoolArray) -> SizedErrors:
    """Those of some cells; `chosen` is `(cells,)`."""
    mine = chosen[errors.parts()[0]]
    return SizedErrors(errors.places[mine], errors.times[mine])


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Simulated pairs of a truth and a release, as far as sizes are told apart.

    Attributes:
        unit: persons in a class of errors.
        n_groups: how many numbers of alike cells there are.
        cells, released: the releases that there are, `(n_releases,)` each.
        which: the release of each pair, `(n,)`.
        truth: of each pair.
        times: how often it was seen.
        places: `(2, n)`, alike cells and octave by the truth, and by the release; -1 where that is below all octaves.
    """

    unit: int
    n_groups: int
    cells: IntArray
    released: IntArray
    which: IntArray
    truth: IntArray
    times: IntArray
    places: IntArray

    @classmethod
    def of(cls, by_release: SizedErrors, unit: int, group: IntArray) -> _Pairs:
        """Those of errors t - r, where one of both counts is not among the smallest; `group` is `(cells,)`."""
        cells, sizes, error = by_release.parts()
        released = MIDDLES[sizes].astype(np.int64)
        truth = np.maximum(released + error * unit + (unit - 1) // 2, 0)
        some = np.maximum(released, truth) >= FIRST
        cells, released, truth, times = (each[some] for each in (cells, released, truth, by_release.times))
        octaves = np.searchsorted(_OCTAVES, np.stack([truth, released]), side="right") - 1
        places = np.where(octaves < 0, -1, group[cells] * len(_OCTAVES) + octaves)
        most = 1 + int(released.max(initial=0))
        distinct, which = np.unique(cells * most + released, return_inverse=True)
        return cls(unit, int(group.max(initial=-1)) + 1, *np.divmod(distinct, most), which, truth, times, places)

    def covered(self, by_truth: Ranges, by_release: Ranges, *, pooled: bool) -> FloatArray:
        """What the union of both intervals holds, by the octave of the truth and of the release: `(2, alike, octaves)`.

        `GOAL` where too few pairs were seen; see `narrowed`.
        """
        low, high = united(by_truth, by_release, self.unit, self.cells, self.released)
        with np.errstate(invalid="ignore"):
            low, high = np.minimum(low, self.released - 1)[self.which], np.maximum(high, self.released + 1)[self.which]
            inside, known = (low <= self.truth) & (self.truth <= high), ~np.isnan(low) & ~np.isnan(high)
        shape = self.n_groups, len(_OCTAVES)
        out = []
        for places in self.places:
            counted = known & (places >= 0)
            seen, held = (
                np.bincount(places[counted], weights[counted], shape[0] * shape[1]).reshape(shape)
                for weights in (self.times, self.times * inside)
            )
            if pooled:
                seen, held = (np.where(seen >= ENOUGH, own, own.sum(axis=0)) for own in (seen, held))
            needed = ENOUGH if pooled else 2 * ENOUGH
            out.append(np.where(seen >= needed, held / np.maximum(seen, 1.0), GOAL))
        return np.stack(out)


#: Errors that a line needs.
ON_A_LINE = 100
#: Standard errors by which a debiased count is farther from those of other areas than is likely by chance.
UNLIKE = 3.5
#: Stand-ins that errors are of, at least: those of a few areas, simulated many times, show how reports err and not what
#: areas are like.
STAND_INS = 25
#: Whole numbers spread by so much at least around what a line says.
_LEAST_SPREAD = 0.3


@dataclass(frozen=True, eq=False)
class ReportedIntervals:
    """The intervals of one table at one level of a release from reports.

    Attributes:
        table: which.
        errors: of the simulated runs, of reports.
        own: of the reports.
        areas: geounits of the level that have persons.
    """

    table: PublishedTable
    errors: ErrorCounts
    own: OwnErrors
    areas: int

    def ends(self, released: IntArray, standard: FloatArray, alone: FloatArray | None = None) -> Ends:
        """The least and the most that the truth may be, for the released counts of some geounits.

        NaN where the measurements do not determine the answer.

        Args:
            released: `(n, cells)`.
            standard: their standard errors, of an average cell; NaN where they are not determined.
            alone: `(n, cells)` counts from the reports of each geounit alone.
        """
        marginal, persons = self.table.marginal, released.sum(axis=1, keepdims=True)
        cells = np.broadcast_to(np.arange(marginal.size), released.shape)
        standard = standard * self.own(marginal.cell_answer, cells[:1], released, persons, standard)
        many = 1 + int(released.max(initial=0))
        places, inverse = distinct_places((owners_of(cells, persons, marginal.size) * many + released).ravel())
        owner, count = np.divmod(places, many)
        low, high = (ends[inverse].reshape(released.shape) for ends in self._known(owner, count))
        least, most = whole_ends(released, 2 * NORMAL_QUANTILE * standard, released, cells)
        low, high = np.where(np.isnan(low), least, low), np.where(np.isnan(high), most, high)
        if alone is not None:
            low, high = self._reaching(low, high, alone, cells, persons)
        return _with_neighbours(low, high, released, standard, persons)

    def _reaching(
        self, low: FloatArray, high: FloatArray, alone: FloatArray, cells: IntArray, persons: IntArray
    ) -> Ends:
        """The ends, as far as counts alone reach where these are unlike those of such areas."""
        answers = self.table.marginal.cell_answer
        standard = np.sqrt(self.own.variances(answers, cells, persons))
        mean, variance = self._truths
        owner = owners_of(cells, persons, self.table.marginal.size)
        unlike = np.abs(alone - mean[owner]) > UNLIKE * np.sqrt(variance[owner] + standard**2)
        counts = np.clip(np.rint(alone), 0, persons).astype(np.int64)
        reach = NORMAL_QUANTILE * standard * self.own(answers, cells, counts, persons, standard)
        low = np.where(unlike, np.minimum(low, np.ceil(alone - reach)), low)
        return low, np.where(unlike, np.maximum(high, np.floor(alone + reach)), high)

    @cached_property
    def _truths(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of the stand-ins of each owner, `(n_owners,)`; NaN where they are few."""
        owner, _, truth, times = self._pairs
        n = n_owners(self.table.marginal)
        seen = np.bincount(owner, weights=times, minlength=n)
        seen = np.where(seen < self._needed, np.nan, seen)
        mean = np.bincount(owner, weights=times * truth, minlength=n) / seen
        return mean, np.bincount(owner, weights=times * (truth - mean[owner]) ** 2, minlength=n) / seen

    def _known(self, owner: IntArray, count: IntArray) -> Ends:
        """The ends of released counts `(n,)` by simulated errors; NaN where there are too few."""
        size, unit = size_class(count), self._units[owner]
        low, high = self._lines.ends(owner, count)
        first, after = self._ranges.low[owner, size], self._ranges.high[owner, size]
        known = ~np.isnan(first) & ~np.isnan(after)
        return np.where(known, count + unit * first, low), np.where(known, count + unit * after - 1, high)

    @cached_property
    def _units(self) -> IntArray:
        return units_of(self.table.marginal, self.own)

    @cached_property
    def _visits(self) -> float:
        """How often each stand-in was simulated, on average; 1 at least, where only some were."""
        return max(1.0, float(self.errors.by_release.times.sum()) / max(1, self.areas * self.table.marginal.size))

    @cached_property
    def _parts(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Owner, size class, class of the error, and how often."""
        return *self.errors.by_release.parts(), self.errors.by_release.times

    @cached_property
    def _pairs(self) -> tuple[IntArray, FloatArray, FloatArray, IntArray]:
        """Owner, released count, truth, and how often."""
        owner, sizes, error, times = self._parts
        count = MIDDLES[sizes]
        return owner, count, count + self._units[owner] * (error + 0.5) - 0.5, times

    @property
    def _needed(self) -> float:
        """Errors that a line needs."""
        return max(float(ON_A_LINE), STAND_INS * self._visits)

    @cached_property
    def _alike(self) -> IntArray:
        """`(n_owners,)` a number for each owner, the same for cells about as frequent in areas of the same octave.

        These are cells of the same variance whose mean counts are within the same power of 2.
        """
        owner, sizes, _, times = self._parts
        n = n_owners(self.table.marginal)
        total, seen = (np.bincount(owner, weights=w, minlength=n) for w in (MIDDLES[sizes] * times, times))
        octave = octave_of(np.maximum(total / np.maximum(seen, 1), 2.0**-30))
        variance = np.unique(np.round(variances_of(self.table.marginal, self.own), 6), return_inverse=True)[1]
        numbers = (np.arange(n) // self.table.marginal.size) * n + variance
        return np.unique(np.stack([numbers, octave]), axis=1, return_inverse=True)[1].ravel()

    @cached_property
    def _ranges(self) -> Ranges:
        """Of each owner, else of cells that are alike."""
        errors, in_all = self.errors.by_release, STAND_INS * self._visits
        owners = (self._alike, np.arange(n_owners(self.table.marginal)))
        kinds = [(which, REACH_OF_SIZES, ENOUGH, in_all) for which in owners]
        # The released count and a person to each side, as far as there can be.
        zero, others = (
            Windows.of(errors, kinds, sizes=sizes).ranges(partial(narrowest, must=must), COVERAGE)
            for sizes, must in ((SIZE_CLASSES == 0, (0, 2)), (SIZE_CLASSES > 0, (-1, 2)))
        )
        return Ranges(np.fmax(zero.low, others.low), np.fmax(zero.high, others.high))

    @cached_property
    def _lines(self) -> _Lines:
        owner, count, truth, times = self._pairs
        alike = self._alike
        return _Lines.of(alike[owner], count, truth, times, int(alike.max()) + 1, self._needed).of_owners(alike)


@dataclass(frozen=True, eq=False)
class _Lines:
    """The truth as a line in the released count, and its spread around it, of counts of 0 and of others.

    Attributes:
        start, slope, spread: `(2 n_owners,)`, an owner's counts of 0 before its others; NaN where not known.
    """

    start: FloatArray
    slope: FloatArray
    spread: FloatArray

    @classmethod
    def of(
        cls, owner: IntArray, count: FloatArray, truth: FloatArray, times: IntArray, n: int, needed: float
    ) -> _Lines:
        """By least squares on pairs of released count and truth, each so many times; so many are needed."""
        place = 2 * owner + (count > 0)

        def mean(values: FloatArray) -> FloatArray:
            return np.bincount(place, weights=values * times, minlength=2 * n) / np.maximum(seen, 1)

        seen = np.bincount(place, weights=times, minlength=2 * n)
        counts, truths = mean(count), mean(truth)
        off = count - counts[place]
        varied = mean(off**2)
        slope = np.clip(mean(off * truth) / np.where(varied > 0, varied, 1), 0, 1)
        start = truths - slope * counts
        spread = np.sqrt(mean((truth - start[place] - slope[place] * count) ** 2) * seen / np.maximum(seen - 2, 1))
        known = seen >= needed
        return cls(*(np.where(known, each, np.nan) for each in (start, slope, np.maximum(spread, _LEAST_SPREAD))))

    def of_owners(self, which: IntArray) -> _Lines:
        """The lines of owners, of which `which` (n_owners,) says whose each one has."""
        place = (2 * which[:, None] + np.arange(2)).ravel()
        return _Lines(*(each[place] for each in (self.start, self.slope, self.spread)))

    def ends(self, owner: IntArray, count: IntArray) -> Ends:
        """The narrowest range that has the count and a person to each side, of a normal distribution above -1/2."""
        place = 2 * owner + (count > 0)
        middle, spread = self.start[place] + self.slope[place] * count, self.spread[place]

        def below(end: FloatArray) -> FloatArray:
            return ndtr((end - middle) / spread)

        def end_of(share: FloatArray) -> FloatArray:
            return middle + spread * ndtri(np.clip(share, 1e-12, 1 - 1e-12))

        nothing = below(np.full(len(count), -0.5))
        held = COVERAGE * (1 - nothing)
        low, high = end_of(0.5 - 0.5 * held), end_of(0.5 + 0.5 * held)
        cut = low < -0.5
        low, high = np.where(cut, -0.5, low), np.where(cut, end_of(nothing + held), high)
        left, right = np.maximum(count - 1.5, -0.5), np.asarray(count + 1.5, dtype=np.float64)
        short, over = high < right, low > left
        low = np.where(short, np.maximum(end_of(below(right) - held), -0.5), np.where(over, left, low))
        high = np.where(short, right, np.where(over, end_of(below(left) + held), high))
        low = np.minimum(low, left)
        first, last = whole_ends(0.5 * (low + high), high - low, count, owner)
        first_of_all = low <= -0.5
        return np.where(first_of_all, 0.0, first), np.where(first_of_all, last - first, last)
