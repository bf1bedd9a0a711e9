"""The estimation of a spine that is too large to be held at once: cut into subtrees, part by part.

The parts are independent of each other. They are what is sent to other processes and machines, and what a killed run
resumes from. The resulting files are the same as from the whole spine at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import scipy.sparse as sp

from pipeline.estimation.constraints import Results
from pipeline.estimation.measurement_files import (
    Form,
    MeasurementSource,
    PartTask,
    SourceFiles,
    checked,
    require,
)
from pipeline.estimation.problem import measurement_files, with_values
from pipeline.estimation.whole_spine import (
    CHILDREN,
    INFORMATION,
    Computed,
    Estimation,
    SumsEstimation,
    check_counts,
    check_report,
    is_by_sums,
    packed_level,
    packed_top,
    unpacked_level,
    unpacked_top,
)
from pipeline.execution.batches import run_missing
from pipeline.execution.job import Job
from pipeline.execution.steps import Notes, Step
from pipeline.execution.threads import give_memory_back
from pipeline.model.universe import Universe
from pipeline.release.histograms import write_histogram
from postprocess.algebra import Basis
from postprocess.arrays import Arrays, BoolArray
from postprocess.downward.batch import Pass, SolverReport
from postprocess.downward.subtrees import (
    HELD,
    MOST_CELLS,
    PART_CELLS,
    Cut,
    above_cut,
    compact_below,
    cut_of,
    downward_part,
    joined,
    part_of,
)
from postprocess.linear.upward import LevelEstimate, silent_of, upward_pass
from postprocess.problem import Problem

#: Leaf cells of a part that is sent to another machine: some seconds of work, some tens of megabytes.
SHARED_CELLS = 1 << 23
#: The least number of parts into which a small spine is cut for other machines, as far as its subtrees allow.
LEAST_SHARED = 8


def estimation_of(job: Job, universe: Universe) -> Estimation:
    """The estimation of one universe: at once, by subtrees of a large spine, or on the sums of a large schema."""

    def results(name: str) -> Results:
        return estimation_of(job, next(one for one in job.universes if one.name == name)).computed

    if is_by_sums(universe):
        return SumsEstimation(job, universe, results)
    if universe.strategy.where_positive:
        # What is drawn at a level follows from the level above, so that no part is estimated by itself.
        return Estimation(job, universe, results)
    most = MOST_CELLS if job.most_cells is None else job.most_cells
    part = PART_CELLS if job.part_cells is None else job.part_cells
    if job.workers.shares_parts:
        cells = job.spine.n_leaves * universe.schema.n_cells
        most = part = min(SHARED_CELLS, max(1, cells // LEAST_SHARED))
    cut = cut_of(job.spine, universe.schema.n_cells, most, part)
    return Estimation(job, universe, results) if cut is None else SubtreeEstimation(job, universe, cut, results)


class ComputedBySubtree(Computed):
    """The intermediate results where the spine is cut at a level.

    Args:
        job: the run.
        universe: that is estimated.
        cut: where the spine is cut.
        step: the name under which the parts are kept: that of the combining step and of the cut, since a run that is
            resumed with less memory may be cut at another place.
        results: see `Computed`.
        full: by the full estimator, whichever the spec names.
    """

    def __init__(
        self,
        job: Job,
        universe: Universe,
        cut: Cut,
        step: str,
        results: Callable[[str], Results] | None = None,
        *,
        full: bool = False,
    ) -> None:
        super().__init__(job, universe, results, full=full)
        self.cut = cut
        self.step = step

    @cached_property
    def stated(self) -> Problem:
        """See `Computed.stated`; it is there throughout the run, with a number for each leaf and bounded answer."""
        return compact_below(super().stated, self.cut)

    def combined(self) -> tuple[Problem, list[LevelEstimate]]:
        """The problem of the levels down to the cut, and the upward pass of these levels, top level first."""
        return self._above

    @cached_property
    def _above(self) -> tuple[Problem, list[LevelEstimate]]:
        at_cut = joined([unpacked_top(arrays) for arrays in self._estimated_tops()])
        problem = with_values(above_cut(self.stated, self.cut), measurement_files(self.job, self.universe))
        return problem, upward_pass(problem, self.basis, at_cut, silent_of(self.stated))

    def forget(self) -> None:
        """See `Computed.forget`."""
        super().forget()
        self.__dict__.pop("_above", None)
        self.forget_values()

    def forget_values(self) -> None:
        """Free the values that are held for the parts; they are read again where needed."""
        self.__dict__.pop("_held", None)

    def part(self, number: int, *, values: bool = True) -> tuple[Problem, SourceFiles | None, Basis]:
        """What a task on a part is given: its problem, the files of its measurements, and the basis of the release.

        The values of queries with few numbers are in the problem, and have no file there.

        Args:
            number: of the part.
            values: whether the task needs any; else there are neither values nor files.
        """
        problem, files = self._held if values else (self.stated, None)
        return part_of(problem, self.cut, number), files, self.basis

    @cached_property
    def _files(self) -> tuple[tuple[MeasurementSource, ...], ...]:
        """The files of all measurements, per level from the cut down."""
        return measurement_files(self.job, self.universe)[self.cut.level :]

    @cached_property
    def _held(self) -> tuple[Problem, SourceFiles]:
        """The stated problem with the values of the queries that have the fewest numbers, and the files of the others.

        A file is read by row groups of some million numbers. Of such a query one has the rows of many parts: all of
        the nation's totals of blocks are in two. So each part would read some millions of rows for its thousands.
        """
        stated, levels = self.stated, self.job.spine.levels[self.cut.level :]
        give_memory_back()  # what the problem took to be stated, before the parts' processes take theirs
        numbers = {
            (i, query): len(level) * file.header.size
            for i, (level, of_level) in enumerate(zip(levels, self._files, strict=True))
            for query, file in enumerate(of_level)
        }
        left = HELD * self.cut.largest(self.job.spine) * self.universe.schema.n_cells
        files: list[list[MeasurementSource | None]] = [list(of_level) for of_level in self._files]
        measured = [list(of_level) for of_level in stated.measured]
        for i, query in sorted(numbers, key=lambda place: (numbers[place], place)):
            left -= numbers[i, query]
            if left < 0:
                break
            measured[self.cut.level + i][query] = self._files[i][query].read(levels[i].geocodes)
            files[i][query] = None
        give_memory_back()
        return replace(stated, measured=tuple(map(tuple, measured))), tuple(map(tuple, files))

    def parts(self) -> list[tuple[int, Problem, SourceFiles | None, Basis]]:
        """See `Computed.parts`."""
        return [(number, *self.part(number)) for number in range(len(self.cut.parts))]

    def part_done(self, task: PartTask) -> None:
        """Report to the progress that a part is done."""
        self.job.progress.advance(sum(len(level) for level in task.part.spine.levels[1:]))

    def _estimated_tops(self) -> Iterator[Arrays]:
        """The estimate of each part's geounits at the cut, from its measurements."""
        numbers = range(len(self.cut.parts))
        parts = [([str(number)], partial(self._top_task, number)) for number in numbers]
        workers, batches = self.job.workers, self.job.batches
        run_missing(workers, batches, self.step, estimate_top, parts, self.part_done)
        for number in numbers:
            yield batches.needed(self.step, str(number))

    def _top_task(self, number: int) -> TopTask:
        return TopTask(number, *self.part(number))


