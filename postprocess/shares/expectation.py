"""What the public numbers of a level say of some answers, several shares of one answer together.

Public shares say t_c = s_c T + z_c. A parent's estimate u has learned of the child's u_c, and is freed of it first:
with k = Cov(u_c, u) / Var(u_c), the errors of u* = u - k u_c and of u_c are uncorrelated, and since E u* = T - k t_c,

    t_c  is around  s_c u* / (1 - k s_c),  with the variance  (f_c (1 - f_c / F) + s_c^2 Var u*) / (1 - k s_c)^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from postprocess.arrays import FloatArray, IntArray
from postprocess.shares.estimates import Estimates
from postprocess.shares.shared import Shared
from postprocess.shares.spread import Spread

#: The least 1 - k s_c: a child that is nearly all of its parent is not told from it.
_LEAST_APART = 0.05


@dataclass(frozen=True, eq=False)
class Expected:
    """Centres and variances `(n, k)` of answers, in persons; the latter infinite where nothing is said."""

    centres: FloatArray
    variances: FloatArray


def expectations(shared: Sequence[tuple[Shared, Estimates]], answers: IntArray, parents: IntArray) -> Expected:
    """What is expected of each child without its own estimate; several shares of an answer have their weighted mean.

    Args:
        shared: of one query at one level, with their spreads, and the estimates of their answers.
        answers: `(k,)` of the query, increasing.
        parents: `(n,)`.
    """
    precision, weighted = (np.zeros((len(parents), len(answers))) for _ in range(2))
    for one, estimates in shared:
        for place, (answer, spread) in enumerate(zip(one.answers, one.spreads, strict=True)):
            column = int(np.searchsorted(answers, answer))
            centre, variance = _of_share(one, place, spread, estimates, parents)
            precision[:, column] += 1.0 / variance
            weighted[:, column] += centre / variance
    known = precision > 0
    some = np.where(known, precision, 1.0)
    return Expected(np.where(known, weighted / some, 0.0), np.where(known, 1.0 / some, np.inf))


def _of_share(
    one: Shared, place: int, spread: Spread, estimates: Estimates, parents: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Centres and variances `(n,)` by one share of one answer."""
    own, of_own, total, of_total, common = (
        array[:, place]
        for array in (
            estimates.values, estimates.variances, estimates.totals, estimates.of_totals, estimates.common
        )
    )  # fmt: skip
    known = np.isfinite(one.shares[:, place]) & np.isfinite(of_total) & np.isfinite(of_own)
    s = np.where(known, one.shares[:, place], 0.0)
    f = spread.variances(s * np.maximum(np.where(known, total, 0.0), 0.0), one.numbers[:, place])
    whole = np.bincount(parents, weights=f)[parents]
    learned = np.where(known & (of_own > 0), common / np.where(of_own > 0, of_own, 1.0), 0.0)
    apart = 1.0 - learned * s
    known &= apart > _LEAST_APART
    freed = np.where(known, total - learned * own, 0.0)
    of_freed = np.where(known, np.maximum(of_total - learned * common, 0.0), 0.0)
    divisor = np.where(known, apart, 1.0)
    variance = (f * (1.0 - f / whole) + s * s * of_freed) / divisor**2
    return np.where(known, s * freed / divisor, 0.0), np.where(known & (variance > 0), variance, np.inf)
