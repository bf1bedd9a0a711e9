"""Which numbers of a table non-negativity moves: their squared distances from unbiased estimates tell, by Pythagoras.

Where non-negativity only helps, a release r is between its unbiased estimate u and the truth t, and as it is the
nearest that is allowed, E(r - u)^2 + E(r - t)^2 <= S^2 on average, where S is the standard error of u. Of the first
term a release shows what it is, of the second the intervals of simulated runs say what it is. Where together they are
more, these are wrong about the release, or the release errs more than its unbiased estimates.

Large and small numbers of a table are judged each by their own sums: zeros are short where simulated runs are right,
and large numbers stay between estimate and release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from postprocess.arrays import FloatArray, IntArray
from postprocess.downward.simulated_margins import LARGE, is_large
from postprocess.statistics import NORMAL_QUANTILE, is_exact

#: Two ends of intervals, of one shape.
Ends = tuple[FloatArray, FloatArray]

#: What E(r - u)^2 + E(r - t)^2 of large numbers is in S^2 where they are moved, at least. Where they are not it is 0.8
#: to 1.3: intervals hold a bit more than 90 % of simulated errors, and these are of whole numbers.
MOVED = 1.5
#: Standard errors by which the same of small numbers is above S^2 where they are moved: of n squares of normal
#: distances of variance 1 it is sqrt(2 / n).
SURE = 3.0
#: Numbers of which it can be told: fewer small ones are moved if the large ones are, and not narrowed.
TOLD = 100
#: Standard errors from which on small numbers are compared.
LEAST_COMPARED = 1.0
#: Standard errors from which on small numbers that are not moved reach as far down as those around their estimates:
#: most are of smaller truths, and simulated runs have too few of their size to show it.
NEARLY_LARGE = 2.0
#: 90 % quantile of a standard normal.
ONE_SIDED = 1.2815515655446004


@dataclass(frozen=True)
class Squares:
    """Sums over some released numbers, in S^2; those of several geounits can be added.

    Attributes:
        distances: of (r - u)^2.
        errors: of (r - t)^2, as their intervals say.
        n: how many numbers these are.
    """

    distances: float = 0.0
    errors: float = 0.0
    n: int = 0

    @classmethod
    def of(
        cls,
        counts: IntArray,
        estimates: FloatArray,
        standard: FloatArray,
        half: FloatArray,
        between: tuple[float, float] = (LARGE, np.inf),
    ) -> Squares:
        """Those of some released numbers, by default of the large ones.

        Args:
            counts: released numbers r, `(n, size)`.
            estimates, standard: u and S, of the same shape; an infinite S where nothing is measured.
            half: half the widths of their intervals, by which r - t is told; NaN where they have none.
            between: standard errors above which, and up to which, numbers are looked at.
        """
        which = is_large(counts, standard, between[0]) & ~is_large(counts, standard, between[1])
        which &= ~is_exact(standard) & np.isfinite(half)
        variance = standard[which] ** 2
        distances = np.sum((counts[which] - estimates[which]) ** 2 / variance)
        errors = np.sum((half[which] / NORMAL_QUANTILE) ** 2 / variance)
        return cls(float(distances), float(errors), int(np.count_nonzero(which)))

    def __add__(self, other: Squares) -> Squares:
        return Squares(self.distances + other.distances, self.errors + other.errors, self.n + other.n)

    @property
    def are_of_moved(self) -> bool:
        """Whether these are of large numbers further from their estimates than their intervals allow."""
        return self.distances + self.errors > MOVED * self.n


@dataclass(frozen=True)
class SmallNumbers:
    """What the small numbers of a table have for ends, whose simulated intervals zeros make short.

    Attributes:
        moved: they are further from their unbiased estimates than their intervals allow; otherwise these hold.
        informative: they are enough to tell. If they are not moved, their intervals may be narrowed by what all cells
            of the table show together.
        longer: their simulated intervals are longer than those around their unbiased estimates: of widths, few tell it.
        spread: each is the sum of so many answers of some query that persons are lost more often than those of a
            simulated run.
    """

    moved: bool
    informative: bool
    longer: bool
    spread: bool

    @classmethod
    def of(cls, squares: Squares, *, large_moved: bool, spread: bool) -> SmallNumbers:
        """By the sums of those from `LEAST_COMPARED` standard errors on."""
        n = squares.n
        informative = n >= TOLD
        moved = squares.distances + squares.errors > n + SURE * math.sqrt(2 * n) if informative else large_moved
        return cls(moved, informative, squares.errors > n, spread)

    def ends(
        self, counts: IntArray, simulated: Ends, around: Ends, estimates: FloatArray, standard: FloatArray
    ) -> Ends:
        """Their ends, given those of simulated runs and those around estimates, arrays of one shape.

        Moved numbers reach as far down as those around u, since non-negativity raises small numbers. Where u is large
        they reach as far up, too, and where they are longer than those around u, no further in any case; where they are
        spread, as far as a u above one standard error allows with 90 %.
        """
        (low, high), (least, most) = simulated, around
        if not self.moved:
            return np.where(is_large(counts, standard, NEARLY_LARGE), np.minimum(low, least), low), high
        high = np.where(estimates > LARGE * standard, np.maximum(high, most), high)
        if self.longer:
            high = np.minimum(high, most)
        if self.spread:
            bound = np.floor(estimates + ONE_SIDED * standard)
            high = np.where(estimates > standard, np.maximum(high, bound), high)
        return np.minimum(low, least), high
