"""Unbiased estimates of some queries' answers at all levels: of each subtree alone, or of all that is measured.

The linear estimates of one part of a spine that is cut: variances of tables' answers, and the answers themselves.

Given the best linear estimate at the cut and its covariances, the levels below follow part by part.

Each subtree's own measurements give an answer of its top, and given the answers of the level above these add up to
them (`adjusted`). So those of all that is measured follow from the top down, some families at a time: a piece is kept
as a file until all tables are written, and what is held does not grow with the number of geounits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pipeline.estimation.constraints import Results
from pipeline.estimation.measurement_files import (
    Form,
    PartTask,
    SourceFiles,
    checked,
    require,
)
from pipeline.execution.batches import run_missing
from pipeline.execution.job import Job
from pipeline.execution.workers import Workers
from postprocess.algebra import Basis
from postprocess.arrays import Arrays, FloatArray, IntArray, runs
from postprocess.linear.downward import (
    AnswerVariances,
    Asked,
    LevelVariances,
    answer_variances_of,
    whole_estimates,
)
from postprocess.linear.upward import answers_of_subtrees, upward_pass
from postprocess.marginal import Marginal, MarginalKey
from postprocess.problem import Problem
from postprocess.shares.estimates import adjusted

if TYPE_CHECKING:
    from pipeline.estimation.by_subtree import ComputedBySubtree


@dataclass(frozen=True, eq=False)
class LinearLevel:
    """What is wanted of one level of a part.

    Attributes:
        variances: of the queries' answers.
        answers: of each query the estimates `(n, size)`; empty where they are not asked for.
    """

    variances: AnswerVariances
    answers: tuple[FloatArray, ...]


@dataclass(frozen=True, eq=False)
class LinearTask(PartTask):
    """One part whose linear estimate at the cut is known.

    Attributes:
        top: the covariances of its geounits at the cut, after both passes.
        queries: per level below the cut.
        best: the estimates at the cut `(n, n_cells)`; None where variances alone are wanted.
    """

    top: LevelVariances
    queries: tuple[tuple[Asked, ...], ...]
    best: FloatArray | None

    def check(self, number: int, arrays: Arrays) -> None:
        """See `PartTask.check`."""
        n, queries = len(self.part.spine.levels[number + 1]), self.queries[number]
        form: Form = {f"variances{i}": (np.float64, (None, query.size)) for i, query in enumerate(queries)}
        if self.best is not None:
            form |= {f"answers{i}": (np.float64, (n, query.size)) for i, query in enumerate(queries)}
        checked(arrays, {"classes": (np.int64, (n,)), **form})
        for name in form:
            require(not np.isinf(arrays[name]).any(), name)
        known = min((len(arrays[f"variances{i}"]) for i in range(len(queries))), default=n)
        require(bool(((arrays["classes"] >= 0) & (arrays["classes"] < known)).all()), "classes")


def linear_below(task: LinearTask) -> list[Arrays]:
    """The part's levels below the cut; ReleaseError where a file of measurements is damaged."""
    problem, basis = task.problem(), task.basis
    upward = upward_pass(problem, basis, means=task.best is not None)
    found = answer_variances_of(problem, basis, upward, task.queries, task.top)
    answers: list[list[FloatArray]] = [[] for _ in found]
    if task.best is not None:
        for own, queries, best in zip(
            answers, task.queries, whole_estimates(problem, basis, upward, task.best), strict=True
        ):
            own += [query.answer(best) for query in queries if isinstance(query, Marginal)]
    out: list[Arrays] = []
    for variances, queries, own in zip(found, task.queries, answers, strict=True):
        arrays: dict[str, np.ndarray] = {"classes": variances.classes}
        arrays |= {f"variances{i}": variances.by_query[query.key] for i, query in enumerate(queries)}
        out.append(arrays | {f"answers{i}": values for i, values in enumerate(own)})
    return out


