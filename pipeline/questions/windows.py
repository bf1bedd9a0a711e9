"""The interval of a quantile: noisy counts of the records in windows around the number that was chosen.

Around the chosen step v lie boundaries at v and at 2, 4, 8, 16 ... steps to either side. A record is in one window
between two of them. Under zcdp each of the numbers that are measured is a sum of eight neighbouring windows, with the
weights of `FILTER`: what is added up over many windows is then known better than from windows that are counted apart,
by half at twenty windows (see `filtered`; Henzinger, Upadhyay and Upadhyay 2023, "Almost tight error bounds on
differentially private continual counting", of such a factorisation). Under pure budgets windows are counted apart. All
of it is a histogram with weights, which is paid for once.

At a boundary b the least squares estimate of the numbers gives S(b) = (records up to b) - q n with a known error s(b).
The true quantile is the least step with S >= 0. A boundary is told to be below it where S(b) is below -z s(b), and to
be at or above it where S(b) is above z s(b), z the 90 % quantile of the normal distribution. The interval begins after
the last boundary of those, counted from the lowest, that are all told to be below; it ends at the first of those,
counted from the highest, that are all told to be at or above.

It covers in about 90 % of cases or more, whatever the records are. The lower end is too high only if the first boundary
at or above the true quantile is told to be below it, whose S is not below 0: with at most 10 %. So with the upper end
and the last boundary below the true quantile. The chosen number is always inside. So the lower end is too high only
where that number is, and the upper end too low only where it is: 10 % in all, of both. Where many records lie around
the quantile S is far from 0 at these boundaries, and nearly all intervals hold. That is for sums of noise near to
normal. Under pure budgets few draws of small noise are not: up to epsilon 8 an end is wrong in 10 %, at 20 in 11 %,
at 40 in 13 %, where two groups of records are each at an end of a short grid.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from pipeline.model.promise import Promise
from pipeline.privacy.budget import Framework
from pipeline.questions.quantiles import Rank, Ranked, ranked
from pipeline.questions.resolved import Part
from pipeline.questions.sensitivity import MeasuredPart, measured
from postprocess.arrays import FloatArray, IntArray

#: How often a record counts in the number of its own window, and of the next ones. A record's change moves numbers as
#: if `MOVED` of them were moved by R each, R^2 the sum of the squares (zcdp), or R the sum (pure).
FILTER: Final[dict[Framework, tuple[int, ...]]] = {"zcdp": (8, 4, 3, 2, 2, 1, 1, 1), "pure": (1,)}
_REACH: Final[dict[Framework, int]] = {"zcdp": 10, "pure": 1}
#: Of the budget, for the number itself; with sqrt(8 / 7) = 1.07 times the error that all of it would buy under zcdp,
#: and 16 / 15 times under pure budgets, where an error grows as 1 / epsilon.
_CHOICE: Final[dict[Framework, Fraction]] = {"zcdp": Fraction(7, 8), "pure": Fraction(15, 16)}
#: What the noise of a number and its windows depends on beside their budget: other mechanisms and shares must not meet
#: the same words of a stream. Under zcdp they are as they ever were.
MADE_WITH: Final[dict[Framework, tuple[str, ...]]] = {"zcdp": (), "pure": ("permute-and-flip", "15/16")}
#: Of the nearest boundary from the number, in steps; and how much further each other one is.
_NEAREST: Final = 2
_TIMES: Final = 2
#: 90 % quantile of a standard normal.
_Z: Final = 1.2815515655446004


def bought(part: Rank, promise: Promise) -> tuple[Ranked, MeasuredPart]:
    """The choice of a quantile and the numbers of windows around it; errors as `ranked` and `measured`."""
    share, reach = promise.budget * _CHOICE[promise.framework], _REACH[promise.framework]
    rest = replace(promise, budget=promise.budget - share)
    (around,) = measured((Part("windows", reach, reach),), rest)
    return ranked(part, replace(promise, budget=share)), around


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


def n_numbers(candidates: int, framework: Framework) -> int:
    """How many numbers are measured of them."""
    return n_windows(candidates) + len(FILTER[framework]) - 1


def columns_of(candidates: int, framework: Framework) -> list[str]:
    """What these numbers are called, lowest first."""
    return [f"window{number}" for number in range(1, n_numbers(candidates, framework) + 1)]


def boundaries(step: int, candidates: int) -> list[int]:
    """The last step of each window but the highest, in order; some are beyond the grid."""
    away = distances(candidates)
    return [*(step - one for one in reversed(away)), step, *(step + one for one in away)]


def counts_in_windows(histogram: IntArray, steps: IntArray) -> IntArray:
    """The true counts `(n_groups, n_windows)` around the chosen steps `(n_groups,)`. Confidential.

    Args:
        histogram: `(n_groups, n_candidates)` records by step.
        steps: their numbers, from 0.
    """
    n = histogram.shape[1]
    upto = np.concatenate([np.zeros((len(histogram), 1), dtype=np.int64), np.cumsum(histogram, axis=1)], axis=1)
    ends = np.clip(np.array([boundaries(int(step), n) for step in steps], dtype=np.int64) + 1, 0, n)
    at = np.concatenate([np.zeros((len(ends), 1), dtype=np.int64), ends, np.full((len(ends), 1), n)], axis=1)
    counts: IntArray = np.diff(np.take_along_axis(upto, at, axis=1), axis=1)
    return counts


def filtered(counts: IntArray, framework: Framework) -> IntArray:
    """What is measured of the windows: number i has filter[0] times window i, filter[1] times window i - 1 and so on.

    Args:
        counts: `(n_groups, n_windows)`, exact.

    Returns:
        `(n_groups, n_windows + length of the filter - 1)`, exact.
    """
    weights = FILTER[framework]
    numbers = np.zeros((len(counts), counts.shape[1] + len(weights) - 1), dtype=np.int64)
    for after, weight in enumerate(weights):
        numbers[:, after : after + counts.shape[1]] += weight * counts
    return numbers


def interval(
    step: int,
    numbers: list[int],
    candidates: int,
    quantile: Fraction,
    framework: Framework,
    variance: float,
    beyond: int = 0,
) -> tuple[int, int]:
    """The ends of the 90 % interval of a quantile, as numbers of steps from 0.

    Args:
        step: that was chosen.
        numbers: noisy, of the windows; `filtered`.
        candidates: steps of the grid.
        quantile: the fraction.
        framework: of the filter.
        variance: of the noise on each number.
        beyond: of a maximum (quantile 1) or a minimum (0): the records that at most are above it, or below.
    """
    # Of a minimum more than `beyond` records are at or below it; in whole numbers, one more.
    shift = -beyond if quantile == 1 else beyond + (quantile == 0)
    edges = boundaries(step, candidates)
    # A window that lies beyond the grid holds nobody.
    first, last = (sum(edge < end for edge in edges) for end in (0, candidates - 1))
    inside = edges[first:last]
    sides = []
    for weights, error in _surplus(FILTER[framework], len(edges) + 1, first, last, quantile):
        surplus, margin = math.fsum(map(float.__mul__, weights, map(float, numbers))), _Z * math.sqrt(variance) * error
        surplus -= shift
        sides.append(-1 if surplus < -margin else int(surplus > margin))
    below = next((number for number, side in enumerate(sides) if side >= 0), len(sides))
    above = next((number for number, side in enumerate(reversed(sides)) if side <= 0), len(sides))
    low = 0 if below == 0 else inside[below - 1] + 1
    high = candidates - 1 if above == 0 else inside[len(inside) - above]
    return min(low, step), max(high, step)


@lru_cache(maxsize=1024)
def _surplus(
    weights: tuple[int, ...], n: int, first: int, last: int, quantile: Fraction
) -> tuple[tuple[tuple[float, ...], float], ...]:
    """Of each boundary inside the grid how S follows from the numbers by least squares, and its error.

    Args:
        weights: the filter.
        n: number of windows.
        first, last: the windows that are not beyond the grid.
        quantile: the fraction.

    Returns:
        for each of the boundaries `first` to `last` - 1 a weight for each number, and the deviation of S where that of
        each number is 1.
    """
    of_windows = np.zeros((n + len(weights) - 1, n))
    for after, weight in enumerate(weights):
        of_windows[np.arange(n) + after, np.arange(n)] = weight
    design, q = of_windows[:, first : last + 1], float(quantile)
    inverse = _inverted((design[:, :, None] * design[:, None, :]).sum(axis=0))
    found = []
    for up_to in range(1, last - first + 1):
        wanted = np.where(np.arange(last - first + 1) < up_to, 1 - q, -q)
        by_number = (design * (inverse * wanted).sum(axis=1)).sum(axis=1)
        found.append((tuple(by_number.tolist()), math.sqrt(math.fsum((by_number**2).tolist()))))
    return tuple(found)


def _inverted(matrix: FloatArray) -> FloatArray:
    """The inverse of a small positive definite matrix, row by row, so that no library decides its last digit."""
    n = len(matrix)
    both = np.concatenate([matrix, np.eye(n)], axis=1)
    for pivot in range(n):
        both[pivot] /= both[pivot, pivot]
        for row in range(n):
            if row != pivot:
                both[row] -= both[row, pivot] * both[pivot]
    return both[:, n:]


def typical_reach(one: MeasuredPart, part: Rank, framework: Framework) -> int:
    """How many records an end is away from the quantile where its boundary is told apart in half of all cases."""
    n = n_windows(part.candidates)
    errors = [error for _, error in _surplus(FILTER[framework], n, 0, n - 1, part.quantile)]
    # Around an extreme all boundaries that matter are near to the number, which is in the middle of all windows.
    error = errors[n // 2 - 1] if part.extreme else max(errors)
    return math.ceil(_Z * math.sqrt(one.mechanism.variance) * error)
