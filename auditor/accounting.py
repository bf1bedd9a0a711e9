"""What a budget means, computed a second time: epsilon from rho, and from the distribution of the privacy loss.

The formulas are those that docs/privacy.md names; nothing is taken from the program that states them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Final

import numpy as np

from auditor.mechanisms import CHOICES, law_of
from auditor.reading.values import FloatArray, as_decimal, exact_sum

_POINTS: Final = 1 << 19
_LEAST_DELTA: Final = Fraction(1, 10**12)
_MOST_RHO: Final = 50
_WIDEST: Final = 10**8

#: Mechanism, scale, and how many numbers move by one.
Use = tuple[str, Fraction, int]


def zcdp_epsilon(rho: Fraction, delta: Fraction) -> Decimal:
    """The least over alpha of alpha rho + (ln(1/delta) + (alpha - 1) ln(1 - 1/alpha) - ln alpha) / (alpha - 1).

    Canonne, Kamath and Steinke 2020, proposition 12: each alpha gives an epsilon that holds.
    """
    if rho == 0:
        return Decimal(0)
    surprise, r = math.log(delta.denominator) - math.log(delta.numerator), float(rho)

    def near(t: float) -> float:
        a = math.exp(t)
        return (1 + a) * r + (surprise + a * (t - math.log1p(a)) - math.log1p(a)) / a

    middle = (math.log(surprise) - math.log(r)) / 2
    low, high = middle - 15, middle + 15
    for _ in range(300):
        third = (high - low) / 3
        low, high = (low, high - third) if near(low + third) < near(high - third) else (low + third, high)
    with localcontext(Context(prec=60)):
        less = Decimal((low + high) / 2).exp()
        order = 1 + less
        return order * as_decimal(rho) + (-as_decimal(delta).ln() + less * (less / order).ln() - order.ln()) / less


def cost_of(use: Use, *, zcdp: bool) -> Fraction:
    """The cost of a mechanism in rho, or in epsilon; ValueError of one that has no epsilon."""
    name, scale, moved = use
    if name in CHOICES:
        return moved * (scale**2 / CHOICES[name] if zcdp else scale)
    law = law_of(name)
    return moved * (law.rho(scale) if zcdp else law.epsilon(scale))


def losses_epsilon(uses: Sequence[Use], delta: Fraction) -> tuple[float, float] | None:
    """Between which numbers the true epsilon of all the uses together lies, at this delta; None where not computed.

    The losses ln(P(k) / Q(k)) of each number that moves by one are put on a grid, rounded down, and their distributions
    convolved by Fourier transform. Each loss is below its grid point plus a step, so the sum of n of them is below the
    sum found plus n steps. Of a mechanism that chooses 0 is the lower, its own epsilon the upper end.
    """
    rho = exact_sum(cost_of(use, zcdp=True) for use in uses)
    noisy = [use for use in uses if use[0] not in CHOICES]
    if rho == 0 or delta < _LEAST_DELTA or rho > _MOST_RHO or any(scale > _WIDEST for _, scale, _ in uses):
        return None
    added = math.fsum(float(scale) * moved for name, scale, moved in uses if name in CHOICES)
    loss, mass, step = loss_distribution(noisy, 2 * float(zcdp_epsilon(rho, delta)) + 30)
    positive = loss > 0
    loss, mass = loss[positive], mass[positive]
    # delta(e) = sum over L > e of p (1 - exp(e - L)), from the largest loss down.
    deltas = np.cumsum(mass) - np.exp(loss) * np.cumsum(mass * np.exp(-loss))
    enough = np.flatnonzero(deltas >= float(delta))
    low = float(loss[enough[0]]) if len(enough) else 0.0
    return max(low - step, 0.0), low + step * (sum(moved for *_, moved in noisy) + 1) + added


def loss_distribution(uses: Sequence[Use], reach: float) -> tuple[FloatArray, FloatArray, float]:
    """Losses from the largest to the smallest, their probabilities, and the step of the grid that they lie on."""
    step = 2 * reach / _POINTS
    spectrum = np.ones(_POINTS // 2 + 1, dtype=np.complex128)
    counts: Counter[tuple[str, Fraction]] = Counter()
    for name, scale, moved in uses:
        counts[name, scale] += moved
    for (name, scale), moved in counts.items():
        masses = np.zeros(_POINTS)
        losses, chances = _losses(name, float(scale))
        np.add.at(masses, np.floor(losses / step).astype(np.int64) % _POINTS, chances)
        spectrum *= np.fft.rfft(masses) ** moved
    found = np.maximum(np.fft.irfft(spectrum, _POINTS), 0)
    grid = np.fft.fftfreq(_POINTS, 1 / (_POINTS * step))
    order = np.argsort(grid)[::-1]
    return grid[order].astype(np.float64), found[order].astype(np.float64), step


def _losses(name: str, scale: float) -> tuple[FloatArray, FloatArray]:
    """Losses of one number moved by one, and their probabilities."""
    law = law_of(name)
    chances = law.chances(scale)
    k = np.arange(1 - len(chances), len(chances), dtype=np.float64)
    losses = (law.distance(k - 1) - law.distance(k)) / (law.unit * scale)
    return losses, np.concatenate([chances[:0:-1], chances])
