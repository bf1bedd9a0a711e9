"""The numbers of a question as weighted sums of cells: what shares, medians and differences need of the covariances."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def answer_weights(groups: Sequence[NDArray[np.int64]], answers: NDArray[np.int64]) -> tuple[NDArray[np.float64], ...]:
    """Zeros and ones that pick some answers, by their numbers, out of those that groups of values make."""
    sizes = tuple(int(group.max()) + 1 for group in groups)
    codes = np.unravel_index(answers, sizes)
    return tuple(
        (code[:, None] == group[None, :]).astype(np.float64) for code, group in zip(codes, groups, strict=True)
    )


def together(allowed: Sequence[NDArray[np.bool_]], k: int) -> tuple[NDArray[np.float64], ...]:
    """Ones for all that is counted, k times."""
    return tuple(np.repeat(mask[None, :].astype(np.float64), k, axis=0) for mask in allowed)
