"""One part of a spine that is cut into subtrees, as it is sent to a worker with the work on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

from pipeline.estimation.measurement_files import MeasurementSource
from postprocess.algebra import Basis
from postprocess.arrays import Arrays
from postprocess.downward.subtrees import in_64_bits
from postprocess.problem import Measured, Problem


@dataclass(frozen=True, eq=False)
class PartTask(ABC):
    """Work on one part of the spine.

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
        stated = in_64_bits(self.part)
        return stated if self.files is None else replace(stated, measured=self._read(self.files))

    def packed(self) -> PartTask:
        """The task with all values, so that it can be done where the release's files are not available."""
        return replace(self, part=self.problem(), files=None)

    @abstractmethod
    def arrays_of(self, result: Any) -> Arrays:
        """The result of the task as arrays, on the machine that worked on it."""

    @abstractmethod
    def result_of(self, arrays: Arrays) -> Any:
        """The result again; WorkerError where the arrays are not those of this part."""

    def _read(self, files: tuple[tuple[MeasurementSource, ...], ...]) -> tuple[tuple[Measured, ...], ...]:
        spine = self.part.spine
        return tuple(
            tuple(file.read(level.geocodes, self.part.first_row(i)) for file in queries)
            for i, (level, queries) in enumerate(zip(spine.levels, files, strict=True))
        )