class LinearParts:
    """The levels below the cut of one universe, part by part; each part is kept for a run that is resumed.

    Args:
        computed: the results at the cut.
        top: the covariances at the cut, after both passes.
        queries: per level below the cut.
        step: the name under which parts are kept.
        best: the estimates at the cut `(n, n_cells)`; None where variances alone are wanted.
    """

    def __init__(
        self,
        computed: ComputedBySubtree,
        top: LevelVariances,
        queries: tuple[tuple[Asked, ...], ...],
        step: str,
        best: FloatArray | None = None,
    ) -> None:
        self._computed = computed
        self._top, self._queries, self._best = top, queries, best
        self._step = f"{step} {computed.cut.name}"
        self._levels = computed.job.spine.levels[computed.cut.level + 1 :]

    def compute(self, done: Callable[[PartTask], None] | None = None) -> None:
        """Compute what is not kept yet; calls `done` with each part that was."""
        parts = [
            ([f"{level.name}-{number}" for level in self._levels], partial(self._task, number))
            for number in range(len(self._computed.cut.parts))
        ]
        job = self._computed.job
        run_missing(job.workers, job.batches, self._step, linear_below, parts, done)

    def _task(self, number: int) -> LinearTask:
        rows = slice(*self._computed.cut.parts[number])
        best = None if self._best is None else self._best[rows]
        part = self._computed.part(number, values=best is not None)
        return LinearTask(number, *part, self._top.of_rows(rows), self._queries, best)

    def rows(self, level: int, number: int) -> slice:
        """The rows of a level of the spine that a part has."""
        cut = self._computed.cut
        return self._computed.job.spine.rows_below(cut.level, *cut.parts[number])[level - cut.level]

    def level(self, level: int, number: int) -> LinearLevel:
        """A level of the spine in one part; ReleaseError where it was damaged since it was computed."""
        name = self._computed.job.spine.level_names[level]
        arrays = self._computed.job.batches.needed(self._step, f"{name}-{number}")
        queries = self._queries[level - self._computed.cut.level - 1]
        by_query = {query.key: arrays[f"variances{i}"] for i, query in enumerate(queries)}
        answers = tuple(arrays[f"answers{i}"] for i in range(len(queries)) if self._best is not None)
        return LinearLevel(AnswerVariances(arrays["classes"], by_query), answers)

    def forget(self) -> None:
        """Remove what is kept."""
        self._computed.job.batches.forget(self._step)


#: Estimates and variances of one query's answers at one level, `(n, size)` both; variances are infinite where nothing
#: is measured.
Answers = tuple[FloatArray, FloatArray]
#: Numbers of a piece, all queries together; a family is never split.
PIECE_NUMBERS = 2_000_000
#: Decimals of estimates and standard errors, so that the last bits of a computation do not show.
_DECIMALS = 3


@dataclass(frozen=True, eq=False)
class AnswersTask(PartTask):
    """One part of which answers are estimated.

    Attributes:
        queries: per level of the part below its top.
        above: the answers of its top level, by the queries' keys; None where those of each subtree alone are wanted.
    """

    queries: tuple[tuple[Marginal, ...], ...]
    above: Mapping[MarginalKey, Answers] | None = None

    def check(self, number: int, arrays: Arrays) -> None:
        """See `PartTask.check`."""
        n = len(self.part.spine.levels[number + 1])
        sizes = enumerate(query.size for query in self.queries[number])
        form: Form = {f"{kind}{i}": (np.float64, (n, size)) for i, size in sizes for kind in _KINDS}
        checked(arrays, form)


#: What an answer has, each an array of a name that begins with it.
_KINDS = ("values", "variances")


def estimate_answers(task: AnswersTask) -> list[Arrays]:
    """The answers of the queries at each level of the part below its top."""
    problem = task.problem()
    estimates = upward_pass(problem, task.basis)
    found: list[Arrays] = []
    above = task.above
    for level, queries in enumerate(task.queries, start=1):
        own = {query.key: answers_of_subtrees(problem, task.basis, level, estimates[level], query) for query in queries}
        if above is not None:
            parents = problem.spine.levels[level].parents
            own = above = {key: _below(pair, parents, above[key]) for key, pair in own.items()}
        found.append(_packed([own[query.key] for query in queries]))
    return found


def subtree_answers(workers: Workers, computed: Results, queries: Sequence[Sequence[Marginal]]) -> list[list[Answers]]:
    """Per level of the spine, of each of its queries the answers that each subtree's measurements give.

    Args:
        workers: that work on the parts of a spine that is cut.
        computed: the intermediate results of the universe.
        queries: per level of the spine.
    """
    problem, estimates = computed.combined()
    answers: list[list[Answers]] = [
        [answers_of_subtrees(problem, computed.basis, level, estimates[level], query) for query in own]
        for level, own in enumerate(queries[: problem.spine.n_levels])
    ]
    below = tuple(map(tuple, queries[problem.spine.n_levels :]))
    parts = computed.parts() if any(below) else []
    results = list(workers.run(estimate_answers, [AnswersTask(*part, below) for part in parts]))
    for level, own in enumerate(below):
        columns = (([result[level][f"{kind}{i}"] for result in results] for kind in _KINDS) for i in range(len(own)))
        answers.append([(np.concatenate(values), np.concatenate(variances)) for values, variances in columns])
    return answers


