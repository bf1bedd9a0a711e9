"""What is known of each mechanism: its distribution or its loss, its cost, how far out it goes; and their list.

The formulas are those that docs/privacy.md names; nothing is taken from the program that draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any, Final


@dataclass(frozen=True)
class Law:
    """Noise with P(k) in proportion to exp(-distance(k) / (unit scale)).

    Attributes:
        distance: of numbers and arrays alike; `unit`: see above.
        rho, epsilon: by the scale, where one number moves by one; ValueError where there is none.
        variance: of the noise by its scale, and a millionth of that of continuous noise at least.
        half_width: the least whole h with noise from -h to h in 90 % or more, by the scale.
        tail: P(X >= k) of wide noise with a scale, k above 0.
        quantile: the number that continuous noise with a scale exceeds with a probability below 1/2.
    """

    distance: Callable[[Any], Any]
    unit: int
    rho: Callable[[Fraction], Fraction]
    epsilon: Callable[[Fraction], Fraction]
    variance: Callable[[float], float]
    half_width: Callable[[float], int]
    tail: Callable[[float, float], float]
    quantile: Callable[[float, float], float]

    def reach(self, scale: float) -> int:
        """A number that hardly any noise exceeds, once in 10^30."""
        return math.ceil(self.quantile(1e-30, scale)) + 2


def _no_epsilon(scale: Fraction) -> Fraction:
    raise ValueError(f"Gaussian noise of the scale {scale} has no epsilon")


def _gaussian_variance(scale: float) -> float:
    """By summation of the whole distribution."""
    if scale > 10**4:
        return scale
    weights = [(k * k, math.exp(-k * k / (2 * scale))) for k in range(1, int(40 * math.sqrt(scale)) + 2)]
    return max(2 * math.fsum(k * w for k, w in weights) / (1 + 2 * math.fsum(w for _, w in weights)), 1e-6 * scale)


def _gaussian_half_width(scale: float) -> int:
    if scale >= 10**4:
        return math.ceil(1.6448536269514722 * math.sqrt(scale) - 0.5)
    weights = [math.exp(-k * k / (2 * scale)) for k in range(1, int(12 * math.sqrt(scale)) + 3)]
    inside, half = 1.0, 0
    while inside < 0.9 * (1 + 2 * math.fsum(weights)):
        inside, half = inside + 2 * weights[half], half + 1
    return half


def _laplace_half_width(scale: float) -> int:
    ratio, half = math.exp(-1 / scale), max(0, int(scale * 2.2) - 5)
    while 2 * ratio ** (half + 1) / (1 + ratio) > 0.1 + 1e-12:
        half += 1
    return half


_LAWS: Final = {
    "discrete_gaussian": Law(
        distance=lambda k: k * k,
        unit=2,
        rho=lambda scale: 1 / (2 * scale),
        epsilon=_no_epsilon,
        variance=_gaussian_variance,
        half_width=_gaussian_half_width,
        tail=lambda k, scale: math.erfc((k - 0.5) / math.sqrt(2 * scale)) / 2,
        quantile=lambda tail, scale: -NormalDist().inv_cdf(tail) * math.sqrt(scale),
    ),
    "discrete_laplace": Law(
        distance=abs,
        unit=1,
        rho=lambda scale: 1 / (2 * scale**2),
        epsilon=lambda scale: 1 / scale,
        variance=lambda scale: max(0.5 / math.sinh(0.5 / scale) ** 2 if scale > 2e-3 else 0.0, 2e-6 * scale * scale),
        half_width=_laplace_half_width,
        tail=lambda k, scale: math.exp(-k / scale) / (1 + math.exp(-1 / scale)),
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
