"""How well the outcomes of two neighbouring inputs can be distinguished, as claimed and as found.

The hockey-stick divergence of P from Q at epsilon is the largest P(S) - exp(epsilon) Q(S) over all sets S of outcomes:
the least delta for which the pair is (epsilon, delta)-private. A claim bounds it from above; runs bound it from below,
since any one set gives a lower bound (Jagielski, Ullman and Oprea 2020, arXiv 2006.07709).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.signal import fftconvolve

from features.audit.exact_noise import probabilities, reach_of
from pipeline.privacy.budget import NoiseSpec

__all__ = ["LowerBound", "claimed_delta", "divergence_bounds", "log_likelihood_ratio"]

_STEP = 1e-3  # of privacy losses, rounded up
_CHOOSING = 4  # every so many-th run chooses the score and the threshold
_CANDIDATES = 200  # thresholds tried


@dataclass(frozen=True)
class LowerBound:
    """At `epsilon`, delta is at least `delta`, but for the probability that was allowed for being wrong."""

    epsilon: float
    delta: float


def claimed_delta(uses: Sequence[tuple[NoiseSpec, int]], epsilons: Sequence[float]) -> list[float]:
    """The divergence at each epsilon of noise on numbers of which some move by one, slightly too large.

    Args:
        uses: each noise, and how many numbers with it move.
        epsilons: at which the divergence is computed.
    """
    losses: NDArray[np.float64] = np.array([1.0])
    start = 0
    for spec, moved in uses:
        single, least = _loss(spec)
        for _ in range(moved):
            losses, start = fftconvolve(losses, single), start + least
    values = (start + np.arange(losses.size)) * _STEP
    return [float((losses * -np.expm1(np.minimum(epsilon - values, 0.0))).sum()) for epsilon in epsilons]


def _loss(spec: NoiseSpec) -> tuple[NDArray[np.float64], int]:
    """Probabilities of the privacy losses of one number, and the first of these in steps; rare ones are left out."""
    reach = reach_of(spec)
    x, scale = np.arange(-reach, reach + 1), float(spec.scale)
    chances = probabilities(spec, reach)
    loss = (1 - 2 * x) / (2 * scale) if spec.mechanism == "discrete_gaussian" else (np.abs(x - 1) - np.abs(x)) / scale
    used = chances > 1e-15
    steps = np.ceil(loss[used] / _STEP - 1e-9).astype(np.int64)
    distribution: NDArray[np.float64] = np.bincount(steps - steps.min(), weights=chances[used]).astype(np.float64)
    return distribution, int(steps.min())


def log_likelihood_ratio(
    values: NDArray[np.int64], first: NDArray[np.int64], other: NDArray[np.int64], spec: NoiseSpec
) -> float:
    """The logarithm ln of how much likelier the noisy `values` are if the truth is `first` than if it is `other`."""
    scale = float(spec.scale)
    if spec.mechanism == "discrete_gaussian":
        return float(((values - other) ** 2 - (values - first) ** 2).sum() / (2 * scale))
    return float((np.abs(values - other) - np.abs(values - first)).sum() / scale)


def divergence_bounds(
    left: NDArray[np.float64], right: NDArray[np.float64], epsilons: Sequence[float], alpha: float
) -> list[LowerBound]:
    """Lower bounds on delta from the outcomes of runs, the larger of both directions.

    The sets are those of scores above a threshold. If the outcome is one number, it is the logarithm of the likelihood
    ratio, for which the threshold epsilon gives the best set there is. Otherwise a part of the runs chooses the score,
    by linear discriminant analysis, and the threshold, and the rest bounds. Limits are exact (Clopper-Pearson), and all
    bounds together are wrong with probability `alpha` at most.

    Args:
        left: `(runs, numbers)` outcomes of each run on one of the inputs.
        right: the same on the other.
        epsilons: at which delta is bounded.
        alpha: the probability, 0 to 1, that any of the bounds is wrong.
    """
    each = alpha / (4 * len(epsilons))  # two limits in each of two directions
    if left.shape[1] == 1:
        runs = left[:, 0], right[:, 0]
        both = (runs, (-runs[1], -runs[0]))
        deltas_of = [[_difference(pair, epsilon, epsilon, each) for pair in both] for epsilon in epsilons]
    else:
        choosing = left[::_CHOOSING], right[::_CHOOSING]
        weights = _discriminant(*choosing)
        first = (choosing[0] @ weights, choosing[1] @ weights)
        rest = [np.delete(scores, np.s_[::_CHOOSING], axis=0) @ weights for scores in (left, right)]
        chosen = (first, (-first[1], -first[0]))
        bounding = ((rest[0], rest[1]), (-rest[1], -rest[0]))
        deltas_of = [
            [
                _difference(last, _threshold(start, epsilon, each), epsilon, each)
                for start, last in zip(chosen, bounding, strict=True)
            ]
            for epsilon in epsilons
        ]
    return [LowerBound(epsilon, max(0.0, *deltas)) for epsilon, deltas in zip(epsilons, deltas_of, strict=True)]


def _discriminant(first: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """`(numbers,)` weights whose sum distinguishes the two best, were they normal with one covariance."""
    spread = np.cov(first, rowvar=False) + np.cov(other, rowvar=False)
    weights: NDArray[np.float64] = np.linalg.pinv(spread, rcond=1e-6) @ (first.mean(axis=0) - other.mean(axis=0))
    return weights


def _threshold(runs: tuple[NDArray[np.float64], NDArray[np.float64]], epsilon: float, alpha: float) -> float:
    candidates = np.unique(np.quantile(np.concatenate(runs), np.linspace(0, 1, _CANDIDATES)))
    return float(max(candidates, key=lambda t: _difference(runs, float(t), epsilon, alpha)))


def _difference(
    runs: tuple[NDArray[np.float64], NDArray[np.float64]], threshold: float, epsilon: float, alpha: float
) -> float:
    """Least P(score > t) - exp(epsilon) times the most Q(score > t)."""
    (hits, n), (false, m) = ((int((scores > threshold).sum()), scores.size) for scores in runs)
    least = float(stats.beta.ppf(alpha, hits, n - hits + 1)) if hits else 0.0
    most = float(stats.beta.ppf(1 - alpha, false + 1, m - false)) if false < m else 1.0
    return least - math.exp(epsilon) * most
