"""How far the areas of one universe are from their public shares, from the measurements alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from features.shares.intervals import SharedIntervals, WithShares
from features.shares.public_share import PublicShare
from features.shares.stated import stated_shares
from pipeline.estimation.knowledge import IntervalRule, Knowledge, Results
from pipeline.estimation.part import PartTask
from pipeline.execution.batch_store import Arrays
from pipeline.execution.job import Job
from pipeline.execution.steps import Notes
from pipeline.execution.workers import foreign_arrays
from pipeline.model.universe import Table, Universe
from postprocess.linear.answers import answers_of_subtrees
from postprocess.linear.upward import upward_pass
from postprocess.marginal import Marginal
from postprocess.problem import Problem
from postprocess.shares.estimates import Estimates, adjusted
from postprocess.shares.shared import Shared

#: Estimates and variances of one query's answers at one level, `(n, size)` both.
Answers = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class AnswersTask(PartTask):
    """One part of which answers are estimated, for how far they are from the public shares.

    Attributes:
        queries: per level of the part below its top, the queries of its shares.
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
    """The answers of the shares' queries at each level of the part below its top."""
    problem = task.problem()
    estimates = upward_pass(problem, task.basis)
    return [
        [answers_of_subtrees(problem, task.basis, level, estimates[level], query) for query in queries]
        for level, queries in enumerate(task.queries, start=1)
    ]


class PublicShares(Knowledge):
    """The public shares of one universe with their spreads, which are estimated at first use.

    Args:
        job: the run.
        universe: with the shares.
        shares: its own.
        results: its intermediate results.
    """

    def __init__(self, job: Job, universe: Universe, shares: Sequence[PublicShare], results: Results) -> None:
        self._job = job
        self._universe = universe
        self._shares = shares
        self._results = results

    def stated(self, problem: Problem) -> Problem:
        """See `Knowledge.stated`; the shares are without spreads."""
        return replace(problem, shares=stated_shares(self._job, self._universe, self._shares))

    def shares(self, level: int, rows: slice) -> tuple[Shared, ...]:
        """See `Knowledge.shares`."""
        return tuple(one.of_rows(rows) for one in self.levels[level]) if self._stated else ()

    def notes(self, level: int) -> Notes:
        """See `Knowledge.notes`: of each of a level's shares the spread of each answer."""
        if not self._stated or not self._stated[level]:
            return {}
        by_name = {share.name: share for share in self._shares}
        found = {}
        for one in self.levels[level]:
            labels = by_name[one.name].query.answer_labels()
            found[one.name] = {
                labels[int(answer)]: spread.public() for answer, spread in zip(one.answers, one.spreads, strict=True)
            }
        return {"shares": found}

    def intervals(self, rule: IntervalRule, table: Table, level: int) -> IntervalRule:
        """See `Knowledge.intervals`: those of numbers that are shared are put over the rule's."""
        if not self._stated or not self._stated[level]:
            return rule
        parents = self._job.spine.levels[level].parents
        shared = SharedIntervals.of(self.levels[level], self.unbiased[level], table.query, parents)
        return rule if shared is None else WithShares(rule, shared)

    @cached_property
    def levels(self) -> tuple[tuple[Shared, ...], ...]:
        """Per level of the spine, the shares with their spreads."""
        return tuple(
            tuple(
                one.with_spreads(values[:, one.answers], variances[:, one.answers], level.parents)
                for one, (values, variances) in zip(own, of_level, strict=True)
            )
            for level, own, of_level in zip(self._job.spine.levels, self._stated, self._answers, strict=True)
        )

    @cached_property
    def unbiased(self) -> tuple[dict[str, Estimates], ...]:
        """Per level, of each share by its name the unbiased estimates of its answers.

        They do without the shares, and are those of each geounit's subtree and of all above it.
        """
        found: list[dict[str, Estimates]] = [{}]
        above = self._at_top()
        for level, own, of_level in zip(self._job.spine.levels[1:], self._stated[1:], self._answers[1:], strict=True):
            below = {
                one.name: adjusted(
                    values[:, one.answers], variances[:, one.answers], level.parents, above.get(one.name)
                )
                for one, (values, variances) in zip(own, of_level, strict=True)
            }
            above = {name: (one.values, one.variances) for name, one in below.items()}
            found.append(below)
        return tuple(found)

    def _at_top(self) -> dict[str, Answers]:
        """The answers of the top level, of the shares of the one below it."""
        computed = self._results
        problem, estimates = computed.combined()
        found = {}
        for one in self._stated[1] if len(self._stated) > 1 else ():
            values, variances = answers_of_subtrees(problem, computed.basis, 0, estimates[0], one.query)
            found[one.name] = values[:, one.answers], variances[:, one.answers]
        return found

    @property
    def _stated(self) -> tuple[tuple[Shared, ...], ...]:
        return self._results.stated.shares

    @cached_property
    def _answers(self) -> list[list[Answers]]:
        """Per level, of each share's query the answers that each subtree's measurements give."""
        computed = self._results
        problem, estimates = computed.combined()
        answers: list[list[Answers]] = [
            [answers_of_subtrees(problem, computed.basis, level, estimates[level], one.query) for one in own]
            for level, own in enumerate(self._stated[: problem.spine.n_levels])
        ]
        return [*answers, *self._below_cut(computed, problem.spine.n_levels)]

    def _below_cut(self, computed: Results, first: int) -> Iterator[list[Answers]]:
        """The answers of the levels from `first` on, where the spine is cut above them."""
        parts = computed.parts()
        if not parts:
            return
        queries = tuple(tuple(one.query for one in own) for own in computed.stated.shares[first:])
        if not any(queries):
            yield from ([] for _ in queries)
            return
        results = list(self._job.workers.run(estimate_answers, [AnswersTask(*part, queries) for part in parts]))
        for level, own in enumerate(queries):
            yield [
                (
                    np.concatenate([result[level][number][0] for result in results]),
                    np.concatenate([result[level][number][1] for result in results]),
                )
                for number in range(len(own))
            ]
