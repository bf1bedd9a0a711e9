"""Ranks of geounits by a count, and which ranks each may have.

Klein, Wright and Wieczorek (2020): with intervals that hold for all n geounits at once with 90 %, a geounit is surely
below those whose interval is above its own. All true ranks are then within their limits at once, with 90 % or more.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray


def reach_at_once(n: int, share: float = 0.9) -> float:
    """Standard errors to each side that hold n numbers at once, however their errors are correlated (Bonferroni)."""
    return NormalDist().inv_cdf(1 - (1 - share) / (2 * n))


def rank_limits(
    counts: NDArray[np.int64], variances: NDArray[np.float64], share: float = 0.9
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Rank (1 for the largest; ties share the best), lowest and highest rank that each of n numbers may have, `(n,)`.

    Args:
        counts: `(n,)`.
        variances: of their errors; NaN where not known.
        share: probability that all ranks are within their limits.
    """
    n = len(counts)
    reach = reach_at_once(n, share) * np.sqrt(np.where(np.isnan(variances), np.inf, variances))
    low, high = counts - reach, counts + reach
    rank = 1 + n - np.searchsorted(np.sort(counts), counts, side="right")
    surely_above = n - np.searchsorted(np.sort(low), high, side="right")
    surely_below = np.searchsorted(np.sort(high), low, side="left")
    return rank.astype(np.int64), (1 + surely_above).astype(np.int64), (n - surely_below).astype(np.int64)
