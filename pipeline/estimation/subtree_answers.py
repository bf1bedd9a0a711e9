"""Answers of some queries from each subtree's own measurements, at all levels: of a spine held at once, or in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.estimation.knowledge import Results
from pipeline.estimation.part import PartTask
from pipeline.execution.batch_store import Arrays
from pipeline.execution.workers import Workers, foreign_arrays
from postprocess.linear.answers import answers_of_subtrees
from postprocess.linear.upward import upward_pass
from postprocess.marginal import Marginal

#: Estimates and variances of one query's answers at one level, `(n, size)` both; variances are infinite where nothing
#: is measured.
Answers = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class AnswersTask(PartTask):
    """One part of which answers are estimated.

    Attributes:
        queries: per level of the part below its top.
    """

    queries: tuple[tuple[Marginal, ...], ...]

    def arrays_of(self, result: list[list[Answers]]) -> Arrays:
        """See `PartTask.arrays_of`."""
        return {
            f"{level}.{number}.{kind}": array
            for level, answers in enumerate(result)
            for number, pair in enumerate(answers)
            for kind, array in zip(("values", "variances"), pair, strict=True)
        }

    def result_of(self, arrays: Arrays) -> list[list[Answers]]:
        """See `PartTask.result_of`."""
        expected = {
            f"{level}.{number}.{kind}": (len(self.part.spine.levels[level + 1]), query.size)
            for level, queries in enumerate(self.queries)
            for number, query in enumerate(queries)
            for kind in ("values", "variances")
        }
        if arrays.keys() != expected.keys() or any(
            arrays[name].shape != shape or arrays[name].dtype != np.float64 for name, shape in expected.items()
        ):
            raise foreign_arrays("estimated answers")
        return [
            [(arrays[f"{level}.{number}.values"], arrays[f"{level}.{number}.variances"]) for number in range(len(own))]
            for level, own in enumerate(self.queries)
        ]


def estimate_answers(task: AnswersTask) -> list[list[Answers]]:
    """The answers of the queries at each level of the part below its top."""
    problem = task.problem()
    estimates = upward_pass(problem, task.basis)
    return [
        [answers_of_subtrees(problem, task.basis, level, estimates[level], query) for query in queries]
        for level, queries in enumerate(task.queries, start=1)
    ]


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
    return [*answers, *_below_cut(workers, computed, queries[problem.spine.n_levels :])]


def _below_cut(workers: Workers, computed: Results, queries: Sequence[Sequence[Marginal]]) -> list[list[Answers]]:
    """The answers of the levels below those that are held at once."""
    if not any(queries):
        return [[] for _ in queries]
    below = tuple(tuple(own) for own in queries)
    results = list(workers.run(estimate_answers, [AnswersTask(*part, below) for part in computed.parts()]))
    return [
        [
            (
                np.concatenate([result[level][number][0] for result in results]),
                np.concatenate([result[level][number][1] for result in results]),
            )
            for number in range(len(own))
        ]
        for level, own in enumerate(below)
    ]
