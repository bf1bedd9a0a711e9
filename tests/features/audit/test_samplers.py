"""The audit's checks of samplers and streams fail each fault that is for them; its bounds of divergences hold."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from features.audit import samplers
from features.audit.exact_noise import (
    exact_tails,
    normal_scores,
    overlap_p_value,
    probabilities,
    spread_p_value,
    together_p_value,
    zeros_p_value,
)
from features.audit.findings import Finding
from features.audit.samplers import FULL, Extent, choice_findings, installed_draw, sampler_findings
from features.audit.second_opinion import stream_problems
from features.audit.streams import stream_findings
from features.audit.trials import claimed_delta, divergence_bounds, log_likelihood_ratio
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise import sampler as noise
from pipeline.privacy.noise.choices import Exponential, PermuteAndFlip
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.discrete_laplace import DiscreteLaplace
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.privacy.noise.streams import Stream

GAUSSIAN = DiscreteGaussian(Fraction(19, 10))


SMALL = Extent(500_000, (GAUSSIAN,))


def failed(findings: list[Finding]) -> set[str]:
    return {finding.check for finding in findings if not finding.passed}


@pytest.fixture
def one_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out what tests choices, which takes seconds."""
    monkeypatch.setattr(samplers, "choice_findings", lambda *_: ())


def test_choices_by_another_mechanism_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Permute-and-flip passes, every arm is noticed, and the exponential mechanism in its place does not pass."""
    few, key = replace(SMALL, draws=100_000), MasterKey.from_text("insecure-test:1")
    assert failed(list(choice_findings(few, key))) == set()
    monkeypatch.setattr(PermuteAndFlip, "draw", lambda own, *rest: Exponential(own.scale).draw(*rest))
    assert [finding.passed for finding in choice_findings(few, key)] == [True, False]


def _smaller(spec, key, count):  # type: ignore[no-untyped-def]
    return installed_draw(spec.rescaled(Fraction(97, 100)), key, count)


def _rounded(spec, key, count):  # type: ignore[no-untyped-def]
    """Normal numbers of the same sigma, rounded, have 1/12 more variance."""
    rng = np.random.default_rng(int.from_bytes(key[:8], "big"))
    return np.rint(rng.normal(0, float(spec.scale) ** 0.5, count)).astype(np.int64)


def _lopsided(spec, key, count):  # type: ignore[no-untyped-def]
    draws = installed_draw(spec, key, count)
    return np.where(draws == 3, 4, draws)


@pytest.mark.usefixtures("one_sample")
@pytest.mark.parametrize(
    ("faulty", "checks"),
    [
        (_smaller, {"pooled chi-square", "log-ratio slope", "tails"}),
        (_rounded, {"pooled chi-square", "exact zero mass"}),
        (_lopsided, {"pooled chi-square"}),
    ],
)
def test_faulty_noise_fails(faulty, checks: set[str]) -> None:  # type: ignore[no-untyped-def]
    assert failed(list(sampler_findings(SMALL, 1, faulty))) >= checks


@pytest.mark.usefixtures("one_sample")
def test_a_test_that_cannot_fail_fails_the_audit() -> None:
    """With noise that does not follow its scale, the arms are not noticed, and that is told."""

    def deaf(spec, key, count):  # type: ignore[no-untyped-def]  # noqa: ARG001
        return installed_draw(GAUSSIAN, key, count)

    findings = [
        f for f in sampler_findings(SMALL, 1, deaf) if f.check == "pooled chi-square" and "1.9" not in f.subject
    ]
    assert any("0.95 times the scale is not noticed" in f.detail for f in findings)


def test_exact_tails_sum_as_floats_do() -> None:
    tails = [float(t) for t in exact_tails(GAUSSIAN)]
    chances = probabilities(GAUSSIAN, 60)
    assert np.allclose(tails[:20], [chances[60 + k :].sum() for k in range(20)], rtol=1e-9)


@pytest.mark.slow
def test_the_full_battery_passes() -> None:
    findings = list(sampler_findings(FULL, 2))
    assert failed(findings) == set()
    assert {f.check for f in findings} >= {"pooled chi-square", "exact zero mass", "log-ratio slope", "tails"}
    assert all("0.95 times the scale" in f.detail for f in findings if f.subject == str(GAUSSIAN))


def failed_checks() -> set[str]:
    return {f.check for f in stream_findings(1, 1 << 16) if not f.passed}


def test_what_is_installed_passes() -> None:
    assert failed_checks() == set()


def test_a_stream_that_is_not_ctr_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    fill = Stream.fill
    monkeypatch.setattr(Stream, "fill", lambda self, start, out: fill(self, start - start % 1024, out))
    assert {"published vectors", "seekable"} <= failed_checks()


def test_words_that_lean_to_one_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    fill = Stream.fill

    def leaning(self, start, out):  # type: ignore[no-untyped-def]
        fill(self, start, out)
        out[::8] |= 1

    monkeypatch.setattr(Stream, "fill", leaning)
    assert "uniform bits" in failed_checks()


def test_open_draws_that_take_no_further_words_fail() -> None:
    def careless(spec, word, further):  # type: ignore[no-untyped-def]  # noqa: ARG001
        return noise.decide(spec, word, iter([1 << 63] * 64))

    findings = [f for f in stream_findings(1, 1 << 12, careless) if f.check == "undecidable path"]
    assert findings
    assert not any(f.passed for f in findings)


def test_keys_that_forget_a_part_of_their_context_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second program derives them by its own code."""
    assert stream_problems(1) == []
    stream_key = MasterKey.stream_key
    monkeypatch.setattr(
        MasterKey, "stream_key", lambda self, context, level, query: stream_key(self, context[1:], level, query)
    )
    assert "the keys of streams are not derived as documented" in stream_problems(1)


