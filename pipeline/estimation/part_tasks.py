"""The work on one part of a spine that is cut into subtrees: what is sent to a worker, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from pipeline.estimation.packing import below_arrays, below_result, packed_top, top_result
from pipeline.estimation.part import PartTask
from pipeline.execution.batch_store import Arrays
from postprocess.arrays import BoolArray
from postprocess.downward.passes import Pass
from postprocess.downward.report import SolverReport
from postprocess.downward.subtrees import downward_part, top_estimate
from postprocess.linear.upward import LevelEstimate

#: Histograms and solver reports of the levels below the cut, top down.
Below = list[tuple[sp.csr_array, SolverReport]]


@dataclass(frozen=True, eq=False)
class TopTask(PartTask):
    """One part whose geounits at the cut are to be estimated."""

    def arrays_of(self, result: Any) -> Arrays:
        """See `PartTask.arrays_of`."""
        return packed_top(result)

    def result_of(self, arrays: Arrays) -> Any:
        """See `PartTask.result_of`."""
        return top_result(arrays, self.part, self.basis)


@dataclass(frozen=True, eq=False)
class BelowTask(PartTask):
    """One part whose whole numbers at the cut are fixed.

    Attributes:
        counts: at the cut, `(n, n_cells)`.
        checked: per level below the cut, which parents cvxpy solves again.
        passes: of the whole release.
    """

    counts: sp.csr_array
    checked: tuple[BoolArray, ...]
    passes: tuple[Pass, ...]

    def arrays_of(self, result: Any) -> Arrays:
        """See `PartTask.arrays_of`."""
        return below_arrays(result)

    def result_of(self, arrays: Arrays) -> Any:
        """See `PartTask.result_of`."""
        return below_result(arrays, self.part)


def estimate_top(task: TopTask) -> LevelEstimate:
    """The estimate of the part's geounits at the cut from all its measurements."""
    return top_estimate(task.problem(), task.basis)


def estimate_below(task: BelowTask) -> Below:
    """The part's levels below the cut; SolverError names a parent that could not be solved."""
    return downward_part(task.problem(), task.basis, task.counts, task.checked, task.passes)
