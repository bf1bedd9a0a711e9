"""The 90 % intervals of numbers that are sums of many measured answers: around their unbiased estimates.

Released counts are not negative. Where a number is the sum of many measured answers, most of which are near 0, that
raises each of them a little and takes what it adds from the large groups beside them: the sum moves by many of its
standard errors. By how much depends on how the persons are spread over these answers, which no release can show: in a
simulated run, which starts from the release, they are in fewer answers than in truth, and stand out more. So such
numbers have no simulated interval. Their best linear unbiased estimate does without non-negativity, its variance is
known, and 1.645 standard errors to each side of it hold 90 % whatever the truth is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pipeline.estimation.knowledge import IntervalRule
from pipeline.estimation.subtree_answers import KeptAnswers, Rows
from pipeline.model.universe import Table, Universe
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.marginal import Marginal, MarginalKey, answers_within
from postprocess.statistics import NORMAL_QUANTILE

if TYPE_CHECKING:
    from pipeline.estimation.whole_spine import Estimation

#: Measured answers that a number may be the sum of and still have a simulated interval. The bias of non-negativity
#: grows as this number, the standard error as its root: docs/decisions/intervals.md has what was measured.
MOST = 64


def measured_within(universe: Universe, estimator: str, query: Marginal, level: int) -> int:
    """Measured answers that each number of a query at a level is the sum of, at most; 0 where it is no such sum.

    Args:
        universe: whose strategy.
        estimator: "full" or "topdown".
        query: whose numbers.
        level: number of the level; with the full estimator, what is measured below it counts as well.
    """
    levels = universe.strategy.levels[level : None if estimator == "full" else level + 1]
    measured = [universe.source.measured(own.query) for each in levels for own in each.queries]
    return min((n for own in measured if (n := answers_within(own, query))), default=0)


def is_long(universe: Universe, estimator: str, query: Marginal, level: int) -> bool:
    """Whether the numbers of a query at a level have their intervals around unbiased estimates."""
    unbiased = universe.source.sums_without_bias and not universe.measure.signed
    return unbiased and universe.together is None and measured_within(universe, estimator, query, level) > MOST


class LongSums:
    """The intervals of those tables of one universe whose numbers are sums of many measured answers.

    Args:
        estimation: of the universe.
    """

    def __init__(self, estimation: Estimation) -> None:
        self._estimation = estimation

    def around(self, rule: IntervalRule, table: Table, level: int) -> IntervalRule:
        """The rule of a table at a level: that of simulated runs, unless its numbers are sums of many answers."""
        if not self._is_long(table, level):
            return rule
        return AroundEstimates(rule, *self._estimates.of(level, table.query))

    def _is_long(self, table: Table, level: int) -> bool:
        universe, estimator = self._estimation.universe, self._estimation.stated.estimator
        return is_long(universe, estimator, table.query, level)

    @cached_property
    def _queries(self) -> list[dict[MarginalKey, Marginal]]:
        """Per level, the queries of these tables there and below: estimates begin at the top."""
        spine = self._estimation.job.spine
        found: list[dict[MarginalKey, Marginal]] = [{} for _ in spine.levels]
        for table in self._estimation.universe.tabulated:
            for level in map(spine.index_of, table.levels):
                if self._is_long(table, level):
                    for above in found[: level + 1]:
                        above[table.query.key] = table.query
        return found

    @cached_property
    def _estimates(self) -> KeptAnswers:
        """Estimates and standard errors by all that is measured of the spine; computed at first use."""
        estimation, cut = self._estimation, self._estimation.cut
        step = f"estimates {estimation.universe.name} {cut.name if cut is not None else 'whole'}"
        kept = KeptAnswers(estimation.job, estimation.computed, self._queries, step)
        kept.compute()
        return kept

    def compute(self) -> None:
        """Compute all estimates now, so that nothing else is needed later."""
        if any(self._queries):
            assert self._estimates

    def forget(self) -> None:
        """Remove what is kept of them."""
        if "_estimates" in self.__dict__:
            self._estimates.forget()


@dataclass(frozen=True, eq=False)
class AroundEstimates:
    """Intervals around unbiased estimates; see `IntervalRule`.

    Attributes:
        rule: which numbers are exact, and which nothing determines.
        estimates, standard: `(n, size)` of the level; a standard error is infinite where nothing is measured.
    """

    rule: IntervalRule
    estimates: FloatArray | Rows
    standard: FloatArray | Rows

    def ends(self, counts: IntArray, rows: slice) -> tuple[FloatArray, FloatArray]:
        """See `IntervalRule.ends`: made so much longer that the released number and one person to each side are in."""
        low, high = self.rule.ends(counts, rows)
        own, standard = self.estimates[rows], self.standard[rows]
        reach = np.where(np.isfinite(standard), NORMAL_QUANTILE * standard, np.nan)
        around = (
            np.maximum(np.minimum(np.ceil(own - reach), counts - 1), 0),
            np.maximum(np.floor(own + reach), counts + 1),
        )
        uncertain = low < high
        return np.where(uncertain, around[0], low), np.where(uncertain, around[1], high)

    def large(self, counts: IntArray, rows: slice) -> BoolArray:
        """See `IntervalRule.large`."""
        return self.rule.large(counts, rows)
