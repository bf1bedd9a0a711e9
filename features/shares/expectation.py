"""What the public numbers of a level say of some answers, several shares of one answer together.

Public shares say t_c = s_c t_p + z_c. A parent's estimate u_p has learned of the child's u_c, and is freed of it first:
with kappa = Cov(u_c, u_p) / S_c^2, the errors of u* = u_p - kappa u_c and of u_c are uncorrelated. So t_c is around
m^_c with variance f^_c,

    m^_c = s_c u* / (1 - kappa s_c),    f^_c = (f_c (1 - f_c / f_+) + s_c^2 Var u*) / (1 - kappa s_c)^2.

Before anything is measured, the variance of an answer of each child follows (`shared_variances`). One answer is
followed, as a number t_c. With v_c the variance of what its subtree measures, f_c that of the model around s_c t_p
and f'_c the one that the term has (`Spread.used`), the family's solution weighs the children by

    k_c = 1 / (1/v_c + 1/f'_c),   w_c = k_c / v_c,   l_c = k_c / f'_c,   q_c = k_c / k_+.

Its error is a sum of three independent parts: of the noise e_c less what it shares with its sum, of the distances z_c
from the public shares, and of the parent's error e_p:

    w_c e_c - q_c sum w_d e_d  -  (l_c z_c - q_c sum l_d z_d)  +  (l_c s_c + q_c (1 - sum l_d s_d)) e_p.

The parent learned of its children through the sum of their estimates only, and that part cancels in the first. The
variances of e are v_c; those of z are f_c given that they add up to 0. With f' = f the first two parts together have
k_c (1 - q_c). It is exact for one answer, and where siblings' other answers are measured alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from postprocess.arrays import FloatArray, IntArray, over_siblings
from postprocess.shares.estimates import Estimates
from postprocess.shares.shared import Shared
from postprocess.shares.spread import Spread

#: The least 1 - kappa s_c: a child that is nearly all of its parent is not told from it.
_LEAST_APART = 0.05


@dataclass(frozen=True, eq=False)
class ExpectedAnswers:
    """Centres and variances `(n, k)` of answers, in persons; the latter infinite where nothing is said."""

    centres: FloatArray
    variances: FloatArray


def expectations(shared: Sequence[tuple[Shared, Estimates]], answers: IntArray, parents: IntArray) -> ExpectedAnswers:
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
    return ExpectedAnswers(np.where(known, weighted / some, 0.0), np.where(known, 1.0 / some, np.inf))


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
    unlearned = 1.0 - learned * s
    known &= unlearned > _LEAST_APART
    freed = np.where(known, total - learned * own, 0.0)
    of_freed = np.where(known, np.maximum(of_total - learned * common, 0.0), 0.0)
    divisor = np.where(known, unlearned, 1.0)
    variance = (f * (1.0 - f / whole) + s * s * of_freed) / divisor**2
    return np.where(known, s * freed / divisor, 0.0), np.where(known & (variance > 0), variance, np.inf)


#: Persons squared: what is known exactly has this variance, so that siblings can be weighed.
_EXACT = 1e-12


def shared_variances(
    measured: FloatArray, spread: FloatArray, used: FloatArray, shares: FloatArray, family: tuple[IntArray, FloatArray]
) -> FloatArray:
    """Variances `(n,)` of an answer of a level's geounits after the downward pass; NaN where nothing tells it.

    Args:
        measured: `(n,)` v_c; infinite where nothing is measured.
        spread: `(n,)` f_c; infinite where the public numbers say nothing.
        used: `(n,)` f'_c; infinite where there is no term.
        shares: `(n,)` s_c; of no meaning where there is no term.
        family: `(n,)` each geounit's parent, and `(n_parents,)` the variances of the parents.
    """
    parents, above = family
    v = np.maximum(measured, _EXACT)
    precision = 1.0 / v + 1.0 / used
    known = precision > 0
    q = np.where(known, 1.0 / np.where(known, precision, 1.0), 0.0)
    w, m = q / v, q / used
    s, f = np.where(m > 0, shares, 0.0), np.where(np.isfinite(spread), spread, 0.0)

    def parts(weights: FloatArray, variances: FloatArray) -> FloatArray:
        """Of weighted independent numbers with these variances, less q_c of their sum."""
        own = weights**2 * variances
        return own * (1.0 - 2.0 * part) + part**2 * over_siblings(parents, own)

    # A sibling that nothing tells takes whatever is left.
    free = over_siblings(parents, (~known).astype(np.float64)) > 0
    part = np.where(free, 0.0, q / np.where(free, 1.0, over_siblings(parents, q)))
    total = over_siblings(parents, f)
    common = (m * f - part * over_siblings(parents, m * f)) ** 2 / np.where(total > 0, total, 1.0)
    noise = parts(w, np.where(np.isfinite(v), v, 0.0))
    from_parent = m * s + part * (1.0 - over_siblings(parents, m * s))
    out = noise + np.maximum(parts(m, f) - common, 0.0) + from_parent**2 * above[parents]
    single = over_siblings(parents, np.ones(len(v))) == 1
    return np.where(single, above[parents], np.where(known, out, np.nan))
