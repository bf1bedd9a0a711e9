"""The estimation of a spine that is too large to be held at once: cut into subtrees, part by part.

The parts do not need each other, so they are what is handed to other processes and machines, and what a killed run
goes on with. The files that come out are the same as from the whole spine at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import scipy.sparse as sp

from flows.estimation.measurement_files import MeasuredFile
from flows.estimation.part_tasks import (
    BelowTask,
    PartTask,
    estimate_below,
    estimate_top,
    top_from_arrays,
    top_to_arrays,
)
from flows.estimation.problem import measured_files, with_values
from flows.estimation.whole_spine import Estimation
from flows.execution.batch_store import Parts
from flows.execution.batches import packed_level, unpacked_level
from flows.execution.checkpoints import Arrays
from flows.execution.job import Job
from flows.execution.steps import Notes, Step
from pipeline.model.universe import Universe
from pipeline.release.histograms import write_histogram
from postprocess.algebra import Basis
from postprocess.downward.level import SolverReport
from postprocess.downward.subtrees import Cut, above_cut, cut_of, joined, part_of
from postprocess.linear.upward import LevelEstimate, silent_of, upward_pass
from postprocess.problem import Problem

#: Leaf cells of a part that is handed to another machine: some seconds of work, some tens of megabytes.
SHARED_CELLS = 1 << 23
#: Parts that a small spine is cut into at least, as far as its subtrees allow, where other machines are to have some.
LEAST_SHARED = 8


def estimation_of(job: Job, universe: Universe) -> Estimation:
    """The estimation of one universe: at once, or by subtrees where the spine is too large for that."""
    most, part = job.most_cells, job.part_cells
    if job.workers.shares_parts:
        whole = job.spine.n_leaves * universe.schema.n_cells
        most = part = min(SHARED_CELLS, max(1, whole // LEAST_SHARED))
    cut = cut_of(job.spine, universe.schema.n_cells, most, part)
    return Estimation(job, universe) if cut is None else SubtreeEstimation(job, universe, cut)


class SubtreeEstimation(Estimation):
    """The estimation of one universe whose spine is cut at a level."""

    def __init__(self, job: Job, universe: Universe, cut: Cut) -> None:
        super().__init__(job, universe)
        self.cut = cut
        combine, *_, below = self.steps()
        # A run that goes on with less memory may be cut otherwise.
        self._tops = Parts(job.batches, f"{combine.name} {cut.name}")
        self._below = Parts(job.batches, f"{below.name} {cut.name}")

    @cached_property
    def above(self) -> Problem:
        """The problem of the levels down to the cut."""
        return with_values(above_cut(self.stated, self.cut), self.job, self.universe)

    @cached_property
    def above_estimates(self) -> list[LevelEstimate]:
        """The upward pass of these levels, top level first."""
        at_cut = joined([top_from_arrays(one) for one in self._estimated_tops()])
        return upward_pass(self.above, self.basis, at_cut, silent_of(self.stated))

    def steps(self) -> list[Step]:
        """The steps of the levels down to the cut, and one for all below it."""
        whole = super().steps()
        upper, below = whole[: self.cut.level + 2], whole[self.cut.level + 2 :]
        together = Step(
            "estimate",
            self.estimate_below,
            self.universe.name,
            f"below {self.job.spine.level_names[self.cut.level]}",
            sum(step.geounits for step in below),
            effort=5.0,
            files=tuple(file for step in below for file in step.files),
            several=True,
        )
        return [*upper, together]

    def combine(self) -> None:
        """The upward pass of all parts, and of the levels down to the cut."""
        if self.above_estimates:
            self.job.progress.advance(self.cut.level + 1)

    def _levels(self) -> tuple[Problem, list[LevelEstimate]]:
        return self.above, self.above_estimates

    def estimate_below(self) -> Notes:
        """Solve and round all levels below the cut, part by part; writes their histograms.

        Returns:
            What the solvers did, by the names of the steps of these levels.
        """
        levels = list(enumerate(self.job.spine.levels))[self.cut.level + 1 :]
        counts = self.released(self.cut.level)
        names = [level.name for _, level in levels]
        missing = [n for n in self._numbers if not all(self._below.has(f"{name}-{n}") for name in names)]
        tasks = [self._below_task(number, counts) for number in missing]
        for task, found in zip(tasks, self.job.workers.run(estimate_below, tasks, self._part_done), strict=True):
            for name, one in zip(names, found, strict=True):
                self._below.put(f"{name}-{task.number}", packed_level(one))
        notes: Notes = {}
        for _, level in levels:
            report = SolverReport()
            target = self.job.folder(self.universe).histogram(level.name)
            batches = self._histograms(level.name, report)
            write_histogram(target, self.job.run.staging, level.name, level.geocodes, self.universe.schema, batches)
            notes[Step("estimate", self.estimate_below, self.universe.name, level.name).name] = report.public()
        return notes

    @property
    def _numbers(self) -> range:
        return range(len(self.cut.parts))

    def _histograms(self, level: str, report: SolverReport) -> Iterator[sp.csr_array]:
        """The histograms of one level, part by part; adds what the solvers did to `report`."""
        for number in self._numbers:
            counts, one = unpacked_level(self._below.get(f"{level}-{number}"))
            report.merge(one)
            yield counts

    def _estimated_tops(self) -> Iterator[Arrays]:
        """What each part's measurements say of its geounits at the cut."""
        missing = [n for n in self._numbers if not self._tops.has(str(n))]
        tasks = [PartTask(number, *self._part(number)) for number in missing]
        for task, found in zip(tasks, self.job.workers.run(estimate_top, tasks, self._part_done), strict=True):
            self._tops.put(str(task.number), top_to_arrays(found))
        for number in self._numbers:
            yield self._tops.get(str(number))

    def _part(self, number: int) -> tuple[Problem, tuple[tuple[MeasuredFile, ...], ...], Basis]:
        files = measured_files(self.job, self.universe)[self.cut.level :]
        return part_of(self.stated, self.cut, number), files, self.basis

    def _below_task(self, number: int, counts: sp.csr_array) -> BelowTask:
        first, last = self.cut.parts[number]
        rows = self.job.spine.rows_below(self.cut.level, first, last)
        flags = self.checked[self.cut.level + 1 :]
        checked = tuple(flag[own] for flag, own in zip(flags, rows, strict=False))
        return BelowTask(number, *self._part(number), counts[first:last], checked, self.passes)

    def _part_done(self, task: PartTask) -> None:
        self.job.progress.advance(sum(len(level) for level in task.part.spine.levels[1:]))

    def close(self) -> None:
        """Forget what was computed, and the parts: the files are written."""
        super().close()
        for name in ("above", "above_estimates"):
            self.__dict__.pop(name, None)
        self._tops.clear()
        self._below.clear()
