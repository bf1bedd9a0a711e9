"""The margins of sums of a release's numbers, for `pipeline.reading`, by the covariances of the linear estimate.

`pipeline.reading.margins` finds it by name.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from geography.spine import Spine
from pipeline.estimation.around_estimates import is_compared, is_long
from pipeline.estimation.expectation import Expectation
from pipeline.estimation.unbiased import unbiased_leaves
from pipeline.model.universe import Universe
from pipeline.reading.margins import Groups, HalfWidths
from pipeline.release.published_files import UniverseFiles
from postprocess.arrays import BoolArray, FloatArray, IntArray, Weights
from postprocess.downward.moved import Squares
from postprocess.downward.simulated_margins import is_large
from postprocess.linear.covariances import LevelCovariances, moments, of_leaves, of_level, unknown_in_area
from postprocess.linear.information import FREE
from postprocess.marginal import Marginal
from postprocess.statistics import Moments, half_widths

#: Numbers of leaves up to which unbiased estimates are computed: half a gigabyte.
_MOST_NUMBERS = 1 << 26


class LinearVariances(HalfWidths):
    """The linear estimate's variances of one universe's numbers, and the half-widths of 90 % intervals they make.

    Invariants are taken with their published values, so that what a
    count of 0 forces is known.
    """

    def __init__(self, universe: Universe, files: UniverseFiles, spine: Spine, estimator: str) -> None:
        self._expectation = Expectation.of_published(universe, files, spine, estimator)
        self._files = files

    @cached_property
    def _covariances(self) -> tuple[LevelCovariances, ...]:
        return self._expectation.planned()

    def of_level(self, level: int, groups: Groups) -> FloatArray:
        """Half-widths `(n_geounits, size)` of the answers for every geounit of a level.

        NaN where an interval should be around unbiased estimates, which are too many to be computed.
        """
        widths = half_widths(np.sqrt(self.level_variances(level, groups)))
        if self._is_long(level, groups) and self._unbiased is None:
            widths[widths > 0] = np.nan
        return widths

    def of_area(self, leaves: BoolArray, groups: Groups) -> FloatArray:
        """Half-widths `(size,)` of the answers for some leaves together."""
        return half_widths(np.sqrt(self.area_variances(leaves, groups)))

    def estimate_of_area(self, leaves: BoolArray, groups: Groups) -> FloatArray:
        """Unbiased estimates `(size,)` of the answers for some leaves together; NaN where they are not computed."""
        marginal = _marginal(groups)
        if self._unbiased is None:
            return np.full(marginal.size, np.nan)
        return marginal.answer(self._unbiased[leaves].sum(axis=0)[None])[0]

    def estimate_of_level(self, level: int, groups: Groups, counts: IntArray) -> FloatArray:
        """Unbiased estimates `(n_geounits, size)` of the answers for every geounit of a level.

        NaN where intervals are around released numbers; which are not follows from the rule of published intervals.

        Args:
            level: of the spine.
            groups: which make the answers.
            counts: the released answers, `(n_geounits, size)`.
        """
        marginal, spine, nothing = _marginal(groups), self._expectation.spine, np.full(counts.shape, np.nan)
        long = self._is_long(level, groups)
        if not (long or self._is_compared(level, groups)) or self._unbiased is None:
            return nothing
        estimates = np.add.reduceat(marginal.answer(self._unbiased), spine.leaf_offsets(level)[:-1], axis=0)
        if long:
            return estimates
        standard = np.sqrt(self.level_variances(level, groups))
        standard[np.isnan(standard)] = np.inf
        squares = Squares.of(counts, estimates, standard, half_widths(standard))
        return np.where(is_large(counts, standard), estimates, nothing) if squares.are_of_moved else nothing

    def _is_long(self, level: int, groups: Groups) -> bool:
        plan = self._expectation
        return is_long(plan.universe, plan.estimator, _marginal(groups), level)

    def _is_compared(self, level: int, groups: Groups) -> bool:
        plan = self._expectation
        return is_compared(plan.universe, plan.estimator, _marginal(groups), level)

    @cached_property
    def _unbiased(self) -> FloatArray | None:
        """Of every leaf `(n_leaves, n_cells)`; None where their variances are not those of this provider."""
        plan = self._expectation
        universe, n_numbers = plan.universe, plan.spine.n_leaves * math.prod(plan.universe.schema.shape)
        if plan.estimator != "full" or not universe.source.sums_without_bias or n_numbers > _MOST_NUMBERS:
            return None
        return unbiased_leaves(universe, self._files, plan.spine)

    def exact_of_level(self, level: int, groups: Groups) -> BoolArray:
        """`(n_geounits, size)`: which answers zeros and invariants fix, see `pipeline.reading.margins`."""
        exact, classes = self._expectation.exact(level, _marginal(groups))
        return exact[classes]

    def exact_of_area(self, leaves: BoolArray, groups: Groups) -> BoolArray:
        """The same `(size,)` for some leaves together."""
        plan = self._expectation
        unknown = unknown_in_area(plan.spine, plan.classes, leaves.astype(np.float64))
        return plan.basis.answer_variances(unknown[None], _marginal(groups))[0] < FREE

    def moments_of_level(self, level: int, left: Weights, right: Weights) -> Moments:
        """Variances and covariances `(n_geounits, k)` of two weighted sums, see `pipeline.reading.margins`."""
        plan = self._expectation
        classes = plan.classes[level]
        found = of_level(classes, self._covariances[level])
        return Moments(*(one[classes.downward] for one in moments(plan.basis, found, left, right)))

    def moments_of_leaves(self, leaves: FloatArray, left: Weights, right: Weights) -> Moments:
        """The same `(1, k)` of a weighted sum over leaves."""
        plan = self._expectation
        found = of_leaves(plan.spine, plan.classes, self._covariances, leaves)
        return Moments(*moments(plan.basis, found, left, right))

    def level_variances(self, level: int, groups: Groups) -> FloatArray:
        """Variances `(n_geounits, size)` of the answers for every geounit of a level; NaN where not determined."""
        return self._expectation.variances(self._covariances, level, _marginal(groups))

    def area_variances(self, leaves: BoolArray, groups: Groups) -> FloatArray:
        """Variances `(size,)` of the answers for some leaves together; NaN where not determined."""
        return self._expectation.area_variances(self._covariances, leaves, _marginal(groups))


def _marginal(groups: Groups) -> Marginal:
    return Marginal("selection", tuple(groups))
