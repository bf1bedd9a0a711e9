"""Public shares as knowledge of an estimation: their spreads, and intervals of the numbers that they move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from features.shares.expectation import expectations
from features.shares.files import stated_shares
from features.shares.public_share import PublicShare
from features.shares.spreads import with_spreads
from pipeline.estimation.constraints import IntervalRule, Knowledge, Results, StandardErrors
from pipeline.estimation.subtree_answers import Answers, subtree_answers
from pipeline.execution.job import Job
from pipeline.execution.steps import Notes
from pipeline.model.universe import Table, Universe
from postprocess.arrays import Ends, IntArray
from postprocess.linear.upward import answers_of_subtrees
from postprocess.marginal import Marginal
from postprocess.problem import Problem
from postprocess.shares.estimates import Estimates, adjusted
from postprocess.shares.intervals import constant_coverage
from postprocess.shares.shared import Shared
from postprocess.statistics import EXACT_VARIANCE, holding

#: Decimals of persons that are kept, so that neither batches nor parts show.
_DECIMALS = 4


def shared_intervals(
    rule: IntervalRule,
    shares: Sequence[Shared],
    unbiased: Mapping[str, Estimates],
    table: Marginal,
    parents: IntArray,
) -> IntervalRule:
    """The intervals of a table at one level of which some numbers are shared as public numbers are.

    Args:
        rule: without shares; the rule itself where no answer of the table is shared at the level.
        shares: of the level, with their spreads.
        unbiased: share -> the unbiased estimates of its answers.
        table: the query of the table.
        parents: `(n,)` of the level's geounits.
    """
    own = [one for one in shares if one.query.key == table.key]
    if not own:
        return rule
    cells = np.unique(np.concatenate([one.answers for one in own]))
    estimates, variances = (np.empty((len(parents), len(cells))) for _ in range(2))
    for one in own:
        place = np.searchsorted(cells, one.answers)
        estimates[:, place], variances[:, place] = unbiased[one.name].values, unbiased[one.name].variances
    expected = expectations([(one, unbiased[one.name]) for one in own], cells, parents)
    estimates, errors = estimates.round(_DECIMALS), np.sqrt(variances).round(_DECIMALS)

    def ends(counts: IntArray, rows: slice) -> Ends:
        """Other ends in place of the rule's, so far as numbers are shared and measured.

        An interval holds its released number and at least one person to each side of it. Numbers that are exact, and
        those that no measurement determines, stay as they are.
        """
        low, high = rule(counts, rows)
        for place, cell in enumerate(cells):
            standard, count = errors[rows, place], counts[:, cell]
            measured = np.isfinite(standard) & (standard**2 > EXACT_VARIANCE)
            found = np.flatnonzero(measured & np.isfinite(low[:, cell]) & (low[:, cell] < high[:, cell]))
            least, most = constant_coverage(
                estimates[rows, place][found],
                standard[found],
                expected.centres[rows, place][found],
                expected.variances[rows, place][found],
            )
            low[found, cell], high[found, cell] = holding(least, most, count[found])
        return low, high

    return ends


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

    def intervals(
        self,
        rule: IntervalRule,
        standard: StandardErrors,  # noqa: ARG002
        table: Table,
        level: int,
    ) -> IntervalRule:
        """See `Knowledge.intervals`: those of numbers that are shared are put over the rule's."""
        if not self._stated or not self._stated[level]:
            return rule
        parents = self._job.spine.levels[level].parents
        return shared_intervals(rule, self.levels[level], self.unbiased[level], table.query, parents)

    @cached_property
    def levels(self) -> tuple[tuple[Shared, ...], ...]:
        """Per level of the spine, the shares with their spreads."""
        return tuple(
            tuple(
                with_spreads(one, values[:, one.answers], variances[:, one.answers], level.parents)
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
        queries = tuple(tuple(one.query for one in own) for own in self._stated)
        return subtree_answers(self._job.workers, self._results, queries)