class KeptAnswers:
    """The estimates of one universe, which are computed once and then looked up.

    Args:
        job: the run.
        computed: the intermediate results of the universe.
        queries: per level, by their keys; those of a level are among those of the level above.
        step: the name under which they are kept.
    """

    def __init__(
        self, job: Job, computed: Results, queries: Sequence[Mapping[MarginalKey, Marginal]], step: str
    ) -> None:
        self._job, self._computed, self._queries, self._step = job, computed, queries, step
        self._starts: dict[int, list[int]] = {}
        self._read: dict[str, Arrays] = {}

    def compute(self) -> None:
        """Compute what is not kept yet: of the levels that are held at once whole families, some together."""
        problem, estimates = self._computed.combined()
        basis, spine = self._computed.basis, problem.spine
        for level, queries in enumerate(self._queries[: spine.n_levels]):
            offsets = spine.child_offsets(level - 1) if level else np.array([0, len(spine.levels[0])])
            most = PIECE_NUMBERS // max(1, sum(query.size for query in queries.values()))
            self._starts[level] = [0, *(int(offsets[last]) for _, last in runs(offsets, max(1, most)))]
            for number, (first, last) in enumerate(pairwise(self._starts[level] if queries else ())):
                if self._job.batches.has(self._step, f"{level}-{number}"):
                    continue
                rows, parents = np.arange(first, last), spine.levels[level].parents[first:last]
                above = slice(int(parents[0]), int(parents[-1]) + 1)
                found = []
                for key, query in queries.items():
                    own = answers_of_subtrees(problem, basis, level, estimates[level], query, rows)
                    found.append(_below(own, parents - above.start, self._of(level - 1, key, above)) if level else own)
                self._job.batches.put(self._step, f"{level}-{number}", _packed(found))
        if any(self._queries[spine.n_levels :]):
            self._compute_below(spine.n_levels)

    def _compute_below(self, first: int) -> None:
        """The levels from `first` on, which are below a cut: of each part a piece."""
        below, levels = (
            tuple(tuple(own.values()) for own in self._queries[first:]),
            range(first, self._job.spine.n_levels),
        )
        parts = self._computed.parts()
        for level in levels:
            ends = np.cumsum([len(part.spine.levels[level - first + 1]) for _, part, _, _ in parts])
            self._starts[level] = [0, *ends.tolist()]

        def task(number: int, part: Problem, files: SourceFiles | None, basis: Basis) -> AnswersTask:
            tops = slice(part.first_row(0), part.first_row(0) + len(part.spine.levels[0]))
            above = {query.key: self._of(first - 1, query.key, tops) for query in below[0]}
            return AnswersTask(number, part, files, basis, below, above)

        tasks = [([f"{level}-{part[0]}" for level in levels], partial(task, *part)) for part in parts]
        run_missing(self._job.workers, self._job.batches, self._step, estimate_answers, tasks)

    def _of(self, level: int, key: MarginalKey, rows: slice) -> Answers:
        """Estimates and variances of a query's answers in some rows of a level."""
        starts, i = self._starts[level], list(self._queries[level]).index(key)
        first, last = np.searchsorted(starts, (rows.start + 1, rows.stop)).tolist()
        pieces = [f"{level}-{number}" for number in range(first - 1, max(first, last))]
        self._read = {one: self._read.get(one) or self._job.batches.needed(self._step, one) for one in pieces}
        own = slice(rows.start - starts[first - 1], rows.stop - starts[first - 1])
        values, variances = (
            np.concatenate([arrays[f"{kind}{i}"] for arrays in self._read.values()])[own] for kind in _KINDS
        )
        return values, variances

    def of(self, level: int, query: Marginal, rows: slice) -> tuple[FloatArray, FloatArray]:
        """Estimates and standard errors, infinite where nothing is measured, of a query's answers in some rows."""
        values, variances = self._of(level, query.key, rows)
        return values.round(_DECIMALS), np.sqrt(variances).round(_DECIMALS)

    def forget(self) -> None:
        """Remove what is kept."""
        self._read.clear()
        self._job.batches.forget(self._step)


def _below(own: Answers, parents: IntArray, above: Answers) -> Answers:
    found = adjusted(*own, parents, above)
    return found.values, found.variances


def _packed(answers: Sequence[Answers]) -> Arrays:
    """Those of a level's queries, in their order."""
    pairs = enumerate(answers)
    return {f"{kind}{i}": array for i, pair in pairs for kind, array in zip(_KINDS, pair, strict=True)}
