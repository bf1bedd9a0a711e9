"""The battery of tests of the installed samplers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from scipy import stats

from features.audit.exact_noise import probabilities, reach_of
from features.audit.findings import Finding, statistical
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise import sampler as noise
from pipeline.privacy.noise.choices import Exponential, PermuteAndFlip
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.mechanisms import NOISES
from postprocess.arrays import FloatArray, IntArray

_POOLED = 100.0  # least expected count of a class of the chi-square test
_SLOPE_POOLED = 1000.0  # of the regression of logarithms, whose bias is 1 / (2 expected)
_TAIL = 1e-3  # probability of what counts as the tails


class CountedDraws:
    """Draws, counted by outcome, beside the expected numbers.

    Attributes:
        outcomes: `(m,)`, from -largest to largest.
        observed: `(m,)`, how often each was drawn.
        chances: `(m,)`, its probability.
    """

    def __init__(self, draws: IntArray, spec: NoiseSpec) -> None:
        largest = max(reach_of(spec), int(np.abs(draws).max(initial=0))) + 1
        self.spec = spec
        self.size = draws.size
        self.outcomes = np.arange(-largest, largest + 1)
        self.observed = np.bincount(draws + largest, minlength=2 * largest + 1)
        self.chances = probabilities(spec, largest)

    def classes(self, least: float) -> IntArray:
        """`(m,)` number of each outcome's class: runs of outcomes, each expected about `least` times or more."""
        expected = self.chances * self.size
        before = np.cumsum(expected) - expected
        group = (np.minimum(before, self.size - before - expected) // least).astype(np.int64)
        # Rising from tail to tail: the two sides are not pooled with one another.
        return np.where(self.outcomes < 0, group, 2 * group.max() + 1 - group)


def pooled_chi_square(draws: CountedDraws) -> float:
    """Pearson's test over runs of outcomes."""
    group = draws.classes(_POOLED)
    return pooled_pearson(_sums(draws.observed, group), _sums(draws.chances * draws.size, group))


def zero_mass(draws: CountedDraws) -> float:
    """Exact binomial test of how often 0 was drawn."""
    return _binomial(int(draws.observed[draws.outcomes == 0][0]), draws.size, draws.chances[draws.outcomes == 0][0])


def log_ratio_slope(draws: CountedDraws) -> float:
    """Whether the logarithm of found over expected has a slope against `NoiseSpec.distance`.

    A slope is a wrong scale: log P(k) falls by distance(k) / (unit scale). By weighted least squares over runs of
    outcomes.
    """
    group = draws.classes(_SLOPE_POOLED)
    observed, expected = _sums(draws.observed, group), _sums(draws.chances * draws.size, group)
    height = draws.spec.distance(draws.outcomes.astype(np.float64))
    heights = _sums(draws.chances * draws.size * height, group) / expected
    used = observed > 0
    if used.sum() < 2 or np.ptp(heights[used]) == 0:
        return 1.0
    logs, weights, heights = np.log(observed[used] / expected[used]), expected[used], heights[used]
    centred = heights - np.average(heights, weights=weights)
    spread = float((weights * centred**2).sum())
    slope = float((weights * centred * logs).sum()) / spread
    return float(2 * stats.norm.sf(abs(slope) * spread**0.5))


def tails(draws: CountedDraws) -> float:
    """Exact binomial test of how often one in a thousand was passed, on both sides together."""
    beyond = np.cumsum(draws.chances[::-1])[::-1]
    start = int(draws.outcomes[np.flatnonzero((2 * beyond >= _TAIL) & (draws.outcomes >= 1)).max(initial=0)])
    start = max(start, 1)
    outside = np.abs(draws.outcomes) >= start
    return _binomial(int(draws.observed[outside].sum()), draws.size, float(draws.chances[outside].sum()))


def pooled_pearson(observed: FloatArray | IntArray, expected: FloatArray) -> float:
    """Pearson's p value; 1 where there is a single class."""
    if len(expected) < 2:
        return 1.0
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1))


#: The tests of one sample against its distribution, by the names that reports use.
TESTS: Final[Mapping[str, Callable[[CountedDraws], float]]] = {
    "pooled chi-square": pooled_chi_square,
    "exact zero mass": zero_mass,
    "log-ratio slope": log_ratio_slope,
    "tails": tails,
}


def _sums(values: FloatArray | IntArray, group: IntArray) -> FloatArray:
    """Sums by group, without the groups that do not occur."""
    sums: FloatArray = np.bincount(group, weights=values).astype(np.float64)
    return sums[np.unique(group)]


