"""Discrete Laplace (geometric) noise: P(k) proportional to exp(-|k| / b).

Ghosh, Roughgarden and Sundararajan 2012 (doi 10.1137/09076828X). The scale is b, persons.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pipeline.privacy.noise.mechanism import GUARD_BITS, VARIANCE_FLOOR, Losses, NoiseSpec, Tails
from pipeline.privacy.noise.streams import divide, exp_minus, multiply


@dataclass(frozen=True)
class DiscreteLaplace(NoiseSpec):
    """See the head of this file. A sampler tabulates about 44 b outcomes on either side of zero.

    >>> round(DiscreteLaplace(Fraction(1, 2)).variance, 6)
    0.362031
    """

    mechanism = "discrete_laplace"
    called = "discrete laplace"
    symbol = "b"
    least = Fraction(1, 10**50)
    largest = Fraction(20_000)
    unit = 1
    mean_part = Fraction(1, 2)
    audited = ("1/2", "1", "7", "70", "7000")
    audited_quickly = ("1", "70")

    def rho(self, moved: int) -> Fraction:
        """rho = m / (2 b^2).

        An epsilon-private mechanism is epsilon^2 / 2-zCDP (Bun and Steinke 2016, arXiv 1605.02065, proposition 1.4),
        here m of 1 / b each.
        """
        return moved / (2 * self.scale**2)

    def epsilon(self, moved: int) -> Fraction:
        """epsilon = m / b, m the L1 sensitivity (Ghosh and others 2012, definition 2.1 and theorem 2.2)."""
        return moved / self.scale

    @classmethod
    def scale_for(cls, cost: Fraction, moved: int, reach: Fraction | int = 1) -> Fraction:
        """b = s / epsilon, s = m R the L1 sensitivity."""
        return moved * reach / cost

    @staticmethod
    def distance(k: Any) -> Any:
        """|k|."""
        return abs(k)

    def tails(self, depth: int) -> Tails:
        """T(k) = a^k / (1 + a) with a = exp(-1 / b)."""
        bits = depth + GUARD_BITS
        one = 1 << bits
        ratio = exp_minus(1 / self.scale, bits)
        tail = divide((one, one), (one + ratio[0], one + ratio[1]), bits)
        lower, upper = [tail[0]], [tail[1]]
        while tail[1] >> GUARD_BITS:
            tail = multiply(tail, ratio, bits)
            lower.append(tail[0])
            upper.append(tail[1])
        return Tails(bits, lower, upper)

    @property
    def variance(self) -> float:
        """1 / (cosh(1/b) - 1) = 1 / (2 sinh^2(1 / (2b))); the floor acts below b = 0.051."""
        b = float(self.scale)
        found = 0.5 / math.sinh(0.5 / b) ** 2 if b >= 2e-3 else 0.0  # below, exp(-1 / b) < 1e-217
        return max(found, VARIANCE_FLOOR * 2.0 * b * b, sys.float_info.min)

    @property
    def continuous_variance(self) -> Fraction:
        """2 b^2."""
        return 2 * self.scale**2

    def half_width(self, share: float = 0.9) -> int:
        """By P(|X| > h) = 2 a^(h + 1) / (1 + a), a = exp(-1 / b)."""
        scale = float(self.scale)
        ratio = math.exp(-1 / scale)
        return max(0, math.ceil(-scale * math.log((1 - share) * (1 + ratio) / 2) - 1 - 1e-9))

    @staticmethod
    def farthest(numbers: int, share: float) -> float:
        """Far out, where few are, the tail of a sum is no heavier than that of one with all of the variance.

        >>> round(DiscreteLaplace.farthest(1, 0.1), 3)
        1.628
        """
        return -math.log(share / max(1, numbers)) / math.sqrt(2)

    def privacy_losses(self, step: float) -> Losses:
        """Those of dp-accounting."""
        from dp_accounting.pld import privacy_loss_distribution as losses

        parameter = math.nextafter(float(1 / self.scale), math.inf)
        return Losses.of(
            losses.from_discrete_laplace_mechanism(parameter, value_discretization_interval=step, use_connect_dots=True)
        )
