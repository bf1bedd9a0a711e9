"""Unbiased estimates of an answer of a level, adjusted to those of the level above."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from postprocess.arrays import FloatArray, IntArray, over_siblings


@dataclass(frozen=True, eq=False)
class Estimates:
    """Linear estimates of some answers of a level's geounits; each array `(n, r)`, in persons.

    Attributes:
        values: unbiased.
        variances: of them; infinite where nothing is measured.
        totals: unbiased estimates of the parent's answers.
        of_totals: variances of those; infinite where they are not known.
        common: covariance of a geounit's estimate and its parent's.
    """

    values: FloatArray
    variances: FloatArray
    totals: FloatArray
    of_totals: FloatArray
    common: FloatArray


def adjusted(
    values: FloatArray, variances: FloatArray, parents: IntArray, above: tuple[FloatArray, FloatArray] | None
) -> Estimates:
    """Estimates `(n, r)` of each answer, after its parent's estimate is known.

    With b_c of variance v_c, their sums b_+ and v_+ over siblings, and u_p with the standard error S_p for the parent,

        u_c = b_c + v_c / v_+ (u_p - b_+),    S_c^2 = v_c - v_c^2 / v_+ + (v_c / v_+)^2 S_p^2,

    and Cov(u_c, u_p) = v_c / v_+ S_p^2: the recursion of the linear estimates for a single answer. Where nothing is
    known of the parent it is b_+. A family of
    which a child has no estimate stays as it is, but for an only child, which is its parent.

    Args:
        values, variances: estimates and variances `(n, r)`; infinite where nothing is measured. Siblings' are
            independent.
        parents: `(n,)`.
        above: those of the parents, `(n_parents, r)`, in which b_+ has its part; None where they are not known.
    """
    total, spread = over_siblings(parents, values), over_siblings(parents, variances)
    single = over_siblings(parents, np.ones(values.shape)) == 1
    u, of_u = (total, spread) if above is None else (one[parents] for one in above)
    usable = np.isfinite(spread) & (spread > 0) & np.isfinite(of_u)
    part = np.where(usable, variances / np.where(usable, spread, 1.0), 0.0)
    known = np.where(usable, of_u, 0.0)
    estimates = values + part * np.where(usable, u - total, 0.0)
    errors = np.where(np.isfinite(variances), variances, 0.0) * (1.0 - part) + part**2 * known
    errors = np.where(np.isfinite(variances), errors, np.inf)
    if above is not None:
        estimates, errors = np.where(single, u, estimates), np.where(single, of_u, errors)
    exact = np.where((spread == 0) & np.isfinite(of_u), 0.0, np.inf)
    return Estimates(estimates, errors, u, np.where(usable, of_u, exact), part * known)
