"""The interval of a ratio of two numbers whose errors are correlated, and shares in percent.

Fieller (1954): the interval holds every t for which x - t y is not significantly different from 0,

    (x - t y)^2 <= q^2 (v_x - 2 t c + t^2 v_y),

with variances v_x, v_y and covariance c. Unlike the usual one it is right where y is not far from 0, and has no end
then.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.reading.sums import QUANTILE, Moments

Floats = NDArray[np.float64]


def ratio_interval(x: Floats, y: Floats, moments: Moments, quantile: float = QUANTILE) -> tuple[Floats, Floats]:
    """Ends of the interval of x / y, the shape of both; infinite where y may be 0, NaN where something is not known."""
    square = quantile**2
    a = y**2 - square * moments.right
    b = x * y - square * moments.both
    c = x**2 - square * moments.left
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
        low, high = (b - root) / a, (b + root) / a
    unbounded = a <= 0
    return np.where(unbounded, -np.inf, low), np.where(unbounded, np.inf, high)


def share_interval(x: Floats, y: Floats, moments: Moments) -> tuple[Floats, Floats, Floats]:
    """Share x / y of a part in its whole, in percent, and the ends of its interval within 0 and 100."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(y > 0, 100.0 * x / y, np.nan)
    low, high = ratio_interval(x, y, moments)
    return share, np.clip(100.0 * low, 0.0, 100.0), np.clip(100.0 * high, 0.0, 100.0)


def difference_interval(
    values: Floats, low: Floats, high: Floats, correlation: Floats
) -> tuple[Floats, Floats, Floats]:
    """The difference of two numbers and its interval, from those of each, `(2, k)`, and the errors' correlation `(k,)`.

    Method of variance estimates recovery (Donner and Zou 2012): each end is as far from the difference as the nearer
    ends of both intervals let it be.
    """
    below, above = values - low, high - values
    difference = values[0] - values[1]

    def reach(one: Floats, other: Floats) -> Floats:
        return np.asarray(np.sqrt(np.maximum(one**2 + other**2 - 2.0 * correlation * one * other, 0.0)))

    return difference, difference - reach(below[0], above[1]), difference + reach(above[0], below[1])
