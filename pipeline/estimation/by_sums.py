"""The estimation of a schema of more than a million cells: on the few sums that its lower levels measure.

Only the levels at which the detail is measured have arrays over cells, one of a geounit at a time; see
`postprocess.sums`. What such a schema has to be, and what is not published of it, says `pipeline.cost.limits`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pipeline.estimation.computed import Computed
from pipeline.estimation.problem import with_positive
from pipeline.estimation.whole_spine import Estimation
from pipeline.execution.steps import Notes
from pipeline.model.universe import Universe
from postprocess.sums.downward import downward_sums
from postprocess.sums.upward import KnownSums

#: Possible cells above which a universe is estimated on sums.
MOST_CELLS_AT_ONCE = 1_000_000


def is_by_sums(universe: Universe) -> bool:
    """Whether a universe has too many cells for numbers of each of them in each geounit."""
    if universe.schema.n_cells <= MOST_CELLS_AT_ONCE:
        return False
    return universe.schema.n_cells - int(np.count_nonzero(universe.structural_zeros)) > MOST_CELLS_AT_ONCE


class ComputedOnSums(Computed):
    """The intermediate results; those over cells are not asked for."""

    @cached_property
    def known_sums(self) -> KnownSums:
        """What the measurements say of every level."""
        return KnownSums(self.problem)


class SumsEstimation(Estimation):
    """The estimation of such a universe; see `Estimation`."""

    _computed: ComputedOnSums

    def combine(self) -> None:
        """The upward pass, as a step of its own."""
        _ = self._computed.known_sums.levels
        self.job.progress.advance(sum(len(level) for level in self.job.spine.levels))

    def estimate_level(self, level: int) -> Notes:
        """See `Estimation.estimate_level`."""
        above = self.released(level - 1) if level else None
        problem = with_positive(self.problem, self.job, self.universe, level, above)
        counts, report = downward_sums(
            self._computed.known_sums,
            level,
            above,
            self._computed.checked[level],
            self._runner(level),
            problem.positive_of(level),
        )
        self._write(self.job.spine.levels[level], counts)
        return report.public() | self.known.notes(level)

    def _nothing_computed(self, *, full: bool = False) -> ComputedOnSums:
        return ComputedOnSums(self.job, self.universe, self._results, full=full)
