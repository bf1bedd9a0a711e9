"""The battery of tests of the installed samplers."""

from __future__ import annotations

import importlib
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from features.audit.exact_noise import reference_draws, rescaled
from features.audit.findings import Finding, statistical
from features.audit.goodness import TESTS, Counted, agreement, pooled_pearson, symmetry
from pipeline.privacy.budget import NoiseSpec
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise import sampler as noise
from pipeline.privacy.noise.exponential import Exponential
from pipeline.privacy.noise.permute_and_flip import PermuteAndFlip

__all__ = ["FULL", "QUICK", "Draw", "Extent", "installed_draw", "sampler_findings"]

#: Noise of a distribution under a stream key: (spec, stream key, count) -> `(count,)`.
Draw = Callable[[NoiseSpec, bytes, int], NDArray[np.int64]]

#: Factors on the standard deviation that every test has to notice.
ARMS: Final = (Fraction(95, 100), Fraction(105, 100))
_NARROW: Final = {"discrete_gaussian": Fraction(100), "discrete_laplace": Fraction(7)}


@dataclass(frozen=True)
class Extent:
    """How much is tested.

    Attributes:
        draws: of each distribution and each arm.
        reference: draws of the slow sampler and of OpenDP.
        gaussians, laplaces: scales, sigma^2 and b.
    """

    draws: int
    reference: int
    gaussians: tuple[Fraction, ...]
    laplaces: tuple[Fraction, ...]


def _fractions(*texts: str) -> tuple[Fraction, ...]:
    return tuple(Fraction(text) for text in texts)


#: 1e-2 is not here: its draws are all 0 but for one in 1e21, and only the undecidable path (`streams`) can be tested.
FULL: Final = Extent(
    draws=1_000_000,
    reference=400_000,
    gaussians=_fractions("1/4", "1", "19/10", "100", "10000", "1000000", "100000000"),
    laplaces=_fractions("1/2", "1", "7", "70", "7000"),
)
QUICK: Final = Extent(
    draws=500_000, reference=40_000, gaussians=_fractions("1/4", "19/10", "10000"), laplaces=_fractions("1", "70")
)


def installed_draw(spec: NoiseSpec, stream_key: bytes, count: int) -> NDArray[np.int64]:
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
    specs = [NoiseSpec("discrete_gaussian", scale) for scale in extent.gaussians]
    specs += [NoiseSpec("discrete_laplace", scale) for scale in extent.laplaces]
    for spec in specs:
        yield from _one_sample(spec, extent, key, draw)
    for spec in (NoiseSpec("discrete_gaussian", Fraction(19, 10)), NoiseSpec("discrete_laplace", Fraction(7, 2))):
        yield _against_reference(spec, extent, key, seed, draw)
    for spec in (NoiseSpec("discrete_gaussian", Fraction(9)), NoiseSpec("discrete_laplace", Fraction(3))):
        yield from _against_opendp(spec, extent, key, draw)
    yield _exponential(extent, key)
    yield _permute_and_flip(extent, key)


def _stream_key(key: MasterKey, purpose: str) -> bytes:
    return key.stream_key(("audit",), "samplers", purpose)


def _one_sample(spec: NoiseSpec, extent: Extent, key: MasterKey, draw: Draw) -> Iterator[Finding]:
    draws = draw(spec, _stream_key(key, str(spec)), extent.draws)
    faulty = {
        f"{float(factor):g} times the scale": draw(
            rescaled(spec, factor), _stream_key(key, f"{spec} {factor}"), extent.draws
        )
        for factor in ARMS
    }
    counted = Counted(draws, spec)
    arms = {name: Counted(other, spec) for name, other in faulty.items()}
    for name, test in TESTS.items():
        # A wide distribution is at 0 too rarely for a scale to show in it.
        if name != "exact zero mass" or spec.scale <= _NARROW[spec.mechanism]:
            yield statistical("samplers", name, str(spec), test(counted), {arm: test(o) for arm, o in arms.items()})
    one_sided = {
        f"{arm} above 0": symmetry(np.concatenate([draws[draws <= 0], other[other > 0]]))
        for arm, other in faulty.items()
    }
    yield statistical("samplers", "symmetry", str(spec), symmetry(draws), one_sided)


