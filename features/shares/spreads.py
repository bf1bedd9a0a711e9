"""How far areas are from their public shares, from the measurements alone: tau^2 and a of docs/mathematics.md.

With b_c the children's independent unbiased estimates of an answer, v_c their variances, s_c the public shares and an
index + for sums over a family, the gap b_c - s_c b_+ has

    E (b_c - s_c b_+)^2 = f_c (1 - f_c / f_+) + (1 - 2 s_c) v_c + s_c^2 v_+,    f_c = tau^2 (m_c + a m_c^2),

since it is z_c + e_c - s_c e_+ for the noise e and z_c = t_c - m_c, m_c = s_c t_p. The first part is the variance of
independent normal z_c whose sum is known to be 0; with a = 0 it is tau^2 s_c (1 - s_c) t_p, that of a multinomial times
tau^2. b_+ and b_+^2 - v_+ stand for t_p and t_p^2, unbiased. The squares less their noise are summed in classes of the
public number, and tau^2 and tau^2 a are fitted to these sums by weighted least squares: a method of moments (Fay and
Herriot 1979, section 3; Prasad and Rao 1990) with a variance that grows with the size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.shares.shared import Shared
from postprocess.shares.spread import Spread, octaves

#: The least tau^2: a share is never taken for exact.
LEAST_TAU2 = 0.05
#: The least variance, in persons squared, of areas whose public number is 0.
LEAST_ALONE = 0.25
#: Standard errors by which the second of the two terms must differ from 0 to be told from it.
CLEAR = 2.0
#: Persons to the fourth: the least variance of a sum of squares, for what is known exactly.
_LEAST_WEIGHED = 1e-3
#: Rounds in which f_c / f_+ is found.
_ROUNDS = 8
#: Digits that are kept, so that the order in which numbers are added up does not show.
_DIGITS = 3

#: Where nothing is measured, persons are shared as a multinomial shares them.
UNKNOWN = Spread(tau2=1.0, a=0.0, alone=1.0, noise=float("inf"), standard_error=float("inf"), geounits=0)


@dataclass(frozen=True, eq=False)
class Gaps:
    """Areas' distances from their public shares, those of families without gaps in what is measured.

    Attributes:
        squared: `(n,)` (b_c - s_c b_+)^2 less its noise.
        noise: `(n,)` the variance of the noise in b_c - s_c b_+.
        own: `(n,)` the variance of b_c.
        expected, expected_squared: `(n,)` unbiased estimates of m_c and m_c^2.
        share: `(n,)` s_c.
        number: `(n,)` public numbers, by which areas are put into classes.
        family: `(n,)` numbers of the families from 0.
    """

    squared: FloatArray
    noise: FloatArray
    own: FloatArray
    expected: FloatArray
    expected_squared: FloatArray
    share: FloatArray
    number: FloatArray
    family: IntArray

    @classmethod
    def of(
        cls, values: FloatArray, variances: FloatArray, shares: FloatArray, number: FloatArray, parents: IntArray
    ) -> Gaps:
        """From one answer of a level.

        Args:
            values: `(n,)` independent unbiased estimates.
            variances: `(n,)` of them; infinite where nothing is measured.
            shares: `(n,)` of the parent's public number; NaN where that is 0.
            number: `(n,)` public.
            parents: `(n,)` each area's parent.
        """
        usable = np.isfinite(variances) & np.isfinite(shares)
        size = np.bincount(parents)
        whole = (np.bincount(parents, weights=usable) == size) & (size > 1)
        rows = np.flatnonzero(whole[parents])
        _, family = np.unique(parents[rows], return_inverse=True)
        b, v, s = values[rows], variances[rows], shares[rows]
        total = np.bincount(family, weights=b)[family] if len(rows) else b
        spread = np.bincount(family, weights=v)[family] if len(rows) else v
        noise = (1.0 - 2.0 * s) * v + s * s * spread
        squares = total * total - spread
        return cls((b - s * total) ** 2 - noise, noise, v, s * total, s * s * squares, s, number[rows], family)

    @property
    def counted(self) -> BoolArray:
        """Those with a public number that is not 0."""
        return self.share > 0


def estimated(gaps: Gaps) -> Spread:
    """The spread of an answer at a level; rounded, never taken for smaller than its own standard error.

    The part that grows with the size is used where it is clear (`CLEAR`), since two parts are harder to tell apart than
    their sum. What the noise hides is not taken for nothing: a tau^2 that comes out below its standard error is the
    latter.
    """
    counted = gaps.counted
    if not counted.any():
        return UNKNOWN
    fit, covariance = moments(gaps, growing=True)
    if fit[1] > CLEAR * np.sqrt(covariance[1, 1]):
        growth = float(fit[1])
    else:
        fit, covariance = moments(gaps, growing=False)
        growth = 0.0
    error = float(np.sqrt(max(covariance[0, 0], 0.0)))
    tau2 = _rounded(max(float(fit[0]), error, LEAST_TAU2))
    return Spread(
        tau2,
        _rounded(max(growth, 0.0) / tau2),
        _rounded(_alone(gaps)),
        _rounded(float(np.median(gaps.own))),
        _rounded(error),
        int(counted.sum()),
        _factors(gaps, tau2, growth / tau2),
    )


def with_spreads(shared: Shared, values: FloatArray, variances: FloatArray, parents: IntArray) -> Shared:
    """What public numbers say, with spreads that are estimated from the measurements of the whole level.

    Args:
        shared: without spreads.
        values: `(n, r)` estimates of the answers; siblings' are independent.
        variances: `(n, r)` of them; infinite where nothing is measured.
        parents: `(n,)` each geounit's parent.
    """
    columns = zip(values.T, variances.T, shared.shares.T, shared.numbers.T, strict=True)
    return replace(shared, spreads=tuple(estimated(Gaps.of(*column, parents)) for column in columns))


def _factors(gaps: Gaps, tau2: float, a: float) -> tuple[tuple[int, float], ...]:
    """Where areas of a size are clearly further from their shares than the fit says: by how much.

    It is so where the public number says little, and small areas are as large as others.
    """
    rows = np.flatnonzero(gaps.counted)
    sizes, size = np.unique(octaves(gaps.number[rows]), return_inverse=True)
    family = gaps.family[rows]
    f = tau2 * (np.maximum(gaps.expected[rows], 0.0) + a * np.maximum(gaps.expected_squared[rows], 0.0))
    total = np.bincount(family, weights=f)[family]
    left = f * (1.0 - f / np.where(total > 0, total, 1.0))
    found, fitted = (np.bincount(size, weights=one) for one in (gaps.squared[rows], left))
    error = np.sqrt(np.bincount(size, weights=2.0 * (gaps.noise[rows] + left) ** 2))
    clear = (found > fitted + CLEAR * error) & (fitted > 0)
    return tuple((int(sizes[i]), _rounded(float(found[i] / fitted[i]))) for i in np.flatnonzero(clear))


def moments(gaps: Gaps, *, growing: bool) -> tuple[FloatArray, FloatArray]:
    """tau^2 and, where it is `growing`, tau^2 a, as the sums of squares give them, with their covariance.

    They may come out negative. tau^2 alone is unbiased where a is 0: what a fixed sum takes away is then 1 - s_c, and
    the weights are those of an even fit, which depend little on the sums that they weigh. With a, both follow from the
    fit, and are found in a few rounds.
    """
    rows = np.flatnonzero(gaps.counted)
    _, size = np.unique(octaves(gaps.number[rows]), return_inverse=True)
    family, share, noise = gaps.family[rows], gaps.share[rows], gaps.noise[rows]
    columns = np.stack([gaps.expected[rows], gaps.expected_squared[rows]], axis=1)[:, : 1 + growing]
    sizes = np.maximum(columns, 0.0)
    target, left = np.bincount(size, weights=gaps.squared[rows]), 1.0 - share
    first = max(float(target.sum()), 0.0) / max(float((columns[:, 0] * left).sum()), np.finfo(float).tiny)
    f = first * sizes[:, 0]
    for _ in range(_ROUNDS if growing else 1):
        of_area = 2.0 * (noise + f * left) ** 2
        weight = 1.0 / np.maximum(np.bincount(size, weights=of_area), _LEAST_WEIGHED)
        sums = np.stack([np.bincount(size, weights=column * left) for column in columns.T], axis=1)
        fit, covariance = _fitted(sums.astype(np.float64), target.astype(np.float64), weight)
        f = sizes @ np.maximum(fit, 0.0)
        total = np.bincount(family, weights=f)[family]
        left = 1.0 - np.where(total > 0, f / np.where(total > 0, total, 1.0), share)
    return fit, covariance


def _fitted(sums: FloatArray, target: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The least-squares fit of `target` `(g,)` by the columns of `sums` `(g, c)`, and its covariance."""
    normal = sums.T @ (weight[:, None] * sums)
    covariance = np.linalg.pinv(normal, rcond=1e-12, hermitian=True)
    return np.asarray(covariance @ (sums.T @ (weight * target))), np.asarray(covariance, dtype=np.float64)


def _alone(gaps: Gaps) -> float:
    """The mean square of areas whose public number is 0, or its standard error where that is larger."""
    rows = ~gaps.counted
    if not rows.any():
        return 1.0
    mean = float(gaps.squared[rows].mean())
    error = float(np.sqrt((2.0 * gaps.noise[rows] ** 2).sum()) / rows.sum())
    return max(mean, error, LEAST_ALONE)


def _rounded(number: float) -> float:
    """The number to `_DIGITS` digits."""
    return float(f"{number:.{_DIGITS - 1}e}") if np.isfinite(number) else number
