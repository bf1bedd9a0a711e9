"""How the noise of a series is correlated over its periods: a lower triangular matrix of whole numbers.

What is published of an answer in period t is y_t = sum over s <= t of L_ts x_s, plus the noise z_t; L = 64 A, its
numbers divided by what they have in common. Solved for x, period by period, that is the truth plus noise with the
covariance sigma^2 G^-1 over the periods, G = L'L. With L = I years are independent; with T = 1 it is a usual release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Final

import numpy as np

from features.years.loss import Reach, reach
from geography.errors import InputError
from pipeline.privacy.budget import Neighbours, NoiseSpec
from postprocess.arrays import FloatArray, IntArray

__all__ = ["DENOMINATOR", "STATED_SPELLS", "Design", "independent", "triangular"]

#: A is in parts of so many.
DENOMINATOR: Final = 64
#: The first number of A. The scale does not matter to the noise of a period, and a larger one rounds A less.
FIRST: Final = 4
#: Spells of the people that the statement names, besides those who are in another answer in every period.
STATED_SPELLS: Final = (1, 2, 3, 5)


@dataclass(frozen=True)
class Design:
    """The mixing of a series.

    Attributes:
        rows: L, row t has its t + 1 numbers up to the diagonal, which are whole; those on it are above 0.
        spells: K, at most so many spells cost no more than the budget.
        neighbours: of the series.

    Raises:
        InputError: the rows are no such matrix, or there are no spells.

    >>> Design(((1,),), 1, "change-one").noise(Fraction(1, 2)).scale  # as a single release
    Fraction(2, 1)
    """

    rows: tuple[tuple[int, ...], ...]
    spells: int
    neighbours: Neighbours

    def __post_init__(self) -> None:
        if not self.rows or any(len(row) != number for number, row in enumerate(self.rows, 1)):
            raise InputError(f"design of a series: found rows of {[len(row) for row in self.rows]} numbers; 1, 2 ... T")
        for number, row in enumerate(self.rows, 1):
            if row[-1] < 1:
                raise InputError(f"design of a series: found {row[-1]} on the diagonal of period {number}; at least 1")
        if self.spells < 1:
            raise InputError(f"spells of a series: found {self.spells}; at least 1 is needed")

    @property
    def periods(self) -> int:
        """T, the horizon."""
        return len(self.rows)

    @cached_property
    def matrix(self) -> IntArray:
        """L, `(T, T)` int64."""
        out = np.zeros((self.periods, self.periods), dtype=np.int64)
        for number, row in enumerate(self.rows):
            out[number, : number + 1] = row
        out.setflags(write=False)
        return out

    @cached_property
    def gram(self) -> IntArray:
        """G = L'L, `(T, T)` int64."""
        return self.matrix.T @ self.matrix

    @cached_property
    def reach(self) -> Reach:
        """How far neighbours with at most `spells` spells are apart, see `loss`."""
        return reach(self.gram, self.spells, self.neighbours)

    @cached_property
    def inverse(self) -> FloatArray:
        """L^-1, `(T, T)`."""
        return np.linalg.inv(self.matrix.astype(np.float64))

    @cached_property
    def covariance(self) -> FloatArray:
        """G^-1, `(T, T)`: of the noise on an answer over the periods, for noise z of variance 1."""
        return self.inverse @ self.inverse.T

    def noise(self, rho: Fraction) -> NoiseSpec:
        """The distribution of each z, so that the whole series costs neighbours at most rho.

        Raises:
            InputError: the noise is too large to be drawn.
        """
        if rho <= 0:
            raise InputError(f"budget of a series: found rho = {rho}; it must be above 0")
        return NoiseSpec("discrete_gaussian", Fraction(self.reach.value) / (2 * rho))

    def costs(self) -> Mapping[int, Reach]:
        """Spells -> what a person with so many costs at most, as a part of the budget."""
        whole = Fraction(self.reach.value)
        numbers = sorted({k for k in (*STATED_SPELLS, self.spells, self.periods) if k <= self.periods})
        found = {k: self.reach if k == self.spells else reach(self.gram, k, self.neighbours) for k in numbers}
        return MappingProxyType({k: Reach(Fraction(one.value) / whole, one.exact) for k, one in found.items()})

    def errors(self, rho: Fraction) -> tuple[float, float]:
        """Root mean square standard errors of an answer in a period, and of its change from one to the next."""
        covariance = self.noise(rho).variance * self.covariance
        variances = np.diag(covariance)
        changes = variances[1:] + variances[:-1] - 2 * np.diag(covariance, 1)
        return math.sqrt(variances.mean()), math.sqrt(changes.mean()) if len(changes) else 0.0


def independent(periods: int, spells: int, neighbours: Neighbours) -> Design:
    """Each period has noise of its own; the cost does not depend on spells."""
    return Design(tuple((0,) * number + (1,) for number in range(periods)), spells, neighbours)


def triangular(matrix: FloatArray, spells: int, neighbours: Neighbours) -> Design:
    """The design nearest to a lower triangular matrix `(T, T)`, scaled to `FIRST` in its first place.

    Raises:
        InputError: a number on the diagonal is too small beside the first.
    """
    whole = np.rint(matrix * (DENOMINATOR * FIRST / matrix[0, 0])).astype(np.int64)
    common = int(np.gcd.reduce(whole[np.tril_indices(len(whole))]))
    rows = tuple(tuple((row[: number + 1] // common).tolist()) for number, row in enumerate(whole))
    return Design(rows, spells, neighbours)
