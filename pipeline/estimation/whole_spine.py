"""From the public problem to whole-number histograms, level by level."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Self

import scipy.sparse as sp

from geography.spine import Level
from pipeline.estimation.computed import Computed
from pipeline.estimation.constraints import Known
from pipeline.estimation.knowledge import Results
from pipeline.estimation.packing import packed_level, unpacked_level
from pipeline.estimation.problem import with_positive
from pipeline.execution.batches import run_kept
from pipeline.execution.job import Job
from pipeline.execution.steps import Notes, Step
from pipeline.model.universe import Universe
from pipeline.release.histograms import read_histogram, write_histogram
from postprocess.algebra import Basis
from postprocess.downward.batch import Pass, SolverReport
from postprocess.downward.level import downward_level
from postprocess.downward.subtrees import Cut
from postprocess.downward.tasks import LevelTask
from postprocess.linear.upward import LevelEstimate
from postprocess.problem import Problem


def batch_name(task: LevelTask) -> str:
    """The name of a batch: its first and last parent, by their numbers in their level."""
    return f"{task.first_parent}-{task.first_parent + len(task.offsets) - 2}"


class Estimation:
    """The estimation of one universe from public files.

    Intermediate results are kept for later steps until the estimation is closed: use it as a context manager around all
    steps of its universe.

    Args:
        job: the run.
        universe: that is estimated.
        results: gives the intermediate results of another universe, by its name; by default computed at once.
    """

    def __init__(self, job: Job, universe: Universe, results: Callable[[str], Results] | None = None) -> None:
        self.job = job
        self.universe = universe
        self._results = results
        self._computed = self._nothing_computed()

    @property
    def cut(self) -> Cut | None:
        """Where the spine is cut; None where it is worked on at once."""
        return None

    @property
    def problem(self) -> Problem:
        """Read from public/ at first use; ReleaseError where a file is not what the spec says."""
        return self._computed.problem

    @property
    def basis(self) -> Basis:
        """The basis that the problem is stated in."""
        return self._computed.basis

    @property
    def stated(self) -> Problem:
        """The problem without the values of its measurements."""
        return self._computed.stated

    @property
    def simulated(self) -> Problem:
        """The stated problem with what its simulated runs know."""
        return self.known.simulated(self.stated)

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The passes of every level, the detail last."""
        return self._computed.passes

    @property
    def computed(self) -> Computed:
        """The intermediate results."""
        return self._computed

    def combined(self) -> tuple[Problem, list[LevelEstimate]]:
        """The problem of the levels that are solved one by one, and their estimates from the upward pass."""
        return self._computed.combined()

    @property
    def upward(self) -> list[LevelEstimate]:
        """The upward pass of the whole spine, top level first; computed at first use."""
        return self._computed.upward

    def steps(self) -> list[Step]:
        """The steps that write the histograms of all levels."""
        levels = self.job.spine.levels
        files = [self.job.folder(self.universe).histogram(level.name) for level in levels]
        name, geounits = self.universe.name, sum(len(level) for level in levels)
        steps = [Step("combine", self.combine, name, geounits=geounits, effort=2.0, prepares=tuple(files))]
        for number, (level, file) in enumerate(zip(levels, files, strict=True)):
            estimate = partial(self.estimate_level, number)
            steps.append(Step("estimate", estimate, name, level.name, len(level), effort=5.0, files=(file,)))
        return steps

    def combine(self) -> None:
        """The upward pass, as a step of its own."""
        self._computed.combined()
        self.job.progress.advance(sum(len(level) for level in self.job.spine.levels))

    def released(self, level: int) -> sp.csr_array:
        """The released histogram of a level, `(n, n_cells)` int64; ReleaseError where its file is not there."""
        geounits = self.job.spine.levels[level]
        path = self.job.readable(self.job.folder(self.universe).histogram(geounits.name))
        return read_histogram(path, geounits.geocodes, self.universe.schema, signed=self.universe.measure.signed)

    def estimate_level(self, level: int) -> Notes:
        """Solve and round one level, given the released level above; writes its histogram.

        Returns:
            What the solvers did.

        Raises:
            SolverError: a family was not solved to its tolerance; the message names its parent.
        """
        problem, estimates = self._computed.combined()
        above = self.released(level - 1) if level else None
        counts, report = downward_level(
            with_positive(self.known.at_level(problem, level), self.job, self.universe, level, above),
            self.basis,
            level,
            estimates[level],
            above,
            self._runner(level),
            checked=self._computed.checked[level],
            passes=self._computed.passes,
        )
        if not level:
            counts = self.known.at_top(problem, counts)
        self._write(self.job.spine.levels[level], counts)
        return report.public() | self.known.notes(level)

    @property
    def known(self) -> Known:
        """What is known of the universe besides its measurements."""
        return self._computed.known

    def _runner(self, level: int) -> Callable[..., Iterator[tuple[sp.csr_array, SolverReport]]]:
        """A function that works on the batches of a level, and keeps their results for a run that is resumed."""
        return partial(
            run_kept,
            self.job.workers,
            self.job.batches,
            self.steps()[1 + level].name,
            named=batch_name,
            packed=packed_level,
            unpacked=unpacked_level,
            done=self._advance,
        )

    def _advance(self, task: LevelTask) -> None:
        self.job.progress.advance(int(task.offsets[-1]))

    def _write(self, level: Level, counts: sp.csr_array) -> None:
        target = self.job.folder(self.universe).histogram(level.name)
        place = (level.name, level.geocodes, self.universe.schema)
        write_histogram(target, self.job.run.staging, *place, counts, signed=self.universe.measure.signed)

    def free(self) -> None:
        """Free the intermediate results; they are recomputed where they are needed."""
        self._computed = self._nothing_computed()

    def close(self) -> None:
        """Free the intermediate results and those kept for a resumed run; all files of the universe are written."""
        self.free()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self.close()
        else:
            self.free()

    def linear(self) -> Computed:
        """The results that linear estimates start from: those of the full estimator."""
        return self._computed if self.stated.estimator == "full" else self._nothing_computed(full=True)

    def _nothing_computed(self, *, full: bool = False) -> Computed:
        return Computed(self.job, self.universe, self._results, full=full)