class SubtreeEstimation(Estimation):
    """The estimation of one universe whose spine is cut at a level."""

    computed: ComputedBySubtree
    cut: Cut

    def __init__(self, job: Job, universe: Universe, cut: Cut, results: Callable[[str], Results] | None = None) -> None:
        self.cut = cut
        super().__init__(job, universe, results)

    def steps(self) -> list[Step]:
        """The steps of the levels down to the cut, and one for all below it."""
        steps = super().steps()
        upper, below = steps[: self.cut.level + 2], steps[self.cut.level + 2 :]
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
        self.computed.combined()
        self.job.progress.advance(self.cut.level + 1)

    def estimate_below(self) -> Notes:
        """Solve and round all levels below the cut, part by part; writes their histograms.

        Returns:
            What the solvers did, by the names of these levels' steps.
        """
        levels = self.job.spine.levels[self.cut.level + 1 :]
        counts = self.released(self.cut.level)
        parts = [
            ([f"{level.name}-{number}" for level in levels], partial(self._below_task, number, counts))
            for number in range(len(self.cut.parts))
        ]
        workers, batches = self.job.workers, self.job.batches
        run_missing(workers, batches, self._step_below, estimate_below, parts, self.computed.part_done)
        self.computed.forget_values()
        notes: Notes = {}
        for level in levels:
            reports: list[SolverReport] = []
            target = self.job.folder(self.universe).histogram(level.name)
            histograms = self._histograms(level.name, reports)
            place = (level.name, level.geocodes, self.universe.schema)
            write_histogram(target, self.job.run.staging, *place, histograms, signed=self.universe.measure.signed)
            name = Step("estimate", self.estimate_below, self.universe.name, level.name).name
            notes[name] = sum(reports, SolverReport()).public() | self.known.notes(self.job.spine.index_of(level.name))
        return notes

    def _histograms(self, level: str, reports: list[SolverReport]) -> Iterator[sp.csr_array]:
        """The histograms of one level, part by part; appends what the solvers did to `reports`."""
        for number in range(len(self.cut.parts)):
            counts, part = unpacked_level(self.job.batches.needed(self._step_below, f"{level}-{number}"))
            reports.append(part)
            yield counts

    def _below_task(self, number: int, counts: sp.csr_array) -> BelowTask:
        first, last = self.cut.parts[number]
        rows = self.job.spine.rows_below(self.cut.level, first, last)
        flags = self.computed.checked[self.cut.level + 1 :]
        checked = tuple(flag[own] for flag, own in zip(flags, rows, strict=False))
        part, files, basis = self.computed.part(number)
        part = self.known.put(part, range(self.cut.level, self.job.spine.n_levels), rows)
        return BelowTask(number, part, files, basis, counts[first:last], checked, self.computed.passes)

    def close(self) -> None:
        """Free the intermediate results and the parts, since the files are written."""
        super().close()
        for step in (self.computed.step, self._step_below, self._step_linear):
            self.job.batches.forget(step)

    @property
    def _step_linear(self) -> str:
        return f"linear {self.universe.name} {self.cut.name}"

    @property
    def _step_below(self) -> str:
        return f"{self.steps()[-1].name} {self.cut.name}"

    def _nothing_computed(self, *, full: bool = False) -> ComputedBySubtree:
        step = self._step_linear if full else f"{self.steps()[0].name} {self.cut.name}"
        return ComputedBySubtree(self.job, self.universe, self.cut, step, self._results, full=full)


