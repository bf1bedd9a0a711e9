"""Claimed divergences are those of independent computations; lower bounds hold, and come near them with many runs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from features.audit.exact_noise import (
    normal_scores,
    overlap_p_value,
    probabilities,
    spread_p_value,
    together_p_value,
    zeros_p_value,
)
from features.audit.trials import claimed_delta, divergence_bounds, log_likelihood_ratio
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.discrete_laplace import DiscreteLaplace
from pipeline.privacy.noise.sampler import sampler_for

GAUSSIAN = DiscreteGaussian(Fraction(3, 2))


def test_claim_is_the_divergence_by_enumeration() -> None:
    """Two numbers that move by one, all pairs of outcomes."""
    reach = 15
    p = probabilities(GAUSSIAN, reach + 1)
    one, two = p[1:-1], p[:-2]
    for epsilon in (0.2, 1.0, 2.5):
        exact = sum(
            max(0.0, one[i] * one[j] - math.exp(epsilon) * two[i] * two[j])
            for i, j in itertools.product(range(2 * reach + 1), repeat=2)
        )
        (claim,) = claimed_delta([(GAUSSIAN, 2)], [epsilon])
        assert exact <= claim <= exact + 2e-3


def test_pure_noise_has_no_divergence_at_its_epsilon() -> None:
    laplace = DiscreteLaplace(Fraction(2))
    below, at = claimed_delta([(laplace, 2)], [0.9, 1.0])
    assert at == pytest.approx(0, abs=1e-9)
    assert below > 0.01


def test_bounds_stay_below_the_truth_and_come_near_it() -> None:
    rng = np.random.default_rng(4)
    epsilons = (0.5, 1.0)
    truth = [stats.norm.cdf(1 - e / 2) - math.exp(e) * stats.norm.cdf(-1 - e / 2) for e in epsilons]
    for n, slack, known in ((400, 1.0, False), (200_000, 0.02, False), (2000, 0.15, True)):
        if known:  # the logarithm of the likelihood ratio
            one, other = (2 * rng.normal(mean, 1, (n, 1)) - 2 for mean in (2, 0))
        else:  # two numbers, of which the second says how far the first is off
            off = [rng.normal(0, 5, n) for _ in range(2)]
            one, other = (np.stack([rng.normal(m, 1, n) + o, 3 * o], axis=1) for m, o in zip((2, 0), off, strict=True))
        bounds = divergence_bounds(one, other, epsilons, 1e-6)
        for bound, exact in zip(bounds, truth, strict=True):
            assert exact - slack < bound <= exact


def test_equal_inputs_are_not_told_apart() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        (bound,) = divergence_bounds(rng.normal(size=(2000, 3)), rng.normal(size=(2000, 3)), [0.1], 1e-3)
        assert bound == 0


def test_log_likelihood_ratio_is_that_of_the_definition() -> None:
    values, one, two = np.array([3, -1]), np.array([2, 0]), np.array([1, 1])
    p = probabilities(GAUSSIAN, 20)
    direct = sum(math.log(p[20 + v - a] / p[20 + v - b]) for v, a, b in zip(values, one, two, strict=True))
    assert log_likelihood_ratio(values, one, two, GAUSSIAN) == pytest.approx(direct)


# Residuals


@pytest.mark.parametrize("scale", ["1/10", "2", "1000"])
def test_scores_of_the_right_noise_are_standard_normal_and_of_other_noise_not(scale: str) -> None:
    spec = DiscreteGaussian(Fraction(scale))
    right = [normal_scores(sampler_for(spec).draw(bytes([n]) * 32, 0, 3000), spec, n) for n in range(6)]
    assert together_p_value(right) > 1e-6
    assert min(spread_p_value(z) for z in right) > 1e-6
    half = sampler_for(DiscreteGaussian(spec.scale / 2)).draw(bytes(32), 0, 3000)
    assert min(spread_p_value(normal_scores(half, spec, 7)), zeros_p_value(half, spec)) < 1e-6
    assert zeros_p_value(sampler_for(spec).draw(bytes(32), 0, 3000), spec) > 1e-6


def test_noise_shared_at_any_shift_is_found() -> None:
    draws = sampler_for(GAUSSIAN).draw(bytes(32), 0, 3000)
    apart = {
        str(n): normal_scores(sampler_for(GAUSSIAN).draw(bytes([n]) * 32, 0, 2000), GAUSSIAN, n) for n in (1, 2, 3)
    }
    assert overlap_p_value(apart)[0] > 1e-6
    shared = {
        **apart,
        "here": normal_scores(draws[:2000], GAUSSIAN, 8),
        "there": normal_scores(draws[500:], GAUSSIAN, 9),
    }
    p_value, where = overlap_p_value(shared)
    assert p_value == pytest.approx(0, abs=1e-6)
    assert where == "here and there"
    again = normal_scores(np.concatenate([draws[:300], draws[:300]]), GAUSSIAN, 8)
    p_value, where = overlap_p_value({"itself": again})
    assert p_value == pytest.approx(0, abs=1e-6)
    assert where == "itself"


def test_false_alarms_of_overlap_are_rare() -> None:
    rng = np.random.default_rng(6)
    found = [overlap_p_value({"a": rng.normal(size=60), "b": rng.normal(size=200)})[0] for _ in range(300)]
    assert np.mean(np.array(found) < 0.05) < 0.1
