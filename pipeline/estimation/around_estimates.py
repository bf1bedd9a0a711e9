"""The 90 % intervals of numbers that non-negativity moves: around their unbiased estimates, or between these and r.

Released counts are not negative. Where persons are spread over many measured answers, most of which are near 0, that
raises each of them a little and takes what it adds from the large numbers beside them: sums move by several of their
standard errors. By how much depends on how the persons are spread over these answers, which no release can show: in a
simulated run, which starts from the release, they are in fewer answers than in truth, and stand out more. The best
linear unbiased estimate u of a number does without non-negativity, its variance S^2 is known, and 1.645 S to each side
of it hold 90 % whatever the truth is. Mostly the release r is nearer to the truth: how much nearer is learned from the
distances r - u of all numbers of a table that are of like size (`postprocess.downward.moved`).

Which numbers have such intervals follows from the spec, or from the release:

- all that are sums of more than `MOST` answers of every query that is measured (`is_long`);
- else, of tables of wide schemas, or where no query of few answers is measured (`is_compared`), those that are not
  small, if the large ones of the level are moved (`are_moved`). Where non-negativity only helps, a release is between
  its unbiased estimates and the truth, and as it is the nearest that is allowed, Pythagoras' theorem holds on average:
  E(r - u)^2 + E(r - t)^2 <= S^2. Of the first term a release shows what it is, of the second the simulated runs say
  what it is. Where together they are more, the runs are wrong about the release, or the release errs more than its
  unbiased estimates. The small numbers of such a table keep the intervals of simulated runs, which zeros make short;
  but they reach as far down as those around u, since non-negativity raises small numbers, and those whose u is large
  have the union of both. Where they are sums of more than `MOST` answers of some query, and those of 1 to 3 standard
  errors are moved, too, they reach as far up as a u above one standard error allows with 90 %: persons who are spread
  over so many answers are lost more often than those of a simulated run.

Numbers of which too few are alike to learn from have the interval around u, made so much longer that r is inside.
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
from postprocess.downward.moved import Distances, MovedErrors, taken
from postprocess.downward.simulated_margins import CHUNK_NUMBERS, LARGE, is_large
from postprocess.marginal import Marginal, MarginalKey, answers_within, refines
from postprocess.problem import Measured
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
#: 90 % quantile of a standard normal.
ONE_SIDED = 1.2815515655446004


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


def is_spread(universe: Universe, estimator: str, query: Marginal, level: int) -> bool:
    """Whether each number of a query at a level is the sum of many answers of one that is measured, at least."""
    measured = _measured(universe, estimator, level)
    return any(answers_within(own, query) > MOST for own in measured)


def distances(
    counts: IntArray,
    estimates: FloatArray,
    standard: FloatArray,
    half: FloatArray,
    between: tuple[float, float] = (LARGE, np.inf),
) -> tuple[float, int]:
    """The sum of (r - u)^2 + (r - t)^2 in S^2 over the large ones of some released numbers, and how many these are.

    Args:
        counts: released numbers r, `(n, size)`.
        estimates, standard: u and S, of the same shape; an infinite S where nothing is measured.
        half: half the widths of their intervals, by which r - t is told; NaN where they have none.
        between: standard errors above which, and up to which, numbers are looked at.
    """
    which = is_large(counts, standard, between[0]) & ~is_large(counts, standard, between[1])
    which &= ~is_exact(standard) & np.isfinite(half)
    moved, errors = counts[which] - estimates[which], half[which] / NORMAL_QUANTILE
    return float(np.sum((moved**2 + errors**2) / standard[which] ** 2)), int(np.count_nonzero(which))


def are_moved(squares: float, n: int) -> bool:
    """Whether numbers are further from their unbiased estimates than their intervals allow; see `distances`."""
    return squares > MOVED * n


def _added(one: tuple[float, int], other: tuple[float, int]) -> tuple[float, int]:
    return one[0] + other[0], one[1] + other[1]


class AroundEstimates:
    """The intervals of those tables of one universe that have them around unbiased estimates.

    Args:
        estimation: of the universe, whose histograms are written.
    """

    def __init__(self, estimation: Estimation) -> None:
        self._estimation = estimation
        self._learned: dict[tuple[MarginalKey, int], tuple[MovedErrors, bool] | None] = {}
        self._last: tuple[int, sp.csr_array] | None = None

    def rule(self, rule: IntervalRule, table: Table, level: int) -> IntervalRule:
        """The rule of a table at a level, given that of simulated runs."""
        place = (table.query, level)
        long = self._is(is_long, *place)
        if not long and not self._is(is_compared, *place):
            return rule
        key = table.query.key, level
        if key not in self._learned:
            self._learned[key] = self._learn(rule, *place, long=long)
        learned = self._learned[key]
        if learned is None:
            return rule
        errors, spread = learned
        around = Around(*self._estimates.of(level, table.query), self._taken(*place), errors)
        return AllAround(rule, around) if long else LargeAround(rule, around, spread)

    def _is(self, what: Callable[[Universe, str, Marginal, int], bool], query: Marginal, level: int) -> bool:
        return what(self._estimation.universe, self._estimation.stated.estimator, query, level)

    def _learn(self, rule: IntervalRule, query: Marginal, level: int, *, long: bool) -> tuple[MovedErrors, bool] | None:
        """What numbers of a query err by, and whether small ones are lost; None if simulated runs have the rule."""
        released, (estimates, standard) = self._released(level), self._estimates.of(level, query)
        shares, seen = self._taken(query, level), Distances.none()
        large, small = (0.0, 0), (0.0, 0)
        for first, last in successive(np.arange(released.shape[0]), max(1, CHUNK_NUMBERS // query.size)):
            rows = slice(first, last)
            counts, own, its_standard = query.answer_csr(released[rows]), estimates[rows], standard[rows]
            if not long:
                low, high = rule.ends(counts, rows)
                known = counts, own, its_standard, (high - low) / 2
                large = _added(large, distances(*known))
                small = _added(small, distances(*known, between=(1.0, LARGE)))
            seen += Distances.of(counts, own, its_standard, shares[rows])
        if not long and not are_moved(*large):
            return None
        return MovedErrors.of(seen), self._is(is_spread, query, level) and are_moved(*small)

    def _taken(self, query: Marginal, level: int) -> Taken:
        measured = self._estimation.stated.measured[level:]
        nearest = next(own for own in measured if any(refines(each.marginal, query) for each in own))
        return Taken(query, nearest, self._released(level))

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
class Taken:
    """The share of the variance of estimates that non-negativity takes away, by rows, as of an array; see `taken`.

    Attributes:
        query: whose answers.
        measured: at the level, or at the nearest below it at which the query is measured.
        released: `(n, n_cells)` of the level.
    """

    query: Marginal
    measured: tuple[Measured, ...]
    released: sp.csr_array

    def __getitem__(self, rows: slice) -> FloatArray:
        """That of some rows, `(n, size)`."""
        return taken(self.query, self.measured, self.released[rows])


@dataclass(frozen=True, eq=False)
class Around:
    """What unbiased estimates say of the numbers of a table at a level.

    Attributes:
        estimates, standard: `(n, size)` of the level; a standard error is infinite where nothing is measured.
        taken: the shares g of `postprocess.downward.moved`, `(n, size)`.
        errors: what numbers err by, given their distances from the estimates.
    """

    estimates: FloatArray | Rows
    standard: FloatArray | Rows
    taken: FloatArray | Taken
    errors: MovedErrors

    def known(self, rows: slice) -> tuple[FloatArray, FloatArray]:
        """The estimates and standard errors of some rows."""
        return self.estimates[rows], self.standard[rows]

    def ends(
        self, counts: IntArray, known: tuple[FloatArray, FloatArray], rows: slice
    ) -> tuple[FloatArray, FloatArray]:
        """The ends for released numbers `(n, size)` from what is learned; NaN where there is nothing to learn from."""
        return self.errors.ends(counts, *known, self.taken[rows])


@dataclass(frozen=True, eq=False)
class AllAround:
    """Intervals of numbers without any of simulated runs; see `IntervalRule`.

    Attributes:
        rule: which numbers are exact, and which nothing determines.
        around: what estimates say.
    """

    rule: IntervalRule
    around: Around

    def ends(self, counts: IntArray, rows: slice) -> tuple[FloatArray, FloatArray]:
        """See `IntervalRule.ends`: made so much longer that the released number and one person to each side are in."""
        low, high = self.rule.ends(counts, rows)
        known = self.around.known(rows)
        return _chosen((low, high), _around(counts, *known), self.around.ends(counts, known, rows), low < high)

    def large(self, counts: IntArray, rows: slice) -> BoolArray:
        """See `IntervalRule.large`."""
        return self.rule.large(counts, rows)


@dataclass(frozen=True, eq=False)
class LargeAround:
    """Intervals by unbiased estimates of large numbers, and of simulated runs of small ones; see `IntervalRule`.

    Attributes:
        rule: of simulated runs.
        around: what estimates say.
        spread: whether small numbers are lost, since their persons are spread over many answers; see `is_spread`.
    """

    rule: IntervalRule
    around: Around
    spread: bool

    def ends(self, counts: IntArray, rows: slice) -> tuple[FloatArray, FloatArray]:
        """See `IntervalRule.ends`.

        A small number has the lower of both least values; and the higher of both most values where its estimate is
        large. If numbers are spread it reaches as far up as an estimate above one standard error allows with 90 %.
        """
        low, high = self.rule.ends(counts, rows)
        known = estimates, standard = self.around.known(rows)
        least, most = _around(counts, estimates, standard)
        large, hidden = is_large(counts, standard), estimates > LARGE * standard
        uncertain = (low < high) & np.isfinite(standard)
        least = np.where(large, least, np.minimum(low, least))
        most = np.where(large, most, np.where(hidden, np.maximum(high, most), high))
        if self.spread:
            bound = np.floor(estimates + ONE_SIDED * standard)
            most = np.where(estimates > standard, np.maximum(most, bound), most)
        return _chosen((low, high), (least, most), self.around.ends(counts, known, rows), uncertain)

    def large(self, counts: IntArray, rows: slice) -> BoolArray:
        """See `IntervalRule.large`."""
        return self.rule.large(counts, rows)


#: Two ends of intervals, of one shape.
_Ends = tuple[FloatArray, FloatArray]


def _chosen(simulated: _Ends, others: _Ends, learned: _Ends, uncertain: BoolArray) -> _Ends:
    """The ends that are learned, where there are some, else the others; simulated ones of what is not uncertain."""
    low, high = (
        np.where(uncertain, np.where(np.isnan(own), other, own), kept)
        for kept, other, own in zip(simulated, others, learned, strict=True)
    )
    return low, high


def _around(counts: IntArray, estimates: FloatArray, standard: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The ends around estimates, with the released number and one person to each side in; NaN where there is none."""
    reach = np.where(np.isfinite(standard), NORMAL_QUANTILE * standard, np.nan)
    least = np.maximum(np.minimum(np.ceil(estimates - reach), counts - 1), 0)
    return least, np.maximum(np.floor(estimates + reach), counts + 1)