WIDER = DiscreteGaussian(Fraction(3, 2))


def test_claim_is_the_divergence_by_enumeration() -> None:
    """Two numbers that move by one, all pairs of outcomes."""
    reach = 15
    p = probabilities(WIDER, reach + 1)
    one, two = p[1:-1], p[:-2]
    for epsilon in (0.2, 1.0, 2.5):
        exact = sum(
            max(0.0, one[i] * one[j] - math.exp(epsilon) * two[i] * two[j])
            for i, j in itertools.product(range(2 * reach + 1), repeat=2)
        )
        (claim,) = claimed_delta([(WIDER, 2)], [epsilon])
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
    p = probabilities(WIDER, 20)
    direct = sum(math.log(p[20 + v - a] / p[20 + v - b]) for v, a, b in zip(values, one, two, strict=True))
    assert log_likelihood_ratio(values, one, two, WIDER) == pytest.approx(direct)


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
    draws = sampler_for(WIDER).draw(bytes(32), 0, 3000)
    apart = {str(n): normal_scores(sampler_for(WIDER).draw(bytes([n]) * 32, 0, 2000), WIDER, n) for n in (1, 2, 3)}
    assert overlap_p_value(apart)[0] > 1e-6
    shared = {
        **apart,
        "here": normal_scores(draws[:2000], WIDER, 8),
        "there": normal_scores(draws[500:], WIDER, 9),
    }
    p_value, where = overlap_p_value(shared)
    assert p_value == pytest.approx(0, abs=1e-6)
    assert where == "here and there"
    again = normal_scores(np.concatenate([draws[:300], draws[:300]]), WIDER, 8)
    p_value, where = overlap_p_value({"itself": again})
    assert p_value == pytest.approx(0, abs=1e-6)
    assert where == "itself"


def test_false_alarms_of_overlap_are_rare() -> None:
    rng = np.random.default_rng(6)
    found = [overlap_p_value({"a": rng.normal(size=60), "b": rng.normal(size=200)})[0] for _ in range(300)]
    assert np.mean(np.array(found) < 0.05) < 0.1