def _against_reference(spec: NoiseSpec, extent: Extent, key: MasterKey, seed: int, draw: Draw) -> Finding:
    """Two-sample test against the slow exact sampler of this package."""
    slow = reference_draws(spec, extent.reference, random.Random(seed).randrange)  # reproducible, not for releases
    return _two_sample("agrees with rejection sampling", spec, slow, extent, key, draw)


def _against_opendp(spec: NoiseSpec, extent: Extent, key: MasterKey, draw: Draw) -> Iterator[Finding]:
    """Two-sample test against OpenDP, where it is installed."""
    try:
        dp = importlib.import_module("opendp.prelude")
    except ImportError:
        return
    dp.enable_features("contrib")
    scale = float(spec.scale)
    if spec.mechanism == "discrete_gaussian":
        space = dp.vector_domain(dp.atom_domain(T="i64"), size=extent.reference), dp.l2_distance(T="f64")
        theirs = dp.m.make_gaussian(*space, scale=scale**0.5)
    else:
        space = dp.vector_domain(dp.atom_domain(T="i64"), size=extent.reference), dp.l1_distance(T="f64")
        theirs = dp.m.make_laplace(*space, scale=scale)
    slow = np.array(theirs([0] * extent.reference), dtype=np.int64)
    yield _two_sample("agrees with OpenDP", spec, slow, extent, key, draw)


def _two_sample(
    check: str, spec: NoiseSpec, slow: NDArray[np.int64], extent: Extent, key: MasterKey, draw: Draw
) -> Finding:
    ours = draw(spec, _stream_key(key, f"two {spec}"), extent.draws)
    arms = {}
    for factor in ARMS:
        other = draw(rescaled(spec, factor), _stream_key(key, f"two {spec} {factor}"), extent.draws)
        arms[f"{float(factor):g} times the scale"] = agreement(slow, other)
    return statistical("samplers", check, str(spec), agreement(slow, ours), arms)


def _exponential(extent: Extent, key: MasterKey) -> Finding:
    losses = (0, 1, 3, 8)
    size = extent.draws

    def p_value(epsilon: Fraction, purpose: str) -> float:
        rows = np.broadcast_to(np.array(losses, dtype=np.int64), (size, len(losses)))
        chosen = Exponential(epsilon).draw(_stream_key(key, f"exponential {purpose}"), rows)
        weights = np.exp(-0.5 * np.array(losses))
        return pooled_pearson(np.bincount(chosen, minlength=len(losses)), size * weights / weights.sum())

    arms = {f"epsilon = {float(e):g}": p_value(e, str(e)) for e in ARMS}
    subject = "exponential mechanism, epsilon = 1"
    return statistical("samplers", "pooled chi-square", subject, p_value(Fraction(1), "1"), arms)


def _permute_and_flip(extent: Extent, key: MasterKey) -> Finding:
    """Against the sum over all orders of the candidates, a coin after the other."""
    losses = (0, 1, 3, 8)
    size, heads = extent.draws, np.exp(-0.5 * np.array(losses)).tolist()
    expected, orders = np.zeros(len(losses)), list(itertools.permutations(range(len(losses))))
    for order in orders:
        left = 1.0
        for one in order:
            expected[one] += left * heads[one] / len(orders)
            left *= 1 - heads[one]

    def p_value(epsilon: Fraction, purpose: str) -> float:
        rows = np.broadcast_to(np.array(losses, dtype=np.int64), (size, len(losses)))
        chosen = PermuteAndFlip(epsilon).draw(_stream_key(key, f"permute-and-flip {purpose}"), rows)
        return pooled_pearson(np.bincount(chosen, minlength=len(losses)), size * expected)

    arms = {f"epsilon = {float(e):g}": p_value(e, str(e)) for e in ARMS}
    subject = "permute-and-flip, epsilon = 1"
    return statistical("samplers", "pooled chi-square", subject, p_value(Fraction(1), "1"), arms)
