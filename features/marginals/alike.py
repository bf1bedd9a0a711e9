"""How alike the parts of an area are: what a child's table is expected to be, and how far off that is.

Given a held number r of a child and the parent's numbers p_j of the values of an attribute, N in all, the child is
expected to have m_j = r p_j / N: the attribute knows of no relation with the area, given what is held. The numbers are
spread around it with the variance a m + b m^2: a = 1 is what random parts of the parent would have, b what areas
differ by. Both are found from the noisy numbers of the level alone, by moments: the square of (noisy - expected) less
the noise's variance is their spread on average. What is measured and what is expected are weighted by 1 / variance.
Areas unlike their siblings are drawn towards them, more so where noise is large; `whole_numbers(alike=False)` does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from features.marginals.transport import Tables
from postprocess.arrays import FloatArray

__all__ = ["Spread", "expected", "spread_of"]

#: Rounds in which weights follow the spread.
_ROUNDS = 4


@dataclass(frozen=True)
class Spread:
    """The variance `one * m + two * m^2` of numbers expected to be m."""

    one: float
    two: float

    def variance(self, expectation: FloatArray) -> FloatArray:
        """Of numbers with these expectations."""
        return self.one * expectation + self.two * expectation**2

    def weighted(self, tables: Tables) -> Tables:
        """The tables with what is expected of them put together with what is measured."""
        m = expected(tables)
        spread = np.where(m > 0, self.variance(m), 1.0)
        both = spread + tables.variance
        estimate = (tables.estimate * spread + m * tables.variance) / both
        return Tables(estimate, tables.variance * spread / both, tables.rows, tables.columns)


def expected(tables: Tables) -> FloatArray:
    """What each cell is expected to have, `(B, C, m)`; 0 in empty rows and columns."""
    total = tables.rows.sum(axis=1)[:, None, None]
    return np.asarray(tables.rows[:, :, None] * tables.columns[:, None, :] / np.maximum(total, 1), dtype=np.float64)


def spread_of(expectation: FloatArray, square: FloatArray, noise: FloatArray) -> Spread:
    """The spread of numbers with these expectations, from the squares of their noisy differences.

    Weighted least squares of `square - noise` on m and m^2, neither coefficient below that of random parts; weights are
    one over the squared variance of a difference, and follow the spread for a few rounds.

    Args:
        expectation: m, above 0, `(k,)`.
        square: of (noisy - m), `(k,)`.
        noise: variance of the noise, `(k,)`.
    """
    spread = Spread(1.0, 0.0)
    excess = square - noise - expectation
    for _ in range(_ROUNDS if len(expectation) else 0):
        weight = 1.0 / (noise + spread.variance(expectation)) ** 2
        powers = [float((weight * expectation**power).sum()) for power in (2, 3, 4)]
        right = [float((weight * expectation**power * excess).sum()) for power in (1, 2)]
        spread = _solved(powers, right)
    return spread


def _solved(powers: list[float], right: list[float]) -> Spread:
    """The coefficients, non-negative ones of what is beyond random parts."""
    second, third, fourth = powers
    determinant = second * fourth - third**2
    if determinant > 1e-12 * second * fourth:
        one = (right[0] * fourth - right[1] * third) / determinant
        two = (right[1] * second - right[0] * third) / determinant
        if one >= 0 and two >= 0:
            return Spread(1.0 + one, two)
    # On one side of the quadrant, the one that explains more.
    one, two = max(right[0] / second, 0.0), max(right[1] / fourth, 0.0)
    return Spread(1.0 + one, 0.0) if one * right[0] >= two * right[1] else Spread(1.0, two)
