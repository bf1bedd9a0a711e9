"""Discrete Gaussian noise: P(k) proportional to exp(-k^2 / (2 sigma^2)).

Canonne, Kamath and Steinke 2020 (arXiv 2004.00010), definition 1. The scale is sigma^2, persons squared.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from pipeline.privacy.noise.mechanism import GUARD_BITS, VARIANCE_FLOOR, Losses, NoiseSpec, Tails
from pipeline.privacy.noise.streams import divide, exp_minus, multiply

_LIMIT: Final = 10.0  # from this sigma^2 on, the variance equals sigma^2 to float precision
_WIDE: Final = 1e4  # from this sigma^2 on, sums and the normal distribution agree to a hundredth of a person
_NEGLIGIBLE_BITS: Final = 32  # a weight of at most 2^32 units is left to the bound on the tail
_LARGEST_COUNTED: Final = 10**8  # sigma^2 above which sums over the outcomes take seconds and lose digits


@dataclass(frozen=True)
class DiscreteGaussian(NoiseSpec):
    """See the head of this file. A sampler tabulates about 9 sigma outcomes on either side of zero."""

    mechanism = "discrete_gaussian"
    called = "discrete gaussian"
    symbol = "sigma^2"
    least = Fraction(1, 10**100)
    largest = Fraction(10**10)
    unit = 2
    mean_part = Fraction(6366, 10_000)  # 2 / pi
    audited = ("1/4", "1", "19/10", "100", "10000", "1000000", "100000000")
    audited_quickly = ("1/4", "19/10", "10000")

    def rho(self, moved: int) -> Fraction:
        """rho = m / (2 sigma^2), m the squared L2 sensitivity.

        Canonne, Kamath and Steinke 2020: theorem 4 for one number, theorem 14 for several; zCDP adds up, Bun and
        Steinke 2016, arXiv 1605.02065, lemma 1.7.
        """
        return moved / (2 * self.scale)

    @classmethod
    def scale_for(cls, cost: Fraction, moved: int, reach: Fraction | int = 1) -> Fraction:
        """sigma^2 = D / (2 rho), D = m R^2 the squared L2 sensitivity."""
        return moved * Fraction(reach) ** 2 / (2 * cost)

    @staticmethod
    def distance(k: Any) -> Any:
        """k^2."""
        return k * k

    def tails(self, depth: int) -> Tails:
        """T(k) = S(k) / (S(0) + S(1)), S(k) the sum over j >= k of w(j) = exp(-j^2 / (2 sigma^2)).

        w(j + 1) = w(j) r(j) and r(j + 1) = r(j) g, with r(0) = exp(-1 / (2 sigma^2)) and g = exp(-1 / sigma^2). Since r
        falls, the weights from J on sum to at most w(J) / (1 - r(J)).
        """
        bits = depth + GUARD_BITS
        one = 1 << bits
        ratio, step = exp_minus(1 / (2 * self.scale), bits), exp_minus(1 / self.scale, bits)
        weight = (one, one)
        lower: list[int] = []
        upper: list[int] = []
        while weight[1] >> _NEGLIGIBLE_BITS:
            lower.append(weight[0])
            upper.append(weight[1])
            weight = multiply(weight, ratio, bits)
            ratio = multiply(ratio, step, bits)
        lower.append(weight[0])
        upper.append(divide(weight, (one - ratio[1], one), bits)[1])
        for k in range(len(lower) - 2, -1, -1):
            lower[k] += lower[k + 1]
            upper[k] += upper[k + 1]
        total = (lower[0] + lower[1], upper[0] + upper[1])
        for k in range(len(lower)):
            lower[k], upper[k] = divide((lower[k], upper[k]), total, bits)
        return Tails(bits, lower, upper)

    @property
    def variance(self) -> float:
        """By summation, and sigma^2 where the difference (below 80 sigma^2 exp(-19 sigma^2)) is beyond a float.

        The floor acts below sigma^2 = 0.028.
        """
        sigma2 = float(self.scale)
        if sigma2 >= _LIMIT:
            return sigma2
        found = 0.0
        if sigma2 >= 1e-3:  # below, exp(-1 / (2 sigma^2)) < 1e-217
            outcomes = range(1, math.ceil(40 * math.sqrt(sigma2)) + 2)  # 40 sigma: exp(-800) is 0 beside anything
            weights = [math.exp(-k * k / (2 * sigma2)) for k in outcomes]
            squares = math.fsum(k * k * w for k, w in zip(outcomes, weights, strict=True))
            found = 2 * squares / (1 + 2 * math.fsum(weights))
        return max(found, VARIANCE_FLOOR * sigma2, sys.float_info.min)

    @property
    def continuous_variance(self) -> Fraction:
        """sigma^2."""
        return self.scale

    def half_width(self, share: float = 0.9) -> int:
        """By summation; of wide noise that of the normal distribution."""
        scale = float(self.scale)
        if scale >= _WIDE:
            return math.ceil(NormalDist().inv_cdf((1 + share) / 2) * math.sqrt(scale) - 0.5)
        last = math.ceil(12 * math.sqrt(scale)) + 2
        weights = [math.exp(-k * k / (2 * scale)) for k in range(last)]
        total, inside, half = 2 * math.fsum(weights) - 1, 1.0, 0
        while inside < share * total:
            half += 1
            inside += 2 * weights[half]
        return half

    @staticmethod
    def farthest(numbers: int, share: float) -> float:
        """Of the normal distribution (Bonferroni).

        >>> round(DiscreteGaussian.farthest(1, 0.1), 3)
        1.645
        """
        return -NormalDist().inv_cdf(share / (2 * max(1, numbers)))

    def privacy_losses(self, step: float) -> Losses | None:
        """See `gaussian_losses`."""
        if self.scale > _LARGEST_COUNTED:
            return None
        # A smaller sigma has the larger loss.
        return gaussian_losses(math.nextafter(math.sqrt(self.scale), 0.0), step)


def gaussian_losses(sigma: float, step: float) -> Losses:
    """The losses of discrete Gaussian noise where one number moves by one, discretised so that no delta is too small.

    "Connect the dots" (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, arXiv 2207.04380, Algorithm 1): on the
    grid's points next to each loss the masses are such that delta is the true one there, and between them the chord of
    the true one. Computed as dp-accounting does, to the last bit; to load that takes longer than a small release.

    Args:
        sigma: of the noise.
        step: of the grid.
    """
    bound = math.ceil(11.6 * sigma)  # at most 1e-30 of the noise is beyond it (Canonne, Kamath and Steinke 2020)
    noise = np.arange(-bound, bound + 1)
    # From -bound - 1 on, where nothing is.
    log_upto = np.logaddexp.accumulate(np.append(-np.inf, -0.5 * noise**2 / sigma**2))
    log_upto -= log_upto[-1]
    upto = np.exp(log_upto)
    # The loss at noise x is -(x + 1/2) / sigma^2, infinite at -bound - 1, where the neighbour has no noise.
    exact = (-0.5 - np.arange(bound - 1, -bound - 1, -1)) / sigma**2 / step
    places = np.unique(np.concatenate([np.floor(exact), np.ceil(exact)])).astype(np.int64)
    epsilons = places * step
    last = np.floor(np.clip(-0.5 - epsilons * sigma**2, -bound - 1, bound - 1)).astype(np.int64) + bound + 1
    deltas = np.clip(upto[last + 1] - np.exp(epsilons + log_upto[last]), 0, 1)
    deltas = np.minimum.accumulate(deltas)
    rises, gaps = np.diff(deltas), np.diff(places) * step
    from_below = np.append(1 - deltas[0], rises / np.expm1(-gaps))
    masses = np.zeros(int(places[-1] - places[0]) + 1)
    masses[places - places[0]] = np.maximum(0, from_below + np.append(rises / np.expm1(gaps), 0.0))
    return Losses(int(places[0]), masses, float(deltas[-1]))