# -- the work on one part: what is sent to a worker, and what comes back ----------------------------------------------


@dataclass(frozen=True, eq=False)
class TopTask(PartTask):
    """One part whose geounits at the cut are to be estimated."""

    @property
    def n_results(self) -> int:
        """One: the estimate of the tops."""
        return 1

    def check(self, number: int, arrays: Arrays) -> None:  # noqa: ARG002
        """See `PartTask.check`."""
        n, n_cells = len(self.part.spine.levels[0]), int(np.prod(self.part.shape))
        blocks = (self.basis.n_blocks, self.basis.n_asymmetric, self.basis.n_asymmetric)
        form: Form = {"classes": (np.int64, (n,))}
        form |= {f"info_{name}": (np.float64, (None, *blocks)) for name in INFORMATION}
        if "fixed" in arrays:
            form["fixed"] = (np.float64, (n, n_cells))
        if "children_mean" in arrays:
            form |= {f"children_{name}": (np.float64, (n, n_cells)) for name in CHILDREN}
            form["children_precision"] = (np.float64, (None, *blocks))
        classes = np.asarray(checked(arrays, form)["classes"], dtype=np.int64)
        n_classes = int(classes.max(initial=-1)) + 1
        require(bool((classes >= 0).all()) and n_classes <= n, "classes")
        for name, (_, shape) in form.items():
            require(bool(np.isfinite(np.asarray(arrays[name], dtype=np.float64)).all()), name)
            require(shape[0] is not None or len(arrays[name]) == n_classes, name)


@dataclass(frozen=True, eq=False)
class BelowTask(PartTask):
    """One part whose whole numbers at the cut are fixed.

    Attributes:
        counts: at the cut, `(n, n_cells)`.
        checked: per level below the cut, which parents' children are solved again.
        passes: of the whole release.
    """

    counts: sp.csr_array
    checked: tuple[BoolArray, ...]
    passes: tuple[Pass, ...]

    def check(self, number: int, arrays: Arrays) -> None:
        """See `PartTask.check`."""
        names = {"counts.data", "counts.indices", "counts.indptr", "counts.shape", "report"}
        for name in sorted(arrays.keys() ^ names):
            require(False, name)
        check_counts(arrays, len(self.part.spine.levels[number + 1]), int(np.prod(self.part.shape)))
        check_report(arrays["report"])


def estimate_top(task: TopTask) -> list[Arrays]:
    """The estimate of the part's geounits at the cut from all its measurements."""
    return [packed_top(upward_pass(task.problem(), task.basis)[0])]


def estimate_below(task: BelowTask) -> list[Arrays]:
    """Histograms and solver reports of the part's levels below the cut, top down.

    Raises:
        SolverError: a parent could not be solved; the message names it.
    """
    solved = downward_part(task.problem(), task.basis, task.counts, task.checked, task.passes)
    return [packed_level(level) for level in solved]
