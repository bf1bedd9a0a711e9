"""The margins of sums of a release's numbers, for `pipeline.reading`, by the covariances of the linear estimate.

Named in pyproject.toml as the entry point "linear" of the group "spinewise.margins".
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from flows.estimation.problem import exact_answers
from flows.plan.expectation import Expectation
from geography.spine import Spine
from pipeline.inputs.geography import read_public_facilities
from pipeline.model.universe import Universe
from pipeline.reading.margins import Groups
from pipeline.release.layout import UniverseDirectory
from postprocess.linear.areas import area_variances, fixed_in_area
from postprocess.linear.expected import LevelCovariances, answer_variances
from postprocess.linear.half_widths import half_widths
from postprocess.linear.information import fixed_answers
from postprocess.problem import Marginal


class LinearVariances:
    """The linear estimate's variances of one universe's numbers, and the half-widths of 90 % intervals they make.

    It fulfils `pipeline.reading.margins.HalfWidths`. Invariants are taken with their published values, so that what a
    count of 0 forces is known.
    """

    def __init__(self, universe: Universe, files: UniverseDirectory, spine: Spine, estimator: str) -> None:
        facilities = [
            read_public_facilities(files.constraint(number), bound, spine.levels[spine.index_of(bound.level)].geocodes)
            for number, bound in enumerate(universe.bounds)
        ]
        invariants = {
            (name, query.name): exact_answers(files, spine.levels[spine.index_of(name)], query)
            for name, query in universe.invariants
        }
        self._expectation = Expectation.of(universe, spine, facilities, estimator, invariants)

    @cached_property
    def _covariances(self) -> tuple[LevelCovariances, ...]:
        return self._expectation.planned()

    def of_level(self, level: int, groups: Groups) -> NDArray[np.float64]:
        """Half-widths `(n_geounits, size)` of the answers for every geounit of a level."""
        return half_widths(np.sqrt(self.level_variances(level, groups)))

    def of_area(self, leaves: NDArray[np.bool_], groups: Groups) -> NDArray[np.float64]:
        """Half-widths `(size,)` of the answers for some leaves together."""
        return half_widths(np.sqrt(self.area_variances(leaves, groups)))

    def exact_of_level(self, level: int, groups: Groups) -> NDArray[np.bool_]:
        """`(n_geounits, size)`: which answers zeros and invariants fix, see `pipeline.reading.margins`."""
        exact, classes = self.exact_of_classes(level, groups)
        return exact[classes]

    def exact_of_classes(self, level: int, groups: Groups) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """The same `(n_classes, size)` for classes of alike geounits, and the class of each geounit of the level."""
        classes = self._expectation.classes[level]
        return fixed_answers(self._expectation.basis, classes.fixed, _marginal(groups)), classes.downward

    def exact_of_area(self, leaves: NDArray[np.bool_], groups: Groups) -> NDArray[np.bool_]:
        """The same `(size,)` for some leaves together."""
        plan = self._expectation
        return fixed_in_area(plan.spine, plan.basis, plan.classes, leaves, _marginal(groups))

    def level_variances(self, level: int, groups: Groups) -> NDArray[np.float64]:
        """Variances `(n_geounits, size)` of the answers for every geounit of a level; NaN where not determined."""
        classes = self._expectation.classes[level]
        marginal = _marginal(groups)
        return answer_variances(self._expectation.basis, classes, self._covariances[level], marginal)[classes.downward]

    def area_variances(self, leaves: NDArray[np.bool_], groups: Groups) -> NDArray[np.float64]:
        """Variances `(size,)` of the answers for some leaves together; NaN where not determined."""
        plan = self._expectation
        return area_variances(plan.spine, plan.basis, plan.classes, self._covariances, leaves, _marginal(groups))


def _marginal(groups: Groups) -> Marginal:
    return Marginal("selection", tuple(groups))
