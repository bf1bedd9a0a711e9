"""The 90 % intervals of numbers that non-negativity moves: around their unbiased estimates, or between these and r.

Released counts are not negative. Where persons are spread over many measured answers, most of which are near 0, that
raises each of them a little and takes what it adds from the large numbers beside them: sums move by several of their
standard errors. By how much depends on how the persons are spread over these answers, which no release can show: in a
simulated run, which starts from the release, they are in fewer answers than in truth, and stand out more. The best
linear unbiased estimate u of a number does without non-negativity, its variance S^2 is known, and 1.645 S to each side
of it hold 90 % whatever the truth is. Mostly the release r is nearer to the truth: how much nearer is learned from the
distances r - u of all numbers of a table that are of like size (`postprocess.downward.moved`).

Which numbers have such intervals follows from the spec, or from the release:

- all that are sums of more than `MOST` answers of every query that is measured (`MeasuredSums.are_long`);
- else, of tables of wide schemas, or where no query of few answers is measured (`MeasuredSums.are_compared`), those
  that are not small, if the large ones of the level are moved (`postprocess.downward.moved`). The small numbers of such
  a table keep the intervals of simulated runs, which zeros make short; but if they are moved, too, these allow for it
  (`SmallNumbers`). If they are not, those of simulated runs are right, and hold no more than they should by what all
  cells of the table show together, where those that are about as frequent are too few.

Numbers of which too few are alike to learn from have the interval around u, made so much longer that r is inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from pipeline.estimation.constraints import IntervalRule
from pipeline.estimation.subtree_answers import KeptAnswers
from pipeline.model.draw import everywhere
from pipeline.model.universe import Table, Universe
from postprocess.arrays import Ends, FloatArray, IntArray, successive
from postprocess.downward.moved import LEAST_COMPARED, Distances, MovedErrors, SmallNumbers, Squares, taken
from postprocess.downward.simulated_margins import CHUNK_NUMBERS, LARGE, is_large
from postprocess.marginal import Marginal, MarginalKey, answers_within, refines
from postprocess.statistics import around

if TYPE_CHECKING:
    from pipeline.estimation.whole_spine import Estimation

#: Measured answers that a number may be the sum of and still have a simulated interval, and that are few. The bias of
#: non-negativity grows as this number, the standard error as its root: docs/decisions/intervals.md has what was
#: measured.
MOST = 64
#: Cells of a schema above which it is wide: all its tables are compared with unbiased estimates. Answers of a table
#: above which its cells are too unlike to be narrowed together.
WIDE = 2048


@dataclass(frozen=True, eq=False)
class MeasuredSums:
    """Of how many measured answers the numbers of a universe are sums.

    With the full estimator, what is measured below a level counts as well.

    Attributes:
        universe: whose strategy.
        estimator: "full" or "topdown".
    """

    universe: Universe
    estimator: str

    def queries(self, level: int) -> list[Marginal]:
        """The queries that estimates of a level are made of."""
        levels = self.universe.level_names[level : None if self.estimator == "full" else level + 1]
        draws = everywhere(self.universe.draws())
        return [self.universe.source.measured(draw.query) for draw in draws if draw.own and draw.level in levels]

    def within(self, query: Marginal, level: int) -> int:
        """Measured answers that each number of a query is the sum of, at most; 0 where it is no such sum."""
        return min((n for own in self.queries(level) if (n := answers_within(own, query))), default=0)

    @property
    def _have_estimates(self) -> bool:
        universe = self.universe
        return universe.source.sums_without_bias and not universe.measure.signed and universe.together is None

    def are_long(self, query: Marginal, level: int) -> bool:
        """Whether all numbers of a query at a level have their intervals around unbiased estimates."""
        return self._have_estimates and self.within(query, level) > MOST

    def are_compared(self, query: Marginal, level: int) -> bool:
        """Whether the large numbers of a query are compared with unbiased estimates, for they may be far off.

        These are the numbers of wide schemas, and of levels of which no query of few answers is measured.
        """
        if not self._have_estimates or not 0 < self.within(query, level) <= MOST:
            return False
        return self.universe.schema.n_cells > WIDE or all(own.size > MOST for own in self.queries(level))


class AroundEstimates:
    """The intervals of those tables of one universe that have them around unbiased estimates.

    Args:
        estimation: of the universe, whose histograms are written.
    """

    def __init__(self, estimation: Estimation) -> None:
        self._estimation = estimation
        self._sums = MeasuredSums(estimation.universe, estimation.stated.estimator)
        self._learned: dict[tuple[MarginalKey, int], tuple[MovedErrors | None, SmallNumbers | None]] = {}
        self._last: tuple[int, sp.csr_array] | None = None

    def rule(self, of_runs: Callable[..., IntervalRule], table: Table, level: int) -> IntervalRule:
        """The rule of a table at a level.

        Args:
            of_runs: gives that of simulated runs; `pooled`, the same narrowed by what all cells of the table show
                together (`narrowed`).
            table: of the universe.
            level: of the spine.
        """
        place, rule = (table.query, level), of_runs()
        long = self._sums.are_long(*place)
        if not long and not self._sums.are_compared(*place):
            return rule
        key = table.query.key, level
        if key not in self._learned:
            self._learned[key] = self._learn(rule, *place, long=long)
        errors, small = self._learned[key]
        if small is not None and small.informative and not small.moved and table.query.size <= WIDE:
            rule = of_runs(pooled=True)
        if errors is None:
            return rule
        return around_estimates(
            rule, partial(self._estimates.of, level, table.query), self._taken(*place), errors, small
        )

    def _learn(
        self, rule: IntervalRule, query: Marginal, level: int, *, long: bool
    ) -> tuple[MovedErrors | None, SmallNumbers | None]:
        """What numbers of a query err by, if large ones are moved; and small ones, if not all are around estimates."""
        released, shares, seen = self._released(level), self._taken(query, level), Distances.none()
        large, small = Squares(), Squares()
        for first, last in successive(np.arange(released.shape[0]), max(1, CHUNK_NUMBERS // query.size)):
            rows = slice(first, last)
            known = query.answer_csr(released[rows]), *self._estimates.of(level, query, rows)
            if not long:
                low, high = rule(known[0], rows)
                large += Squares.of(*known, (high - low) / 2)
                small += Squares.of(*known, (high - low) / 2, between=(LEAST_COMPARED, LARGE))
            seen += Distances.of(*known, shares(rows))
        if long:
            return MovedErrors.of(seen), None
        are_moved = large.are_of_moved
        return MovedErrors.of(seen) if are_moved else None, SmallNumbers.of(small, large_moved=are_moved)

    def _taken(self, query: Marginal, level: int) -> Callable[[slice], FloatArray]:
        """The shares g of a query's answers, by what is measured at the level or at the nearest below it."""
        measured, released = self._estimation.stated.measured[level:], self._released(level)
        nearest = next(own for own in measured if any(refines(each.marginal, query) for each in own))
        return lambda rows: taken(query, nearest, released[rows])

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
                if self._sums.are_long(query, level) or self._sums.are_compared(query, level):
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


