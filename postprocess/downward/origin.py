"""Numbers that may be below 0: they are solved as what is above the least that their bounds allow.

Sums of an amount from low to high, of which n are counted in a cell, are at least low x n there. Counted from that
least, they are as counts are: not negative, and those of children add up to their parent's, since the counts n do.
Nothing else has to know that some numbers are negative: a level is solved from its origin, which is then added again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.linear.upward import LevelEstimate
from postprocess.problem import GroupBounds, MeasuredAnswers, Problem


def origin_of(problem: Problem, level: int) -> IntArray | None:
    """The least of each cell `(n, n_cells)` of a level; None where no cell can be below 0.

    Only bounds of single cells are below 0.
    """
    bounds = problem.joined[level] if problem.joined else ()
    return next((bound.lower for bound in bounds if (bound.lower < 0).any()), None)


def from_origin(
    problem: Problem, basis: Basis, level: int, estimate: LevelEstimate, parents: sp.csr_array | None, origin: IntArray
) -> tuple[Problem, LevelEstimate, sp.csr_array | None]:
    """What a level is solved from, as numbers above its origin.

    Args:
        problem, basis, level, estimate, parents: as in `level.downward_level`.
        origin: of the level.
    """
    measured, joined = list(problem.measured), list(problem.joined)
    measured[level] = tuple(_above(query, origin) for query in measured[level])
    joined[level] = tuple(
        GroupBounds(bound.name, bound.marginal, bound.lower - origin, bound.upper - origin) for bound in joined[level]
    )
    if (children := estimate.children) is not None:
        # Of a cut whose terms are drawn, they hold all that was measured, and no precision of children is kept.
        precision = children.precision if len(children.precision) else estimate.info.precision
        less = basis.unfold(basis.apply(precision, basis.fold(origin.astype(np.float64)), estimate.classes))
        mean = children.mean - origin if len(children.mean) else children.mean
        estimate = replace(estimate, children=replace(children, mean=mean, term=children.term - less))
    if parents is not None:
        above = np.zeros((parents.shape[0], origin.shape[1]), dtype=np.int64)
        np.add.at(above, problem.spine.levels[level].parents, origin)
        parents = above_origin(parents, above)
    return replace(problem, measured=tuple(measured), joined=tuple(joined)), estimate, parents


def _above(query: MeasuredAnswers, origin: IntArray) -> MeasuredAnswers:
    return query if not len(query.values) else replace(query, values=query.values - query.marginal.answer(origin))


def above_origin(counts: sp.csr_array, origin: IntArray) -> sp.csr_array:
    """Histograms as numbers above their origin."""
    out = sp.csr_array(counts - sp.csr_array(origin))
    out.eliminate_zeros()
    out.sort_indices()
    return out


def only_below(problem: Problem, level: int, solved: BoolArray) -> Problem:
    """The problem with nothing below the geounits of the level above that are not solved, `(n_parents,)`."""
    if not problem.joined:
        return problem
    joined, kept = list(problem.joined), solved[problem.spine.levels[level].parents][:, None]
    joined[level] = tuple(
        GroupBounds(bound.name, bound.marginal, bound.lower * kept, bound.upper * kept) for bound in joined[level]
    )
    return replace(problem, joined=tuple(joined))


@dataclass(frozen=True, eq=False)
class Clipped:
    """The records that sums are of, `(n, size)`, and the ends of a record's amount, the lower one below 0.

    Attributes:
        counts, lows, highs: released numbers of records, with the ends of their intervals.
        least, most: that a record adds.
    """

    counts: IntArray
    lows: FloatArray
    highs: FloatArray
    least: int
    most: int

    @property
    def origin(self) -> IntArray:
        """The least that the sums can be."""
        return self.least * self.counts

    def widened(
        self, sums: IntArray, ends: tuple[FloatArray, FloatArray], large: tuple[BoolArray, BoolArray]
    ) -> tuple[FloatArray, FloatArray]:
        """Ends of intervals with what a wrong number of records does to a sum.

        A sum that is about the least of so many records was put there by their number, and errs with it: by
        `least` for each record; likewise at the most. Simulated runs have the released number, so that this is not in
        their errors, of which it is independent. Of the two ends of the clip the nearer one counts.

        Args:
            sums: `(n, size)` released.
            ends: of their intervals, from the simulated runs.
            large: which sums are so far above the least, and so far below the most, that these do not bind them.
        """
        nearer = sums - self.origin <= self.most * self.counts - sums
        slope = np.where(nearer, np.where(large[0], 0, self.least), np.where(large[1], 0, self.most))
        fewer, more = np.abs(slope) * (self.counts - self.lows), np.abs(slope) * (self.highs - self.counts)
        below, above = np.where(slope < 0, more, fewer), np.where(slope < 0, fewer, more)
        low = sums - np.ceil(np.hypot(sums - ends[0], below))
        high = sums + np.ceil(np.hypot(ends[1] - sums, above))
        return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
