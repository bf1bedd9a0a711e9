"""The audit's checks of samplers and streams pass what is installed, and each fault fails those that are for it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from features.audit import samplers
from features.audit.exact_noise import exact_tails, probabilities
from features.audit.findings import Finding
from features.audit.samplers import FULL, Extent, choice_findings, installed_draw, sampler_findings
from features.audit.second_opinion import stream_problems
from features.audit.streams import stream_findings
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise import sampler as noise
from pipeline.privacy.noise.choices import Exponential, PermuteAndFlip
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
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
