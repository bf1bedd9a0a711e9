"""90 % intervals of shared answers that hold 90 % however far an area is from its public share.

An unbiased estimate u with standard error S, and an expectation around m^ with variance f^, that is not trusted:
for every truth t the estimate is usual between

    t + S Phi^-1(alpha part(t))   and   t - S Phi^-1(alpha (1 - part(t))),

whose probability is 1 - alpha whatever part is. So the t of which u is usual hold the truth in 1 - alpha of all cases,
for every single truth. With slope(part) = Phi^-1(alpha part) - Phi^-1(alpha (1 - part)) and part(t) = slope^-1(2 S (t -
m^) / f^) they are the shortest on average if the expectation is right (Pratt 1961; Yu and Hoff 2018, section 2): as f^
grows they become u +- 1.645 S, as it vanishes they are 0.81 times as long on average, and no rule that holds for every
truth is shorter. Where the expectation is wrong they would become more than twice as long as u +- 1.645 S. So part is
kept between `LEAST_PART` and 1 - `LEAST_PART`, by which they are at most 1.18 times as long, and at least 0.82 times on
average.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from postprocess.arrays import FloatArray

#: How often an interval may miss.
ALPHA = 0.1
#: The least part of `ALPHA` on either side.
LEAST_PART = 0.05
_PARTS = np.linspace(LEAST_PART, 1.0 - LEAST_PART, 2001)
_SLOPE = ndtri(ALPHA * _PARTS) - ndtri(ALPHA * (1.0 - _PARTS))
#: -Phi^-1(alpha part), by which a truth may be above the estimate, for slope(part); that below follows by symmetry.
_ABOVE = -ndtri(ALPHA * _PARTS)
#: Bisections of a range of 1.5 standard errors.
_ROUNDS = 30
#: Standard errors that an end can be away from the estimate, at most and at least.
_FAR, _CLOSE = float(_ABOVE[0]) + 0.1, float(_ABOVE[-1]) - 0.1
#: Areas at once.
_CHUNK = 200_000
#: Persons: what rounding leaves of a number does not decide whether a whole number is inside.
_TINY = 1e-6


def constant_coverage(
    estimate: FloatArray, standard: FloatArray, centre: FloatArray, spread: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The least and the most whole number in each interval; the former may be the larger: then there is none.

    Args:
        estimate: `(n,)` u, in persons.
        standard: `(n,)` S, positive.
        centre: `(n,)` m^; of no meaning where nothing is expected.
        spread: `(n,)` f^, in persons squared; infinite where nothing is expected.
    """
    low, high = np.empty(len(estimate)), np.empty(len(estimate))
    for first in range(0, len(estimate), _CHUNK):
        rows = slice(first, first + _CHUNK)
        s = standard[rows]
        expected = np.isfinite(spread[rows])
        away = np.where(expected, (estimate[rows] - np.where(expected, centre[rows], 0.0)) / s, 0.0)
        steepness = np.where(expected, 2.0 * s * s / np.where(expected, spread[rows], 1.0), 0.0)
        high[rows] = estimate[rows] + s * _upper(away, steepness)
        low[rows] = estimate[rows] - s * _upper(-away, steepness)
    return np.ceil(low - _TINY), np.floor(high + _TINY)


def _upper(away: FloatArray, steepness: FloatArray) -> FloatArray:
    """How far the upper end is above the estimate, all in standard errors.

    Args:
        away: `(n,)` of the estimate from what is expected.
        steepness: `(n,)` 2 S^2 / f^.
    """

    def usual(above: FloatArray) -> FloatArray:
        return np.interp(steepness * (away + above), _SLOPE, _ABOVE)

    return _last(lambda above: above <= usual(above), _CLOSE + 0.0 * away, _FAR + 0.0 * away)


def _last(inside: Callable[[FloatArray], np.ndarray], low: FloatArray, high: FloatArray) -> FloatArray:
    """The last number `(n,)` that is inside, between one that is and one that is not."""
    for _ in range(_ROUNDS):
        middle = 0.5 * (low + high)
        known = inside(middle)
        low, high = np.where(known, middle, low), np.where(known, high, middle)
    return 0.5 * (low + high)
