"""The 90 % intervals of numbers that non-negativity moves: around their unbiased estimates.

Released counts are not negative. Where persons are spread over many measured answers, most of which are near 0, that
raises each of them a little and takes what it adds from the large numbers beside them: sums move by several of their
standard errors. By how much depends on how the persons are spread over these answers, which no release can show: in a
simulated run, which starts from the release, they are in fewer answers than in truth, and stand out more. The best
linear unbiased estimate u of a number does without non-negativity, its variance S^2 is known, and 1.645 S to each side
of it hold 90 % whatever the truth is.

Which numbers have such intervals follows from the spec, or from the release:

- all that are sums of more than `MOST` answers of every query that is measured (`is_long`);
- else, of tables of wide schemas, or where no query of few answers is measured (`is_compared`), the large numbers r of
  a level, if they are moved (`are_moved`). Where non-negativity only helps, a release is between its unbiased estimates
  and the truth, and as it is the nearest that is allowed, Pythagoras' theorem holds on average: E(r - u)^2 + E(r - t)^2
  <= S^2. Of the first term a release shows what it is, of the second the simulated runs say what it is. Where together
  they are more, the runs are wrong about the release, or the release errs more than its unbiased estimates, whose
  intervals are then shorter, too. The small numbers of such a table keep the intervals of simulated runs, which zeros
  make short; but they reach as far down as those around u, since non-negativity raises small numbers, and those whose u
  is large have the union of both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from pipeline.estimation.knowledge import IntervalRule
from pipeline.estimation.subtree_answers import KeptAnswers, Rows
from pipeline.model.universe import Table, Universe
from postprocess.arrays import BoolArray, FloatArray, IntArray, successive
from postprocess.downward.simulated_margins import CHUNK_NUMBERS, LARGE, is_large
from postprocess.marginal import Marginal, MarginalKey, answers_within
from postprocess.statistics import NORMAL_QUANTILE, is_exact

if TYPE_CHECKING:
    from pipeline.estimation.whole_spine import Estimation

#: Measured answers that a number may be the sum of and still have a simulated interval, and that are few. The bias of
#: non-negativity grows as this number, the standard error as its root: docs/decisions/intervals.md has what was
#: measured.
MOST = 64
#: Cells of a schema above which it is wide: all its tables are compared with unbiased estimates.
WIDE = 2048
#: What E(r - u)^2 + E(r - t)^2 of large numbers is in S^2 where they are moved, at least. Where they are not it is 0.8
#: to 1.3: intervals hold a bit more than 90 % of simulated errors, and these are of whole numbers.
MOVED = 1.5


def _measured(universe: Universe, estimator: str, level: int) -> list[Marginal]:
    """The queries that are measured at a level, or, with the full estimator, below it."""
    levels = universe.strategy.levels[level : None if estimator == "full" else level + 1]
    return [universe.source.measured(own.query) for each in levels for own in each.queries]


def measured_within(universe: Universe, estimator: str, query: Marginal, level: int) -> int:
    """Measured answers that each number of a query at a level is the sum of, at most; 0 where it is no such sum.

    Args:
        universe: whose strategy.
        estimator: "full" or "topdown".
        query: whose numbers.
        level: number of the level; with the full estimator, what is measured below it counts as well.
    """
    measured = _measured(universe, estimator, level)
    return min((n for own in measured if (n := answers_within(own, query))), default=0)


def _has_estimates(universe: Universe) -> bool:
    return universe.source.sums_without_bias and not universe.measure.signed and universe.together is None


def is_long(universe: Universe, estimator: str, query: Marginal, level: int) -> bool:
    """Whether all numbers of a query at a level have their intervals around unbiased estimates."""
    return _has_estimates(universe) and measured_within(universe, estimator, query, level) > MOST


def is_compared(universe: Universe, estimator: str, query: Marginal, level: int) -> bool:
    """Whether the large numbers of a query at a level are compared with unbiased estimates, for they may be far off.

    These are the numbers of wide schemas, and of levels of which no query of few answers is measured.
    """
    if not _has_estimates(universe) or not 0 < measured_within(universe, estimator, query, level) <= MOST:
        return False
    none_of_few = all(own.size > MOST for own in _measured(universe, estimator, level))
    return universe.schema.n_cells > WIDE or none_of_few


def distances(counts: IntArray, estimates: FloatArray, standard: FloatArray, half: FloatArray) -> tuple[float, int]:
    """The sum of (r - u)^2 + (r - t)^2 in S^2 over the large ones of some released numbers, and how many these are.

    Args:
        counts: released numbers r, `(n, size)`.
        estimates, standard: u and S, of the same shape; an infinite S where nothing is measured.
        half: half the widths of their intervals, by which r - t is told; NaN where they have none.
    """
    which = is_large(counts, standard) & ~is_exact(standard) & np.isfinite(half)
    moved, errors = counts[which] - estimates[which], half[which] / NORMAL_QUANTILE
    return float(np.sum((moved**2 + errors**2) / standard[which] ** 2)), int(np.count_nonzero(which))


def are_moved(squares: float, n: int) -> bool:
    """Whether large numbers are further from their unbiased estimates than their intervals allow; see `distances`."""
    return squares > MOVED * n


class AroundEstimates:
    """The intervals of those tables of one universe that have them around unbiased estimates.

    Args:
        estimation: of the universe, whose histograms are written.
    """

    def __init__(self, estimation: Estimation) -> None:
        self._estimation = estimation
        self._moved: dict[tuple[MarginalKey, int], bool] = {}
        self._last: tuple[int, sp.csr_array] | None = None

    def rule(self, rule: IntervalRule, table: Table, level: int) -> IntervalRule:
        """The rule of a table at a level, given that of simulated runs."""
        place = (table.query, level)
        if self._is(is_long, *place):
            return AllAround(rule, *self._estimates.of(level, table.query))
        if self._is(is_compared, *place) and self._is_moved(rule, *place):
            return LargeAround(rule, *self._estimates.of(level, table.query))
        return rule

    def _is(self, what: Callable[[Universe, str, Marginal, int], bool], query: Marginal, level: int) -> bool:
        return what(self._estimation.universe, self._estimation.stated.estimator, query, level)

    def _is_moved(self, rule: IntervalRule, query: Marginal, level: int) -> bool:
        """Whether the large numbers of a compared query are moved, given the rule of simulated runs."""
        if (query.key, level) not in self._moved:
            released, (estimates, standard) = self._released(level), self._estimates.of(level, query)
            squares, n = 0.0, 0
            for first, last in successive(np.arange(released.shape[0]), max(1, CHUNK_NUMBERS // query.size)):
                rows = slice(first, last)
                counts = query.answer_csr(released[rows])
                low, high = rule.ends(counts, rows)
                own = distances(counts, estimates[rows], standard[rows], (high - low) / 2)
                squares, n = squares + own[0], n + own[1]
            self._moved[query.key, level] = are_moved(squares, n)
        return self._moved[query.key, level]

    def _released(self, level: int) -> sp.csr_array:
        """The released histogram of a level; that of the last is kept."""
        if self._last is None or self._last[0] != level:
            self._last = level, self._estimation.released(level)
        return self._last[1]

    def _tables(self, level: int) -> list[Table]:
        name = self._estimation.job.spine.level_names[level]
        return [table for table in self._estimation.universe.tabulated if name in table.levels]

    @cached_property
    def _queries(self) -> list[dict[MarginalKey, Marginal]]:
        """Per level, the queries of these tables there and below: estimates begin at the top."""
        found: list[dict[MarginalKey, Marginal]] = [{} for _ in self._estimation.job.spine.levels]
        for level in range(len(found)):
            for query in (table.query for table in self._tables(level)):
                if self._is(is_long, query, level) or self._is(is_compared, query, level):
                    for above in found[: level + 1]:
                        above[query.key] = query
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
class AllAround:
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
        least, most = _around(counts, self.estimates[rows], self.standard[rows])
        uncertain = low < high
        return np.where(uncertain, least, low), np.where(uncertain, most, high)

    def large(self, counts: IntArray, rows: slice) -> BoolArray:
        """See `IntervalRule.large`."""
        return self.rule.large(counts, rows)


@dataclass(frozen=True, eq=False)
class LargeAround:
    """Intervals around unbiased estimates of large numbers, and of simulated runs of small ones; see `IntervalRule`.

    Attributes:
        rule: of simulated runs.
        estimates, standard: `(n, size)` of the level; a standard error is infinite where nothing is measured.
    """

    rule: IntervalRule
    estimates: FloatArray | Rows
    standard: FloatArray | Rows

    def ends(self, counts: IntArray, rows: slice) -> tuple[FloatArray, FloatArray]:
        """See `IntervalRule.ends`.

        A small number has the lower of both least values, and the higher of both most values where its estimate is
        large.
        """
        low, high = self.rule.ends(counts, rows)
        estimates, standard = self.estimates[rows], self.standard[rows]
        least, most = _around(counts, estimates, standard)
        large, hidden = is_large(counts, standard), estimates > LARGE * standard
        uncertain = (low < high) & np.isfinite(standard)
        least = np.where(large, least, np.minimum(low, least))
        most = np.where(large, most, np.where(hidden, np.maximum(high, most), high))
        return np.where(uncertain, least, low), np.where(uncertain, most, high)

    def large(self, counts: IntArray, rows: slice) -> BoolArray:
        """See `IntervalRule.large`."""
        return self.rule.large(counts, rows)


def _around(counts: IntArray, estimates: FloatArray, standard: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The ends around estimates, with the released number and one person to each side in; NaN where there is none."""
    reach = np.where(np.isfinite(standard), NORMAL_QUANTILE * standard, np.nan)
    least = np.maximum(np.minimum(np.ceil(estimates - reach), counts - 1), 0)
    return least, np.maximum(np.floor(estimates + reach), counts + 1)
