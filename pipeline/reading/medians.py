"""The median of an ordered attribute, and its interval.

Woodruff (1952): the median is at value k or below exactly if those up to k are half of all or more. So the interval is
that of values which this test cannot exclude, by t_k = c_k - n/2, c_k being the count up to k and n the count of all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.reading.sums import QUANTILE


def median_weights(n_values: int) -> NDArray[np.float64]:
    """Weights `(n_values, n_values)` on the values that make t_k of each k: 1/2 up to k, -1/2 above."""
    return np.where(np.tri(n_values, dtype=bool), 0.5, -0.5)


def median_interval(
    counts: NDArray[np.int64], variances: NDArray[np.float64], quantile: float = QUANTILE
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Numbers `(n,)` of the value with the median, the lowest and the highest that it may be; -1 where nobody is known.

    Args:
        counts: of the values in order, `(n, n_values)`.
        variances: of t_k for each k, the same shape; all values where one of them is NaN.
    """
    last = counts.shape[1] - 1
    total = counts.sum(axis=1)
    tested = np.cumsum(counts, axis=1) - total[:, None] / 2
    reach = quantile * np.sqrt(variances)
    unknown = np.isnan(reach).any(axis=1)
    median = np.where(total > 0, (tested >= 0).argmax(axis=1), -1)
    possible, sure = tested >= -reach, tested >= reach
    low = np.where(unknown | ~possible.any(axis=1), 0, possible.argmax(axis=1))
    high = np.where(unknown | ~sure.any(axis=1), last, sure.argmax(axis=1))
    return median.astype(np.int64), low.astype(np.int64), high.astype(np.int64)
