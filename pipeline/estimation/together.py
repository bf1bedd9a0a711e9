"""Universes that are estimated together: what a run asks of whoever estimates them, and how publications share it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import scipy.sparse as sp

from pipeline.estimation.constraints import IntervalRule, released_histogram
from pipeline.execution.job import Job
from pipeline.execution.steps import Notes, Step
from pipeline.model.universe import Table, Universe


class JointEstimation(ABC):
    """The estimation of universes from the measurements of all of them; what was computed is kept until it is freed."""

    @abstractmethod
    def estimate(self, universe: Universe) -> Notes:
        """Write the histograms of all levels of one of them.

        Returns:
            What is noted of it in the manifest.
        """

    @abstractmethod
    def simulate(self) -> None:
        """Simulate runs for the margins of error of the tables of all universes, unless that is done."""

    @abstractmethod
    def rule(self, universe: Universe, table: Table, level: int) -> IntervalRule:
        """The 90 % intervals of a table's released numbers at a level."""

    @abstractmethod
    def write_records(self, universe: Universe) -> None:
        """Write the microdata that stand in the folder of a universe."""

    @abstractmethod
    def free(self) -> None:
        """Free what was computed; it is computed again where it is needed."""

    @property
    @abstractmethod
    def left(self) -> set[str]:
        """Names of the universes whose files are not all written yet."""

    def close(self, universe: Universe) -> None:
        """All files of a universe are written: what was computed is freed once those of the last one are."""
        self.left.discard(universe.name)
        if not self.left:
            self.free()


class OneOfThem:
    """One of the universes: its steps, its released histograms and the intervals of its tables."""

    def __init__(self, job: Job, joint: JointEstimation, universe: Universe) -> None:
        self.job = job
        self.joint = joint
        self.universe = universe

    def steps(self) -> list[Step]:
        """The step that writes the histograms of all levels; the first one works for all universes."""
        files = tuple(self.job.folder(self.universe).histogram(level.name) for level in self.job.spine.levels)
        return [
            Step("estimate", self._estimate, self.universe.name, geounits=self.job.n_geounits, effort=5, files=files)
        ]

    def _estimate(self) -> Notes:
        notes = self.joint.estimate(self.universe)
        self.job.progress.advance(self.job.n_geounits)
        return notes

    def released(self, level: int) -> sp.csr_array:
        """The released histogram of a level, `(n, n_cells)` int64; ReleaseError where its file is not there."""
        return released_histogram(self.job, self.universe, level)

    @property
    def replicates(self) -> int:
        """Simulated runs at most; 0 where no margins are published."""
        publish = self.job.spec.publish
        return publish.replicates if publish.margins else 0

    def simulate(self) -> None:
        """Simulate runs for all universes, unless this is done."""
        self.joint.simulate()
        self.job.progress.advance(self.job.n_geounits)

    def rule(self, table: Table, level: int) -> IntervalRule | None:
        """The 90 % intervals of the released counts of a level; None without margins."""
        return self.joint.rule(self.universe, table, level) if self.replicates else None

    def write_records(self) -> None:
        """Write the microdata in the universe's folder."""
        self.joint.write_records(self.universe)
        self.job.progress.advance(self.job.spine.n_leaves)
