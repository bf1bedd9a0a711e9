"""The numbers of a question as weighted sums of cells: what shares, medians and differences need of the covariances."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from postprocess.arrays import BoolArray, FloatArray, IntArray


def answer_weights(groups: Sequence[IntArray], answers: IntArray) -> tuple[FloatArray, ...]:
    """Zeros and ones that pick some answers, by their numbers, out of those that groups of values make."""
    sizes = tuple(int(group.max()) + 1 for group in groups)
    codes = np.unravel_index(answers, sizes)
    return tuple(
        (code[:, None] == group[None, :]).astype(np.float64) for code, group in zip(codes, groups, strict=True)
    )


def together(allowed: Sequence[BoolArray], k: int) -> tuple[FloatArray, ...]:
    """Ones for all that is counted, k times."""
    return tuple(np.repeat(mask[None, :].astype(np.float64), k, axis=0) for mask in allowed)
