"""The work on one part of a spine that is cut into subtrees: what is sent to a worker, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import scipy.sparse as sp

from flows.estimation.measurement_files import MeasurementSource
from flows.estimation.packing import below_arrays, below_result, packed_top, top_result
from flows.execution.batch_store import Arrays
from postprocess.algebra import Basis
from postprocess.arrays import BoolArray
from postprocess.downward.level import SolverReport
from postprocess.downward.passes import Pass
from postprocess.downward.subtrees import downward_part, top_estimate
from postprocess.linear.upward import LevelEstimate
from postprocess.problem import Measured, Problem

#: Histograms and solver reports of the levels below the cut, top down.
Below = list[tuple[sp.csr_array, SolverReport]]


@dataclass(frozen=True, eq=False)
class PartTask:
    """One part of the spine.

    Attributes:
        number: of the part.
        part: its problem, without the values of the measurements unless they are packed.
        files: of the measurements, per level from the cut down; None where the values are packed.
        basis: of the whole release.
    """

    number: int
    part: Problem
    files: tuple[tuple[MeasurementSource, ...], ...] | None
    basis: Basis

    def problem(self) -> Problem:
        """The part's problem with the values of its measurements; ReleaseError where a file is damaged."""
        return self.part if self.files is None else replace(self.part, measured=self._read(self.files))

    def packed(self) -> PartTask:
        """The task with all values, so that it can be done where the release's files are not available."""
        return replace(self, part=self.problem(), files=None)

    def arrays_of(self, result: Any) -> Arrays:
        """The result of the task as arrays, on the machine that worked on it."""
        return packed_top(result)

    def result_of(self, arrays: Arrays) -> Any:
        """The result again; WorkerError where the arrays are not those of this part."""
        return top_result(arrays, self.part, self.basis)

    def _read(self, files: tuple[tuple[MeasurementSource, ...], ...]) -> tuple[tuple[Measured, ...], ...]:
        spine = self.part.spine
        return tuple(
            tuple(file.read(level.geocodes, self.part.first_row(i)) for file in queries)
            for i, (level, queries) in enumerate(zip(spine.levels, files, strict=True))
        )


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


def estimate_top(task: PartTask) -> LevelEstimate:
    """The estimate of the part's geounits at the cut from all its measurements."""
    return top_estimate(task.problem(), task.basis)


def estimate_below(task: BelowTask) -> Below:
    """The part's levels below the cut; SolverError names a parent that could not be solved."""
    return downward_part(task.problem(), task.basis, task.counts, task.checked, task.passes)
