"""Unbiased estimates of an answer of a level, adjusted to those of the level above."""

from __future__ import annotations

import numpy as np

from postprocess.arrays import FloatArray, IntArray


def adjusted(
    own: tuple[FloatArray, FloatArray], above: tuple[FloatArray, FloatArray], parents: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Estimates `(n, r)` of each answer, and their variances, after its parent's estimate is known.

    With b_c of variance v_c, their sums B and V over siblings, and u of variance U for the parent,

        u_c = b_c + v_c / V (u - B),    U_c = v_c - v_c^2 / V + (v_c / V)^2 U:

    the recursion of the linear estimates for a single answer. A family of which a child has no estimate stays as it is,
    but for an only child, which is its parent.

    Args:
        own: estimates and variances `(n, r)`; infinite where nothing is measured. Siblings' are independent.
        above: those of the parents, `(n_parents, r)`, in which B has its part.
        parents: `(n,)`.
    """
    values, variances = own
    total, spread, size = (np.zeros(above[0].shape) for _ in range(3))
    for sums, numbers in ((total, values), (spread, variances), (size, np.ones(values.shape))):
        np.add.at(sums, parents, numbers)
    usable = np.isfinite(spread) & (spread > 0) & np.isfinite(above[1])
    part = np.where(usable[parents], variances / np.where(usable, spread, 1.0)[parents], 0.0)
    with np.errstate(invalid="ignore"):
        estimates = values + part * np.where(usable, above[0] - total, 0.0)[parents]
        errors = variances * (1.0 - part) + part**2 * np.where(usable, above[1], 0.0)[parents]
    single = (size == 1)[parents]
    return np.where(single, above[0][parents], estimates), np.where(single, above[1][parents], errors)
