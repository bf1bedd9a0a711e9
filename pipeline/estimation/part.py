"""One part of a spine that is cut into subtrees, as it is sent to a worker with the work on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

from pipeline.estimation.measurement_files import SourceFiles
from postprocess.algebra import Basis
from postprocess.arrays import Arrays
from postprocess.downward.subtrees import in_64_bits
from postprocess.problem import MeasuredAnswers, Problem


@dataclass(frozen=True, eq=False)
class PartTask(ABC):
    """Work on one part of the spine.

    Attributes:
        number: of the part.
        part: its problem, with the values of those measurements that have no file here.
        files: of the measurements, per level from the cut down; None where all values are packed.
        basis: of the whole release.
    """

    number: int
    part: Problem
    files: SourceFiles | None
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

    def _read(self, files: SourceFiles) -> tuple[tuple[MeasuredAnswers, ...], ...]:
        levels = zip(self.part.spine.levels, self.part.measured, files, strict=True)
        return tuple(
            tuple(
                known if file is None else file.read(level.geocodes, self.part.first_row(i))
                for known, file in zip(queries, of_level, strict=True)
            )
            for i, (level, queries, of_level) in enumerate(levels)
        )
