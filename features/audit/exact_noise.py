"""Noise distributions from their definitions (`NoiseSpec.distance`), and what was added to true answers against them.

A residual's place in its distribution, drawn uniformly within its
probability, is a uniform number, whatever the scale; its normal quantile z is standard normal. So residuals of all
measurements can be tested together, and exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal, localcontext
from itertools import combinations

import numpy as np
from scipy import special, stats

from pipeline.privacy.noise.mechanism import NoiseSpec
from postprocess.arrays import FloatArray, IntArray

_DIGITS = 110
_NOTHING = Decimal("1e-105")


def reach_of(spec: NoiseSpec) -> int:
    """An outcome that noise exceeds with a probability below 1e-19."""
    return int(spec.farthest(1, 1e-30) * math.sqrt(spec.continuous_variance)) + 1


def probabilities(spec: NoiseSpec, largest: int) -> FloatArray:
    """P(X = k) for |k| <= largest, `(2 * largest + 1,)`, to the precision of floats."""
    k = np.arange(-largest, largest + 1, dtype=np.float64)
    weights = np.exp(-spec.distance(k) / float(spec.unit * spec.scale))
    return weights / weights.sum()


def exact_tails(spec: NoiseSpec) -> list[Decimal]:
    """P(X >= k) for k = 0, 1, ... until it is below 1e-100, with 100 digits, one exponential a term."""
    with localcontext(Context(prec=_DIGITS)):
        unit = spec.unit * Decimal(spec.scale.numerator) / Decimal(spec.scale.denominator)
        weights: list[Decimal] = []
        while not weights or weights[-1] > _NOTHING:
            weights.append((-spec.distance(Decimal(len(weights))) / unit).exp())
        total = 2 * sum(weights) - 1
        tails = [Decimal(0)]
        for weight in reversed(weights):
            tails.append(tails[-1] + weight / total)
        return tails[:0:-1]


_LONGEST = 1 << 16  # of a stream, in the search for overlaps
_SHORTEST = 50


def normal_scores(residuals: IntArray, spec: NoiseSpec, seed: int) -> FloatArray:
    """`(n,)` standard normal numbers for residuals `(n,)` of this noise; beyond its reach they are huge.

    Args:
        residuals: noisy answers minus true ones, persons.
        spec: the noise that they should have.
        seed: of the places within each probability; another for each measurement.
    """
    reach = reach_of(spec)
    chances = probabilities(spec, reach)
    tail = np.concatenate([[0.0], np.cumsum(chances)])[:-1]  # P(X < k), precise on the lower side
    magnitude = np.minimum(np.abs(residuals), reach)
    index = reach - magnitude
    # By symmetry from the lower side, whose small probabilities are precise, and turned over for residuals above 0.
    place = tail[index] + np.random.default_rng(seed).random(residuals.size) * chances[index]
    scores = special.ndtri(np.clip(place, 1e-300, 1 - 1e-16))
    return np.where(residuals > 0, -scores, scores)


def spread_p_value(scores: FloatArray) -> float:
    """Two-sided chi-square test that the scores' spread is 1."""
    total = float((scores**2).sum())
    return float(min(1.0, 2 * min(stats.chi2.sf(total, scores.size), stats.chi2.cdf(total, scores.size))))


def zeros_p_value(residuals: IntArray, spec: NoiseSpec) -> float:
    """Exact binomial test of how many residuals are 0; it notices a wrong scale below 1, where scores hardly do."""
    chance = float(probabilities(spec, reach_of(spec)).max())
    return float(stats.binomtest(int((residuals == 0).sum()), residuals.size, min(chance, 1.0)).pvalue)


def together_p_value(scores: Sequence[FloatArray]) -> float:
    """Kolmogorov-Smirnov test that all scores are standard normal."""
    return float(stats.kstest(np.concatenate(scores), "norm").pvalue)


def overlap_p_value(scores: Mapping[str, FloatArray]) -> tuple[float, str]:
    """Whether any two measurements share noise at any shift, or one repeats its own; the p value and which two.

    By the largest correlation over all shifts, with the number of comparisons allowed for.
    """
    used = {name: z[:_LONGEST] for name, z in scores.items() if z.size >= _SHORTEST}
    pairs = [*combinations(used, 2), *((name, name) for name in used)]
    if not pairs:
        return 1.0, ""
    results = [(*_shifted(used[a], used[b], same=a == b), f"{a} and {b}" if a != b else a) for a, b in pairs]
    tried = sum(count for _, count, _ in results)
    p_value, _, pair = min(results)
    return min(1.0, p_value * tried), pair


def _shifted(left: FloatArray, right: FloatArray, *, same: bool) -> tuple[float, int]:
    """The smallest p value of a correlation of `left` with a shifted `right`, and how many shifts there were.

    The correlation r of n pairs of independent standard normal numbers, about a mean of 0, has
    r (n - 1)^0.5 / (1 - r^2)^0.5 distributed as Student's t of n - 1 degrees of freedom.
    """
    length = 1 << (left.size + right.size - 1).bit_length()
    products = np.fft.irfft(np.fft.rfft(left, length) * np.conj(np.fft.rfft(right, length)), length)
    shifts = np.arange(1 if same else _SHORTEST - right.size, left.size - _SHORTEST + 1)
    if not shifts.size:
        return 1.0, 0
    # Shifted by s, one[max(0, s) : ...] stands beside two[max(0, -s) : ...].
    first, second = np.maximum(0, shifts), np.maximum(0, -shifts)
    pairs = np.minimum(left.size - first, right.size - second)
    squares = [np.concatenate([[0.0], np.cumsum(z**2)]) for z in (left, right)]
    norms = np.sqrt((squares[0][first + pairs] - squares[0][first]) * (squares[1][second + pairs] - squares[1][second]))
    r = np.clip(products[shifts % length] / norms, -1 + 1e-12, 1 - 1e-12)
    t = np.abs(r) * np.sqrt(pairs - 1) / np.sqrt(1 - r**2)
    return float((2 * stats.t.sf(t, pairs - 1)).min()), int(shifts.size)
