"""What is known of each mechanism: its distribution or its loss, its cost, how far out it goes; and their list.

The formulas are those that docs/privacy.md names; nothing is taken from the program that draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from auditor.reading.values import FloatArray

#: Numbers beyond which no distribution is tabulated; the program draws no noise that needs more.
_FARTHEST: Final = 4_000_000


@dataclass(frozen=True)
class Law:
    """Noise with P(k) in proportion to exp(-distance(k) / (unit scale)).

    Attributes:
        distance: of numbers and arrays alike; `unit`: see above.
        rho, epsilon: by the scale, where one number moves by one; ValueError where there is none.
        spread: the variance of continuous noise with a scale.
        quantile: the number that continuous noise with a scale exceeds with a probability below 1/2.
    """

    distance: Callable[[Any], Any]
    unit: int
    rho: Callable[[Fraction], Fraction]
    epsilon: Callable[[Fraction], Fraction]
    spread: Callable[[float], float]
    quantile: Callable[[float, float], float]

    def chances(self, scale: float) -> FloatArray:
        """P(0), P(1), ... to float precision, up to a number that hardly any noise exceeds, once in 10^30."""
        return _chances(self, scale)

    def variance(self, scale: float) -> float:
        """Of the noise; a millionth of that of continuous noise at least."""
        chances = self.chances(scale)
        return max(2 * float(np.arange(len(chances)) ** 2 @ chances), 1e-6 * self.spread(scale))

    def half_width(self, scale: float) -> int:
        """The least whole h with noise from -h to h in 90 % or more."""
        chances = self.chances(scale)
        return int(np.searchsorted(2 * chances.cumsum() - chances[0], 0.9 - 1e-12))


@lru_cache(maxsize=8)
def _chances(law: Law, scale: float) -> FloatArray:
    numbers = np.arange(min(_FARTHEST, math.ceil(law.quantile(1e-30, scale)) + 2) + 1)
    weights = np.exp(-law.distance(numbers) / (law.unit * scale))
    return np.asarray(weights / (2 * weights.sum() - weights[0]))


def _no_epsilon(scale: Fraction) -> Fraction:
    raise ValueError(f"Gaussian noise of the scale {scale} has no epsilon")


_LAWS: Final = {
    "discrete_gaussian": Law(
        distance=lambda k: k * k,
        unit=2,
        rho=lambda scale: 1 / (2 * scale),
        epsilon=_no_epsilon,
        spread=lambda scale: scale,
        quantile=lambda tail, scale: -NormalDist().inv_cdf(tail) * math.sqrt(scale),
    ),
    "discrete_laplace": Law(
        distance=abs,
        unit=1,
        rho=lambda scale: 1 / (2 * scale**2),
        epsilon=lambda scale: 1 / scale,
        spread=lambda scale: 2 * scale * scale,
        quantile=lambda tail, scale: -scale * math.log(2 * tail),
    ),
}
#: What the budget buys, whether it is rho or not.
NOISE: Final = {True: "discrete_gaussian", False: "discrete_laplace"}
#: Mechanisms that choose with an epsilon: its square by this is their rho. Choices of the first have a loss within a
#: range of epsilon; of the second it is known only that it is epsilon at most.
CHOICES: Final = {"exponential": 8, "permute_and_flip": 2}


def law_of(name: str) -> Law:
    """The noise of that name; ValueError where there is none."""
    if name not in _LAWS:
        raise ValueError(f"there is no noise {name!r:.60}")
    return _LAWS[name]
