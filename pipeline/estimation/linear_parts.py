"""The linear estimates of one part of a spine that is cut: variances of tables' answers, and the answers themselves.

Given the best linear estimate at the cut and its covariances, the levels below follow part by part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.estimation.part import PartTask
from pipeline.execution.workers import foreign_arrays
from postprocess.arrays import Arrays, FloatArray
from postprocess.downward.subtrees import in_64_bits
from postprocess.linear.downward import (
    AnswerVariances,
    Asked,
    LevelVariances,
    answer_variances_below,
    unbiased_estimates,
    variances_below,
)
from postprocess.linear.upward import upward_pass
from postprocess.marginal import Marginal
from postprocess.problem import MeasuredAnswers, Problem

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

    def problem(self) -> Problem:
        """See `PartTask.problem`; variances need no values."""
        if self.best is not None:
            return super().problem()
        levels = zip(self.part.spine.levels, self.part.measured, strict=True)
        nothing = tuple(tuple(_blank(query, len(level)) for query in queries) for level, queries in levels)
        return replace(in_64_bits(self.part), measured=nothing)

    def packed(self) -> PartTask:
        """See `PartTask.packed`."""
        return super().packed() if self.best is not None else self

    def arrays_of(self, result: Any) -> Arrays:
        """See `PartTask.arrays_of`."""
        return linear_arrays(result, self.queries)

    def result_of(self, arrays: Arrays) -> Any:
        """See `PartTask.result_of`."""
        _check(arrays, self)
        return linear_levels(arrays, self.queries, with_answers=self.best is not None)


def _blank(query: MeasuredAnswers, n: int) -> MeasuredAnswers:
    return replace(query, values=np.broadcast_to(np.int8(0), (n, query.marginal.size)))


def linear_below(task: LinearTask) -> list[LinearLevel]:
    """The part's levels below the cut; ReleaseError where a file of measurements is damaged."""
    problem, basis, above = task.problem(), task.basis, task.best
    upward = upward_pass(problem, basis, means=above is not None)
    if above is None:
        found = answer_variances_below(problem, basis, upward, task.top, task.queries)
        return [LinearLevel(variances, ()) for variances in found]
    out: list[LinearLevel] = []
    for level, (variances, queries) in enumerate(
        zip(variances_below(problem, upward, task.top), task.queries, strict=True), 1
    ):
        above = np.concatenate([best for _, best in unbiased_estimates(problem, basis, upward, level, above)])
        answers = tuple(query.answer(above) for query in queries if isinstance(query, Marginal))
        out.append(LinearLevel(variances.of_queries(basis, queries), answers))
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
        batches, cut = self._computed.job.batches, self._computed.cut
        missing = [
            number
            for number in range(len(cut.parts))
            if not all(batches.has(self._step, f"{level.name}-{number}") for level in self._levels)
        ]
        tasks = (self._task(number) for number in missing)
        found = self._computed.job.workers.run(linear_below, tasks, done)
        for number, levels in zip(missing, found, strict=True):
            for level, result, queries in zip(self._levels, levels, self._queries, strict=True):
                batches.put(self._step, f"{level.name}-{number}", level_arrays(result, queries))

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
        return level_of(arrays, queries, with_answers=self._best is not None)

    def forget(self) -> None:
        """Remove what is kept."""
        self._computed.job.batches.forget(self._step)


def level_arrays(level: LinearLevel, queries: Sequence[Asked]) -> Arrays:
    """One level as arrays."""
    arrays: dict[str, np.ndarray] = {"classes": level.variances.classes}
    arrays |= {f"variances{i}": level.variances.by_query[query.key] for i, query in enumerate(queries)}
    return arrays | {f"answers{i}": answers for i, answers in enumerate(level.answers)}


def level_of(arrays: Arrays, queries: Sequence[Asked], *, with_answers: bool) -> LinearLevel:
    """What `level_arrays` made."""
    by_query = {query.key: arrays[f"variances{i}"] for i, query in enumerate(queries)}
    answers = tuple(arrays[f"answers{i}"] for i in range(len(queries))) if with_answers else ()
    return LinearLevel(AnswerVariances(arrays["classes"], by_query), answers)


def linear_arrays(levels: Sequence[LinearLevel], queries: Sequence[Sequence[Asked]]) -> Arrays:
    """All levels of a part as arrays."""
    return {
        f"{i}.{name}": array
        for i, (level, own) in enumerate(zip(levels, queries, strict=True))
        for name, array in level_arrays(level, own).items()
    }


def linear_levels(arrays: Arrays, queries: Sequence[Sequence[Asked]], *, with_answers: bool) -> list[LinearLevel]:
    """What `linear_arrays` made."""
    of_level = [
        {name.split(".", 1)[1]: array for name, array in arrays.items() if name.split(".", 1)[0] == str(i)}
        for i in range(len(queries))
    ]
    return [level_of(own, asked, with_answers=with_answers) for own, asked in zip(of_level, queries, strict=True)]


def _check(arrays: Arrays, task: LinearTask) -> None:
    """Raises WorkerError where the arrays of another machine are not those of the part."""
    expected: dict[str, tuple[type[np.generic], tuple[int | None, int]]] = {}
    for i, (level, queries) in enumerate(zip(task.part.spine.levels[1:], task.queries, strict=True)):
        for j, query in enumerate(queries):
            expected[f"{i}.variances{j}"] = (np.float64, (None, query.size))
            if task.best is not None:
                expected[f"{i}.answers{j}"] = (np.float64, (len(level), query.size))
        classes = arrays.get(f"{i}.classes")
        _require(classes is not None and classes.dtype == np.int64 and classes.shape == (len(level),), f"{i}.classes")
        assert classes is not None
        known = min((len(arrays.get(f"{i}.variances{j}", ())) for j in range(len(queries))), default=len(level))
        _require(bool(((classes >= 0) & (classes < known)).all()), f"{i}.classes")
    for name, (kind, (n, size)) in expected.items():
        array = arrays.get(name)
        shaped = array is not None and array.dtype == kind and array.ndim == 2 and array.shape[1] == size
        _require(shaped and (n is None or array.shape[0] == n), name)  # type: ignore[union-attr]
        _require(not np.isinf(array).any(), name)  # type: ignore[arg-type]
    names = expected.keys() | {f"{i}.classes" for i in range(len(task.queries))}
    _require(set(arrays) == names, next(iter(sorted(set(arrays) ^ names)), ""))


def _require(right: bool, name: str) -> None:
    if not right:
        raise foreign_arrays(name)