def around_estimates(
    rule: IntervalRule,
    known: Callable[[slice], Ends],
    shares: Callable[[slice], FloatArray],
    errors: MovedErrors,
    small: SmallNumbers | None = None,
) -> IntervalRule:
    """Intervals by unbiased estimates: of all numbers, or of large ones where small ones have those of simulated runs.

    Args:
        rule: of simulated runs; which numbers are exact, and which nothing determines.
        known: some rows -> estimates and standard errors `(n, size)`, infinite where nothing is measured.
        shares: some rows -> the shares g of `postprocess.downward.moved`, `(n, size)`.
        errors: what numbers err by, given their distances from the estimates.
        small: what small numbers have; None where all are around estimates.
    """

    def ends(counts: IntArray, rows: slice) -> Ends:
        """Those that are learned, else those around estimates; simulated ones of what is not uncertain."""
        simulated = low, high = rule(counts, rows)
        estimates, standard = known(rows)
        others, uncertain = around(counts, estimates, standard), low < high
        if small is not None:
            large, of_small = is_large(counts, standard), small.ends(simulated, others, estimates, standard)
            others = np.where(large, others[0], of_small[0]), np.where(large, others[1], of_small[1])
            uncertain &= np.isfinite(standard)
        learned = errors.ends(counts, estimates, standard, shares(rows))
        low, high = (
            np.where(uncertain, np.where(np.isnan(own), other, own), kept)
            for kept, other, own in zip(simulated, others, learned, strict=True)
        )
        return low, high

    return ends
