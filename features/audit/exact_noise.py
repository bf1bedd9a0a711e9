"""The two noise distributions from their definitions, and a slow sampler of them that shares nothing with the fast one.

discrete Gaussian: P(k) proportional to exp(-k^2 / (2 sigma^2));   discrete Laplace: proportional to exp(-|k| / b)
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from pipeline.privacy.budget import NoiseSpec

__all__ = ["exact_tails", "probabilities", "reach_of", "reference_draws", "rescaled"]

#: Uniform whole numbers from 0 to below the argument.
Uniform = Callable[[int], int]

_DIGITS = 110
_NOTHING = Decimal("1e-105")


def rescaled(spec: NoiseSpec, factor: Fraction) -> NoiseSpec:
    """The same noise with about `factor` times the standard deviation."""
    return NoiseSpec(spec.mechanism, spec.scale * (factor**2 if spec.mechanism == "discrete_gaussian" else factor))


def reach_of(spec: NoiseSpec) -> int:
    """An outcome that noise exceeds with a probability below 1e-19."""
    scale = float(spec.scale)
    return int(12 * scale**0.5 if spec.mechanism == "discrete_gaussian" else 45 * scale) + 1


def probabilities(spec: NoiseSpec, largest: int) -> NDArray[np.float64]:
    """P(X = k) for |k| <= largest, `(2 * largest + 1,)`, to the precision of floats."""
    k = np.arange(-largest, largest + 1, dtype=np.float64)
    scale = float(spec.scale)
    weights = np.exp(-(k**2) / (2 * scale)) if spec.mechanism == "discrete_gaussian" else np.exp(-np.abs(k) / scale)
    return weights / weights.sum()


def exact_tails(spec: NoiseSpec) -> list[Decimal]:
    """P(X >= k) for k = 0, 1, ... until it is below 1e-100, with 100 digits, one exponential a term."""
    with localcontext(Context(prec=_DIGITS)):
        scale = Decimal(spec.scale.numerator) / Decimal(spec.scale.denominator)
        gaussian = spec.mechanism == "discrete_gaussian"
        weights: list[Decimal] = []
        while not weights or weights[-1] > _NOTHING:
            k = Decimal(len(weights))
            weights.append((-(k * k) / (2 * scale) if gaussian else -k / scale).exp())
        total = 2 * sum(weights) - 1
        tails = [Decimal(0)]
        for weight in reversed(weights):
            tails.append(tails[-1] + weight / total)
        return tails[:0:-1]


def reference_draws(spec: NoiseSpec, count: int, uniform: Uniform) -> NDArray[np.int64]:
    """`(count,)` draws by rejection, exact in whole numbers: Canonne, Kamath and Steinke 2020, algorithms 1 to 3.

    Args:
        spec: the mechanism and its scale.
        count: number of draws.
        uniform: gives a uniform whole number from 0 to below its argument.
    """
    if spec.mechanism == "discrete_laplace":
        return np.array([_laplace(spec.scale, uniform) for _ in range(count)], dtype=np.int64)
    return np.array([_gaussian(spec.scale, uniform) for _ in range(count)], dtype=np.int64)


def _gaussian(sigma2: Fraction, uniform: Uniform) -> int:
    """Algorithm 3."""
    t = isqrt(sigma2.numerator // sigma2.denominator) + 1
    while True:
        y = _laplace(Fraction(t), uniform)
        if _bernoulli_exp((abs(y) - sigma2 / t) ** 2 / (2 * sigma2), uniform):
            return y


def _laplace(b: Fraction, uniform: Uniform) -> int:
    """Algorithm 2, with t the numerator and s the denominator of b."""
    s, t = b.denominator, b.numerator
    while True:
        u = uniform(t)
        if not _bernoulli_exp(Fraction(u, t), uniform):
            continue
        v = 0
        while _bernoulli_exp(Fraction(1), uniform):
            v += 1
        magnitude = (u + t * v) // s
        negative = uniform(2) == 1
        if not (negative and magnitude == 0):
            return -magnitude if negative else magnitude


def _bernoulli_exp(gamma: Fraction, uniform: Uniform) -> bool:
    """True with probability exp(-gamma): algorithm 1."""
    while gamma > 1:
        if not _bernoulli_exp(Fraction(1), uniform):
            return False
        gamma -= 1
    k = 1
    while uniform(gamma.denominator * k) < gamma.numerator:
        k += 1
    return k % 2 == 1
