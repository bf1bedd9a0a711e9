"""Whether the share of an area's largest group is right: the rule of the accuracy target of 2020.

The target: within five points in 95 % of the areas of 500 people or more (US Census Bureau, "Census Bureau Sets Key
Parameters to Protect Privacy in 2020 Census Results", 9 June 2021).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: A share is right within so many points, in so much of the areas of at least so many people.
POINTS, SHARE, PEOPLE = 5, 0.95, 500


def fits(published: NDArray[np.int64], truth: NDArray[np.generic]) -> NDArray[np.bool_]:
    """`(n,)`: whether the share of the truly largest group is within the points, of numbers `(n, k)`."""
    true = np.asarray(truth, dtype=np.float64)
    group = true.argmax(axis=1)[:, None]
    share = np.take_along_axis(published, group, 1)[:, 0] / np.maximum(published.sum(axis=1), 1)
    true_share = np.take_along_axis(true, group, 1)[:, 0] / np.maximum(true.sum(axis=1), 1.0)
    return np.asarray(np.abs(share - true_share) <= POINTS / 100 + 1e-12)
