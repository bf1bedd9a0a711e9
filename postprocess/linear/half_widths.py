"""The one rule of a 90 % interval: how wide it is, how it is rounded, and from when a number is exact.

Simulated margins, those of a plan and those of sums all follow it, so that one number has one margin.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: 90 % quantile of the absolute value of a standard normal.
NORMAL_QUANTILE = 1.6448536269514722
#: Variances below this, in persons squared, are those of numbers that are exact.
EXACT_VARIANCE = 1e-9
#: Standard errors below this, in persons, are those of numbers that are exact.
EXACT_STANDARD = math.sqrt(EXACT_VARIANCE)


def is_exact(standard: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which numbers are exact, by their standard errors; those without one (NaN) are not."""
    return standard < EXACT_STANDARD


def half_widths(standard: NDArray[np.float64], factor: ArrayLike = NORMAL_QUANTILE) -> NDArray[np.float64]:
    """Half the width of a 90 % interval, in whole persons; 0 where exact, else 1 at least; NaN where unknown.

    It is rounded to the nearest: counts are whole, so an interval of m reaches errors of up to m + 1/2.

    Args:
        standard: standard errors, NaN where they are unknown.
        factor: what they are multiplied by; broadcast against `standard`.
    """
    return np.where(is_exact(standard), 0.0, np.maximum(np.rint(np.asarray(factor) * standard), 1.0))
