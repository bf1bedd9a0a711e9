"""What the simulated runs behind the margins will cost: how often each level is simulated, and what a run holds.

A plan knows neither which sizes are published nor how many cells are filled. It takes it that every level with tables
has numbers of a size that is just notable, which need the most, and fills cells as `size` does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geography.spine import Spine
from pipeline.cost.size import Size
from postprocess.downward.samples import ERRORS, GROUP_CELLS, NOTABLE, NOTABLE_LEAVES, rates_of, work_of
from postprocess.downward.subtrees import cut_level


@dataclass(frozen=True)
class Simulations:
    """The simulated runs of one universe.

    Attributes:
        runs: how many.
        passes: as much work as so many passes over everything.
        leaves: how often a leaf is simulated.
        share: of the spine that a run works on at a time.
    """

    runs: int
    passes: float
    leaves: float
    share: float

    @classmethod
    def of(cls, size: Size, spine: Spine, most: int) -> Simulations:
        """Those that a run of the spec would make, with at most `most` runs; none where that is 0."""
        if not most:
            return cls(0, 0.0, 0.0, 0.0)
        cut = cut_level(spine)
        needed = [
            0.0 if not has_tables else ERRORS / max(NOTABLE, _leaves_of(spine, cut, level) // NOTABLE_LEAVES)
            for level, has_tables in enumerate(size.tables)
        ]
        filled = [np.full(len(level), k) for level, k in zip(spine.levels, size.filled_cells, strict=False)]
        work = work_of(spine, size.cells, filled)
        rates = rates_of(spine, needed, work, most)
        passes = float(np.dot(rates.visits, work) / work.sum())
        share = 1.0
        if cut is not None:
            largest = float(np.diff(spine.leaf_offsets(cut)).max()) / spine.n_leaves
            group = GROUP_CELLS / (float(spine.n_leaves) * size.cells)
            share = min(1.0, max(largest, min(group, rates.visits[-1] / rates.runs)))
        return cls(rates.runs, passes, rates.visits[-1], share)


def _leaves_of(spine: Spine, cut: int | None, level: int) -> int:
    return spine.n_leaves if cut is not None and level > cut else 0
