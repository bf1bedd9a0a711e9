"""The margins of sums of a release's numbers, for `pipeline.reading`, by the covariances of the linear estimate.

Named in pyproject.toml as the entry point "linear" of the group "spinewise.margins".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flows.plan.expectation import Expectation
from geography.spine import Spine
from pipeline.model.universe import Universe
from pipeline.reading.margins import Groups
from pipeline.release.facilities import read_public_facilities
from pipeline.release.layout import UniverseDirectory
from postprocess.linear.half_widths import half_widths
from postprocess.marginal import Marginal


class LinearVariances:
    """The linear estimate's variances of one universe's numbers, and the half-widths of 90 % intervals they make.

    `of_level` and `of_area` fulfil `pipeline.reading.margins.HalfWidths`.
    """

    def __init__(self, universe: Universe, files: UniverseDirectory, spine: Spine, estimator: str) -> None:
        facilities = [
            read_public_facilities(files.constraint(number), bound, spine.level(bound.level).geocodes)
            for number, bound in enumerate(universe.bounds)
        ]
        self._expectation = Expectation.of(universe, spine, facilities, estimator)
        self._covariances = self._expectation.planned()

    def of_level(self, level: int, groups: Groups) -> NDArray[np.float64]:
        """Half-widths `(n_geounits, size)` of the answers for every geounit of a level."""
        return half_widths(np.sqrt(self.level_variances(level, groups)))

    def of_area(self, leaves: NDArray[np.bool_], groups: Groups) -> NDArray[np.float64]:
        """Half-widths `(size,)` of the answers for some leaves together."""
        return half_widths(np.sqrt(self.area_variances(leaves, groups)))

    def level_variances(self, level: int, groups: Groups) -> NDArray[np.float64]:
        """Variances `(n_geounits, size)` of the answers for every geounit of a level; NaN where not determined."""
        return self._expectation.variances(self._covariances, level, _marginal(groups))

    def area_variances(self, leaves: NDArray[np.bool_], groups: Groups) -> NDArray[np.float64]:
        """Variances `(size,)` of the answers for some leaves together; NaN where not determined."""
        return self._expectation.area_variances(self._covariances, leaves, _marginal(groups))


def _marginal(groups: Groups) -> Marginal:
    return Marginal("selection", tuple(groups))
