"""Intervals beside counts that are made from reports: which truths go with a released number, at 90 %.

The stand-ins of the truth are drawn around what is known of each cell, so what a released count says of the truth
depends on the cell, and on how many persons are in the area: of a rare answer, or in a small area, a large count says
that noise was at work. So the simulated t - r are counted by cell, by the persons in the area in octaves, and by the
size of r. The first of these that is known makes an interval of the truths of a released count:

- the narrowest range of whole numbers that holds 90 % of the errors of counts of this size, of the cell, else of cells
  about as frequent in such areas; `ENOUGH` errors are needed;
- a line: the truth is taken to be a + b r with normal errors, by least squares on the errors of all sizes, of the cell
  in such areas, else of cells about as frequent; `ON_A_LINE` errors are needed. Where noise is far larger than the
  differences between areas, b is near 0, and where it is far smaller, a is 0 and b is 1;
- the normal distribution around the released count, with the standard error that a count has of such a size.

Ranges and lines need errors of `STAND_INS` areas, or cells of areas.

An area that is unlike the others is not what these say. Where its own debiased count is `UNLIKE` standard errors from
the counts of such areas, the interval reaches to where the truth is by this count alone.

Each interval has the released number and a person to each side of it, as far as there can be: a range is the narrowest
that has them, so that it holds no more than it should for their sake.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.special import ndtr, ndtri

from postprocess.algebra import Basis
from postprocess.arrays import FloatArray, IntArray, distinct_places
from postprocess.downward.ranges import REACH_OF_SIZES, narrowest
from postprocess.downward.reported_errors import OwnErrors, n_owners, octave_of, owners_of, units_of, variances_of
from postprocess.downward.simulated_margins import ErrorCounts, PublishedTable, evenly, standard_errors
from postprocess.downward.sized_errors import ENOUGH, ERROR_CLASSES, MIDDLES, SIZE_CLASSES, size_class
from postprocess.downward.windows import CountedErrors
from postprocess.linear.downward import AnswerVariances, LevelVariances
from postprocess.statistics import COVERAGE, NORMAL_QUANTILE, is_exact

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
        errors: of the simulated runs, from `count_reported`.
        own: of the reports.
        areas: geounits of the level that have persons.
    """

    table: PublishedTable
    errors: ErrorCounts
    own: OwnErrors
    areas: int

    def ends(
        self,
        basis: Basis,
        variances: LevelVariances | AnswerVariances,
        released: IntArray,
        rows: slice,
        alone: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """The least and the most that the truth may be, `(n, cells)`, for the released counts of some geounits.

        NaN where the measurements do not determine the answer.

        Args:
            basis: of the problem.
            variances: of the level, or of some of its geounits.
            released: `(n, cells)`.
            rows: which geounits of `variances` these are.
            alone: `(n, cells)` counts from the reports of each geounit alone.
        """
        marginal, persons = self.table.marginal, released.sum(axis=1, keepdims=True)
        cells = np.broadcast_to(np.arange(marginal.size), released.shape)
        standard = standard_errors(self.table, basis, variances)[variances.classes[rows]]
        standard = standard * self.own(marginal.cell_answer, cells[:1], released, persons, standard)
        many = 1 + int(released.max(initial=0))
        places, inverse = distinct_places((owners_of(cells, persons, marginal.size) * many + released).ravel())
        owner, count = np.divmod(places, many)
        low, high = (ends[inverse].reshape(released.shape) for ends in self._known(owner, count))
        numbers = np.floor(2 * NORMAL_QUANTILE * standard + evenly(released, cells))
        least = np.floor(released - 0.5 * numbers + 1.0)
        low, high = np.where(np.isnan(low), least, low), np.where(np.isnan(high), least + numbers - 1, high)
        if alone is not None:
            low, high = self._reaching(low, high, alone, cells, persons)
        exact, unknown = is_exact(standard), np.isnan(standard)
        low = np.where(exact, released, np.maximum(np.minimum(low, released - 1), 0))
        high = np.where(exact, released, np.minimum(np.maximum(high, released + 1), persons))
        return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)

    def _reaching(
        self, low: FloatArray, high: FloatArray, alone: FloatArray, cells: IntArray, persons: IntArray
    ) -> tuple[FloatArray, FloatArray]:
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

    def _known(self, owner: IntArray, count: IntArray) -> tuple[FloatArray, FloatArray]:
        """The ends of released counts `(n,)` by simulated errors; NaN where there are too few."""
        size, unit = size_class(count), self._units[owner]
        low, high = self._lines.ends(owner, count)
        for which, least, most in self._ranges:
            first, after = least[which[owner], size], most[which[owner], size]
            known = ~np.isnan(first) & ~np.isnan(after)
            low, high = np.where(known, count + unit * first, low), np.where(known, count + unit * after - 1, high)
        return low, high

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
    def _each(self) -> IntArray:
        """`(n_owners,)` a number for each owner that has errors, and the last one for all others."""
        present = np.unique(self._parts[0])
        numbers = np.full(n_owners(self.table.marginal), len(present))
        numbers[present] = np.arange(len(present))
        return numbers

    @cached_property
    def _ranges(self) -> list[tuple[IntArray, FloatArray, FloatArray]]:
        """Of cells that are alike, then of each cell: a number for each owner, and ends in classes of errors.

        These are `(numbers, size classes)`.
        """
        owner, sizes, error, times = self._parts
        found = []
        for which in (self._alike, self._each):
            n = int(which.max()) + 1
            low, high = np.full((n, len(SIZE_CLASSES)), np.nan), np.full((n, len(SIZE_CLASSES)), np.nan)
            for zero in (True, False):
                of = (sizes == 0) == zero
                if not of.any():
                    continue
                # Each owner's classes begin as far below 0 as the farthest error of all.
                far = max(2, int(np.abs(error[of]).max()))
                ours = np.unique(which[owner[of]])
                all_owners = np.concatenate([which[owner[of]], ours, ours])
                ends_of = CountedErrors(
                    all_owners,
                    np.concatenate([sizes[of], np.full(2 * len(ours), 0 if zero else 1)]),
                    np.concatenate([error[of], np.full(len(ours), -far), np.full(len(ours), far)]),
                    np.concatenate([times[of], np.zeros(2 * len(ours), dtype=np.int64)]),
                    n,
                )
                held = partial(narrowest, first=far - (not zero), stop=far + 2)
                known, least, most = ends_of.ends(REACH_OF_SIZES, ENOUGH, held, np.full(low.shape, COVERAGE))
                known &= (least > -ERROR_CLASSES) & (most <= ERROR_CLASSES)
                known &= np.bincount(which[owner], weights=times, minlength=n)[:, None] >= STAND_INS * self._visits
                low, high = np.where(known, least, low), np.where(known, most, high)
            found.append((which, low, high))
        return found

    @cached_property
    def _lines(self) -> _Lines:
        owner, count, truth, times = self._pairs
        of_cells = _Lines.of(owner, count, truth, times, n_owners(self.table.marginal), self._needed)
        alike = _Lines.of(self._alike[owner], count, truth, times, int(self._alike.max()) + 1, self._needed)
        return of_cells.where_known(alike, self._alike)


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

    def where_known(self, others: _Lines, which: IntArray) -> _Lines:
        """These lines, and those of others, of which `which` (n_owners,) belongs to each owner, where there is none."""
        place = (2 * which[:, None] + np.arange(2)).ravel()
        known = ~np.isnan(self.start)
        each = ((self.start, others.start), (self.slope, others.slope), (self.spread, others.spread))
        return _Lines(*(np.where(known, mine, theirs[place]) for mine, theirs in each))

    def ends(self, owner: IntArray, count: IntArray) -> tuple[FloatArray, FloatArray]:
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
        # As many whole numbers as the width is, right on average.
        numbers = np.floor(high - low + evenly(count, owner))
        first = np.where(low <= -0.5, 0.0, np.floor(0.5 * (low + high) - 0.5 * numbers + 1.0))
        return first, first + numbers - 1