def _binomial(observed: int, size: int, chance: float) -> float:
    return float(stats.binomtest(observed, size, chance).pvalue) if size else 1.0


#: Noise of a distribution under a stream key: (spec, stream key, count) -> `(count,)`.
Draw = Callable[[NoiseSpec, bytes, int], IntArray]

#: Factors on the standard deviation that every test has to notice.
ARMS: Final = (Fraction(95, 100), Fraction(105, 100))
_NARROW: Final = 100  # variance, persons squared


@dataclass(frozen=True)
class Extent:
    """How much is tested.

    Attributes:
        draws: of each distribution and each arm.
        specs: the distributions.
    """

    draws: int
    specs: tuple[NoiseSpec, ...]


#: 1e-2 is not here: its draws are all 0 but for one in 1e21, and only the undecidable path (`streams`) can be tested.
FULL: Final = Extent(1_000_000, tuple(kind(Fraction(scale)) for kind in NOISES.values() for scale in kind.audited))
QUICK: Final = Extent(500_000, tuple(one(Fraction(scale)) for one in NOISES.values() for scale in one.audited_quickly))


def installed_draw(spec: NoiseSpec, stream_key: bytes, count: int) -> IntArray:
    """Draws of the sampler that releases use."""
    return noise.sampler_for(spec).draw(stream_key, 0, count)


def sampler_findings(extent: Extent, seed: int, draw: Draw = installed_draw) -> Iterator[Finding]:
    """Test the samplers at every scale.

    Args:
        extent: how many scales and draws.
        seed: of the public test key that the draws are made with; the same gives the same findings.
        draw: what is tested.
    """
    key = MasterKey.from_text(f"insecure-test:{seed}")
    for spec in extent.specs:
        counted = CountedDraws(draw(spec, _stream_key(key, str(spec)), extent.draws), spec)
        arms = {}
        for factor in ARMS:
            faulty = draw(spec.rescaled(factor), _stream_key(key, f"{spec} {factor}"), extent.draws)
            arms[f"{float(factor):g} times the scale"] = CountedDraws(faulty, spec)
        for name, test in TESTS.items():
            # A wide distribution is at 0 too rarely for a scale to show in it.
            if name != "exact zero mass" or spec.continuous_variance <= _NARROW:
                yield statistical("samplers", name, str(spec), test(counted), {arm: test(o) for arm, o in arms.items()})
    yield from choice_findings(extent, key)


def choice_findings(extent: Extent, key: MasterKey) -> Iterator[Finding]:
    """Test the exponential mechanism and permute-and-flip under a public test key."""
    weights = np.exp(-0.5 * np.array(_LOSSES))
    yield _chosen("exponential", "exponential mechanism", Exponential, weights / weights.sum(), extent, key)
    yield _chosen("permute-and-flip", "permute-and-flip", PermuteAndFlip, _in_all_orders(weights), extent, key)


def _stream_key(key: MasterKey, purpose: str) -> bytes:
    return key.stream_key(("audit",), "samplers", purpose)


#: Of the candidates that choices are made among.
_LOSSES: Final = (0, 1, 3, 8)


def _in_all_orders(heads: FloatArray) -> FloatArray:
    """The chances of permute-and-flip: a coin after the other, over all orders of the candidates."""
    chances, orders = np.zeros(len(heads)), list(itertools.permutations(range(len(heads))))
    for order in orders:
        left = 1.0
        for one in order:
            chances[one] += left * heads[one] / len(orders)
            left *= 1 - heads[one]
    return chances


def _chosen(
    stream: str,
    subject: str,
    mechanism: Callable[[Fraction], Exponential | PermuteAndFlip],
    chances: FloatArray,
    extent: Extent,
    key: MasterKey,
) -> Finding:
    """Choices of a mechanism with epsilon = 1 against their chances, and those with others."""

    def p_value(epsilon: Fraction) -> float:
        rows = np.broadcast_to(np.array(_LOSSES, dtype=np.int64), (extent.draws, len(_LOSSES)))
        chosen = mechanism(epsilon).draw(_stream_key(key, f"{stream} {epsilon}"), rows)
        return pooled_pearson(np.bincount(chosen, minlength=len(_LOSSES)), extent.draws * chances)

    arms = {f"epsilon = {float(e):g}": p_value(e) for e in ARMS}
    return statistical("samplers", "pooled chi-square", f"{subject}, epsilon = 1", p_value(Fraction(1)), arms)
