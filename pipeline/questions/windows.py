"""The interval of a quantile: noisy counts of the records in windows around the number that was chosen.

Around the chosen step v lie boundaries at v and at 2, 8, 32, 128 ... steps to either side. A record is in one window
between two of them, so that all windows of all groups together are a histogram, which is paid for once. At a boundary
b the noisy counts of the windows estimate S(b) = (records up to b) - q n with a known error s(b). The true quantile
is the least step with S >= 0. A boundary is told to be below it where S(b) is below -z s(b), and to be at or above it
where S(b) is above z s(b), z the 85 % quantile of the normal distribution. The lower end is where S reaches -z s for
the first time, the upper end where it exceeds z s for good; within a window records are taken to lie evenly. The
chosen number is always inside, which saves about half of the cases in which an end would be on the wrong side, so
that two ends of 85 % make an interval of about 90 %. If ends fell on boundaries only, each would be wrong with 15 %
at most, whatever the records: just one boundary, the first at or above the true quantile, can mislead the lower end,
and one the upper end.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.privacy.budget import Framework, Neighbours
from pipeline.questions.quantiles import Rank, Ranked, ranked
from pipeline.questions.resolved import Part
from pipeline.questions.sensitivity import Measured, measured

__all__ = ["WINDOWS", "bought", "columns_of", "counts_in_windows", "interval", "n_windows", "typical_reach"]

#: What is measured: a count of the records in each window.
WINDOWS: Final = Part("windows", 1, 1)
#: Of the budget, for the number itself; with sqrt(8 / 7) = 1.07 times the error that all of it would buy under zcdp.
_CHOICE: Final = Fraction(7, 8)
#: Of the nearest boundary from the number, in steps; and how much further each other one is.
_NEAREST: Final = 2
_TIMES: Final = 4
#: 85 % quantile of a standard normal.
_Z: Final = 1.0364333894937896


def bought(
    part: Rank, framework: Framework, neighbours: Neighbours, budget: Fraction, records: int
) -> tuple[Ranked, Measured]:
    """The choice of a quantile and the counts in windows around it; errors as `ranked` and `measured`."""
    choice = ranked(part, framework, neighbours, budget * _CHOICE, records)
    (windows,) = measured((WINDOWS,), framework, neighbours, budget * (1 - _CHOICE), records)
    return choice, windows


def distances(candidates: int) -> tuple[int, ...]:
    """Of the boundaries from the number, upwards or downwards, in steps of a grid with so many."""
    found = []
    distance = _NEAREST
    while distance < candidates:
        found.append(distance)
        distance *= _TIMES
    return tuple(found)


def n_windows(candidates: int) -> int:
    """How many windows there are around a number, on a grid with so many steps."""
    return 2 * len(distances(candidates)) + 2


def columns_of(candidates: int) -> list[str]:
    """What the counts of the windows are called, lowest first."""
    return [f"window{number}" for number in range(1, n_windows(candidates) + 1)]


def boundaries(step: int, candidates: int) -> list[int]:
    """The last step of each window but the highest, in order; some are beyond the grid."""
    away = distances(candidates)
    return [*(step - one for one in reversed(away)), step, *(step + one for one in away)]


def counts_in_windows(histogram: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """The true counts `(n_groups, n_windows)` around the chosen steps `(n_groups,)`. Confidential.

    Args:
        histogram: `(n_groups, n_candidates)` records by step.
        steps: their numbers, from 0.
    """
    n = histogram.shape[1]
    upto = np.concatenate([np.zeros((len(histogram), 1), dtype=np.int64), np.cumsum(histogram, axis=1)], axis=1)
    ends = np.clip(np.array([boundaries(int(step), n) for step in steps], dtype=np.int64) + 1, 0, n)
    at = np.concatenate([np.zeros((len(ends), 1), dtype=np.int64), ends, np.full((len(ends), 1), n)], axis=1)
    counts: NDArray[np.int64] = np.diff(np.take_along_axis(upto, at, axis=1), axis=1)
    return counts


def interval(step: int, counts: list[int], candidates: int, quantile: Fraction, variance: float) -> tuple[int, int]:
    """The ends of the 90 % interval of a quantile, as numbers of steps from 0.

    Args:
        step: that was chosen.
        counts: noisy, of each window.
        candidates: steps of the grid.
        quantile: the fraction.
        variance: of the noise on each count.
    """
    edges = boundaries(step, candidates)
    # A window that lies beyond the grid holds nobody, and its noise is left out.
    lasts = [*edges, candidates - 1]
    firsts = [0, *(edge + 1 for edge in edges)]
    known = [first <= candidates - 1 and last >= 0 for first, last in zip(firsts, lasts, strict=True)]
    seen = [count if there else 0 for count, there in zip(counts, known, strict=True)]
    q, total = float(quantile), sum(seen)
    inside = [number for number, edge in enumerate(edges) if 0 <= edge < candidates - 1]
    at, low_gap, high_gap = [], [], []
    for number in inside:
        below, above = sum(known[: number + 1]), sum(known[number + 1 :])
        margin = _Z * math.sqrt(variance * (below * (1 - q) ** 2 + above * q**2))
        surplus = sum(seen[: number + 1]) - q * total
        at.append(edges[number])
        low_gap.append(surplus + margin)
        high_gap.append(surplus - margin)
    low, high = _first_reached(at, low_gap), _last_left(at, high_gap, candidates - 1)
    return min(math.floor(low), step), max(math.ceil(high), step)


def _first_reached(at: list[int], gap: list[float]) -> float:
    """Where a line through (at, gap) is first at 0 or above, from the left; 0 where it begins so."""
    if not at or gap[0] >= 0:
        return 0.0
    for (left, before), (right, after) in pairwise(zip(at, gap, strict=True)):
        if after >= 0:
            return left + (right - left) * (0 - before) / (after - before)
    return float(at[-1])


def _last_left(at: list[int], gap: list[float], last: int) -> float:
    """Where the line is last at 0 or below, from the right; `last` where it ends so, its beginning where never."""
    if not at or gap[-1] <= 0:
        return float(last)
    for (left, before), (right, after) in reversed(list(pairwise(zip(at, gap, strict=True)))):
        if before <= 0:
            return left + (right - left) * (0 - before) / (after - before)
    return float(at[0])


def typical_reach(one: Measured, part: Rank) -> int:
    """How many records the interval typically reaches from the quantile, to either side."""
    q, half = float(part.quantile), n_windows(part.candidates) / 2
    return math.ceil(_Z * math.sqrt(one.noise.variance * half * ((1 - q) ** 2 + q**2)))
