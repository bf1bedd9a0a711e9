"""Tests of draws against a distribution; each gives a p value and is shown to notice a scale that is 5 % off."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from features.audit.exact_noise import probabilities, reach_of
from pipeline.privacy.budget import NoiseSpec

__all__ = ["TESTS", "Counted", "agreement", "pooled_pearson", "symmetry"]

_POOLED = 100.0  # least expected count of a class of the chi-square test
_SLOPE_POOLED = 1000.0  # of the regression of logarithms, whose bias is 1 / (2 expected)
_TAIL = 1e-3  # probability of what counts as the tails


class Counted:
    """Draws, counted by outcome, beside the expected numbers.

    Attributes:
        outcomes: `(m,)`, from -largest to largest.
        observed: `(m,)`, how often each was drawn.
        chances: `(m,)`, its probability.
    """

    def __init__(self, draws: NDArray[np.int64], spec: NoiseSpec) -> None:
        largest = max(reach_of(spec), int(np.abs(draws).max(initial=0))) + 1
        self.spec = spec
        self.size = draws.size
        self.outcomes = np.arange(-largest, largest + 1)
        self.observed = np.bincount(draws + largest, minlength=2 * largest + 1)
        self.chances = probabilities(spec, largest)

    def classes(self, least: float) -> NDArray[np.int64]:
        """`(m,)` number of each outcome's class: runs of outcomes, each expected about `least` times or more."""
        expected = self.chances * self.size
        before = np.cumsum(expected) - expected
        group = (np.minimum(before, self.size - before - expected) // least).astype(np.int64)
        # Rising from tail to tail: the two sides are not pooled with one another.
        return np.where(self.outcomes < 0, group, 2 * group.max() + 1 - group)


def pooled_chi_square(draws: Counted) -> float:
    """Pearson's test over runs of outcomes."""
    group = draws.classes(_POOLED)
    return pooled_pearson(_sums(draws.observed, group), _sums(draws.chances * draws.size, group))


def zero_mass(draws: Counted) -> float:
    """Exact binomial test of how often 0 was drawn."""
    return _binomial(int(draws.observed[draws.outcomes == 0][0]), draws.size, draws.chances[draws.outcomes == 0][0])


def log_ratio_slope(draws: Counted) -> float:
    """Whether the logarithm of found over expected has a slope against k^2 (Gaussian) or |k| (Laplace).

    A slope is a wrong scale: log P(k) falls by k^2 / (2 sigma^2) or |k| / b. By weighted least squares over runs of
    outcomes.
    """
    group = draws.classes(_SLOPE_POOLED)
    observed, expected = _sums(draws.observed, group), _sums(draws.chances * draws.size, group)
    power = 2 if draws.spec.mechanism == "discrete_gaussian" else 1
    height = np.abs(draws.outcomes.astype(np.float64)) ** power
    heights = _sums(draws.chances * draws.size * height, group) / expected
    used = observed > 0
    if used.sum() < 2 or np.ptp(heights[used]) == 0:
        return 1.0
    logs, weights, heights = np.log(observed[used] / expected[used]), expected[used], heights[used]
    centred = heights - np.average(heights, weights=weights)
    spread = float((weights * centred**2).sum())
    slope = float((weights * centred * logs).sum()) / spread
    return float(2 * stats.norm.sf(abs(slope) * spread**0.5))


def kolmogorov_smirnov(draws: Counted) -> float:
    """The largest distance of the cumulative distributions; on whole numbers the p value is not too small."""
    distance = np.abs(np.cumsum(draws.observed) / draws.size - np.cumsum(draws.chances)).max()
    return float(special.kolmogorov(distance * draws.size**0.5))


def tails(draws: Counted) -> float:
    """Exact binomial test of how often one in a thousand was passed, on both sides together."""
    beyond = np.cumsum(draws.chances[::-1])[::-1]
    start = int(draws.outcomes[np.flatnonzero((2 * beyond >= _TAIL) & (draws.outcomes >= 1)).max(initial=0)])
    start = max(start, 1)
    outside = np.abs(draws.outcomes) >= start
    return _binomial(int(draws.observed[outside].sum()), draws.size, float(draws.chances[outside].sum()))


def symmetry(draws: NDArray[np.int64]) -> float:
    """Whether magnitudes are distributed alike on both sides of zero; twice the smaller of two p values."""
    signs = _binomial(int((draws > 0).sum()), int((draws != 0).sum()), 0.5)
    return min(1.0, 2 * min(signs, agreement(draws[draws > 0], -draws[draws < 0])))


def agreement(first: NDArray[np.int64], second: NDArray[np.int64], classes: int = 64) -> float:
    """Chi-square test that two samples are of one distribution, over about equally frequent runs of outcomes."""
    if not first.size or not second.size:
        return 1.0
    both = np.concatenate([first, second])
    edges = np.unique(np.quantile(both, np.linspace(0, 1, classes + 1)[1:-1], method="inverted_cdf"))
    table = np.array([np.bincount(np.searchsorted(edges, part), minlength=edges.size + 1) for part in (first, second)])
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2:
        return 1.0
    return float(stats.chi2_contingency(table, correction=False).pvalue)


def pooled_pearson(observed: NDArray[np.float64] | NDArray[np.int64], expected: NDArray[np.float64]) -> float:
    """Pearson's p value; 1 where there is a single class."""
    if len(expected) < 2:
        return 1.0
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1))


class _Test(Protocol):
    def __call__(self, draws: Counted, /) -> float: ...


#: The tests of one sample against its distribution, by the names that reports use.
TESTS: Final[Mapping[str, _Test]] = MappingProxyType(
    {
        "pooled chi-square": pooled_chi_square,
        "exact zero mass": zero_mass,
        "log-ratio slope": log_ratio_slope,
        "Kolmogorov-Smirnov": kolmogorov_smirnov,
        "tails": tails,
    }
)


def _sums(values: NDArray[np.float64] | NDArray[np.int64], group: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sums by group, without the groups that do not occur."""
    sums: NDArray[np.float64] = np.bincount(group, weights=values).astype(np.float64)
    return sums[np.unique(group)]


def _binomial(observed: int, size: int, chance: float) -> float:
    return float(stats.binomtest(observed, size, chance).pvalue) if size else 1.0
