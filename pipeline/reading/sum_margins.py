"""The margins of sums of a release's numbers, by the covariances of the linear estimate."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from geography.spine import Spine
from pipeline.estimation.around_estimates import MeasuredSums
from pipeline.estimation.expectation import Expectation
from pipeline.estimation.unbiased import unbiased_leaves
from pipeline.model.universe import Universe
from pipeline.reading.margins import Groups
from pipeline.release.published_files import UniverseFiles
from postprocess.arrays import BoolArray, Ends, FloatArray, IntArray, Weights
from postprocess.downward.moved import Squares
from postprocess.downward.simulated_margins import is_large
from postprocess.linear.covariances import LevelCovariances, moments, of_leaves, of_level, unknown_in_area
from postprocess.linear.downward import LevelVariances
from postprocess.linear.information import FREE
from postprocess.marginal import Marginal
from postprocess.statistics import Moments, half_widths

#: Numbers of leaves up to which unbiased estimates are computed: half a gigabyte.
_MOST_NUMBERS = 1 << 26
#: All geounits of a level, by its number; or, as one geounit, a weighted sum over leaves, `(n_leaves,)`: 1 for an area,
#: 1 and -1 for the difference of two.
Where = int | FloatArray


class SumMargins:
    """The linear estimate's variances of one universe's numbers, and the 90 % intervals that they make.

    Invariants are taken with their published values, so that what a count of 0 forces is known. Numbers are answers
    that `groups` of values make, `(n, size)`.
    """

    def __init__(self, universe: Universe, files: UniverseFiles, spine: Spine, estimator: str) -> None:
        self._expectation = Expectation.of_published(universe, files, spine, estimator)
        self._files = files

    @cached_property
    def _covariances(self) -> tuple[LevelCovariances, ...]:
        return self._expectation.planned()

    def _found(self, where: Where) -> LevelVariances:
        plan = self._expectation
        if isinstance(where, int):
            return of_level(plan.classes[where], self._covariances[where])
        return of_leaves(plan.spine, plan.classes, self._covariances, where)

    def variances(self, where: Where, groups: Groups) -> FloatArray:
        """Variances `(n, size)` of the answers; NaN where the measurements do not determine them."""
        return self._found(where).of_answers(self._expectation.basis, _marginal(groups))

    def moments(self, where: Where, left: Weights, right: Weights) -> Moments:
        """Variances and covariances `(n, k)` of two weighted sums of cells, each with its partner."""
        found = self._found(where)
        return Moments(*(one[found.classes] for one in moments(self._expectation.basis, found, left, right)))

    def half_widths(self, where: Where, groups: Groups) -> FloatArray:
        """Half the widths `(n, size)` of 90 % intervals: 0 where a sum is exact, else 1 or more; NaN as above."""
        return half_widths(np.sqrt(self.variances(where, groups)))

    def exact(self, where: Where, groups: Groups) -> BoolArray:
        """`(n, size)`: which answers are certain, by the public problem and by no margin's value.

        These are invariants, impossible cells, groups without a facility, and what they force: sums of such, the same
        in areas above, and in an area whose parent and siblings are certain.
        """
        plan, marginal = self._expectation, _marginal(groups)
        if isinstance(where, int):
            exact, classes = plan.exact(where, marginal)
            return exact[classes]
        return plan.basis.answer_variances(unknown_in_area(plan.spine, plan.classes, where)[None], marginal) < FREE

    def ends(self, where: Where, groups: Groups, counts: IntArray) -> Ends:
        """The ends of intervals of released sums `(n, size)` over several leaves or many cells.

        Counts cannot be negative, so those of small areas are too large on average and those of large ones too small; a
        sum of many alike ones adds this up. The unbiased estimate of the sum does not have it, and its variance is
        known: the interval is around it, made so much longer that it holds the released sum. Where there is none it is
        around the released sum; NaN where estimates that it should be around are too many to be computed.
        """
        sums = MeasuredSums(self._expectation.universe, self._expectation.estimator)
        marginal, reach = _marginal(groups), self.half_widths(where, groups)
        centre, unbiased = np.asarray(counts, dtype=np.float64), self._unbiased
        if not isinstance(where, int):
            if unbiased is not None:
                centre = np.rint(marginal.answer(unbiased[where > 0].sum(axis=0)[None]))
        elif sums.are_long(marginal, where):
            if unbiased is None:
                reach[reach > 0] = np.nan
            else:
                centre = np.rint(self._estimates(marginal, where, unbiased))
        elif unbiased is not None and sums.are_compared(marginal, where):
            estimates, standard = self._estimates(marginal, where, unbiased), np.sqrt(self.variances(where, groups))
            standard[np.isnan(standard)] = np.inf
            if Squares.of(counts, estimates, standard, half_widths(standard)).are_of_moved:
                centre = np.where(is_large(counts, standard), np.rint(estimates), centre)
        centre, least = np.where(reach == 0, counts, centre), np.minimum(reach, 1.0)
        low, high = np.minimum(centre - reach, counts - least), np.maximum(centre + reach, counts + least)
        return np.maximum(low, 0), high

    def _estimates(self, marginal: Marginal, level: int, unbiased: FloatArray) -> FloatArray:
        starts = self._expectation.spine.leaf_offsets(level)[:-1]
        return np.add.reduceat(marginal.answer(unbiased), starts, axis=0)

    @cached_property
    def _unbiased(self) -> FloatArray | None:
        """Unbiased estimates of every leaf `(n_leaves, n_cells)`; None where their variances are not these."""
        plan = self._expectation
        universe, n_numbers = plan.universe, plan.spine.n_leaves * math.prod(plan.universe.schema.shape)
        if plan.estimator != "full" or not universe.source.sums_without_bias or n_numbers > _MOST_NUMBERS:
            return None
        return unbiased_leaves(universe, self._files, plan.spine)


def _marginal(groups: Groups) -> Marginal:
    return Marginal("selection", tuple(groups))
