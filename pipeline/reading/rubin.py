"""Rubin's rules: one estimate and one interval from an analysis that was repeated with each draw.

With the estimates Q_1 .. Q_M and their variances U_1 .. U_M (Rubin 1987, chapter 3):

    Q = mean Q_i,   W = mean U_i,   B = variance of the Q_i,   T = W + (1 + 1/M) B
    (Q - truth) / sqrt(T) is about t with  (M - 1) (1 + W / ((1 + 1/M) B))^2  degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from pipeline.errors import InputError
from postprocess.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Pooled:
    """What Rubin's rules give; each field is an array with the form of one estimate.

    Attributes:
        estimate: Q.
        variance: T, of the estimate.
        within: W, what would be left if the counts were exact.
        between: B, what the noise of the release does.
        degrees: degrees of freedom; infinite where the draws agree.
        low, high: the ends of the interval.
    """

    estimate: FloatArray
    variance: FloatArray
    within: FloatArray
    between: FloatArray
    degrees: FloatArray
    low: FloatArray
    high: FloatArray


def rubin(estimates: Sequence[ArrayLike], variances: Sequence[ArrayLike], share: float = 0.9) -> Pooled:
    """Combine an analysis of each draw by Rubin's rules.

    Args:
        estimates: of each draw: a number, or an array such as a regression's coefficients.
        variances: squared standard errors of each draw, in the same form; zeros where the analysis has no sampling
            error, as for a statistic of the whole population.
        share: probability of the interval, above 0 and below 1.

    Raises:
        InputError: there are fewer than two draws, or estimates and variances do not match.
    """
    if not 0 < share < 1:
        raise InputError(f"rubin: found share = {share}; a number above 0 and below 1 is needed, such as 0.9")
    drawn, within = np.array(estimates, dtype=np.float64), np.array(variances, dtype=np.float64)
    if drawn.shape != within.shape or len(drawn) < 2 or (within < 0).any():
        raise InputError(
            f"rubin: found estimates of the form {drawn.shape} and variances of the form {within.shape}; the same form "
            "is needed, two draws at least, and no variance below 0"
        )
    count = len(drawn)
    mean_within, between = within.mean(axis=0), drawn.var(axis=0, ddof=1)
    added = (1 + 1 / count) * between
    total = mean_within + added
    with np.errstate(divide="ignore", invalid="ignore"):
        degrees = np.where(added > 0, (count - 1) * (total / added) ** 2, np.inf)
    estimate = drawn.mean(axis=0)
    half = stdtrit(np.minimum(degrees, 1e12), (1 + share) / 2) * np.sqrt(total)
    arrays = (estimate, total, mean_within, between, degrees, estimate - half, estimate + half)
    return Pooled(*(np.asarray(array, dtype=np.float64) for array in arrays))
