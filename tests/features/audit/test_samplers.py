"""The battery passes the installed samplers and rejects faulty ones, each fault by the tests that are for it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from features.audit import samplers
from features.audit.exact_noise import exact_tails, probabilities, rescaled
from features.audit.findings import Finding, certain
from features.audit.samplers import FULL, Extent, installed_draw, sampler_findings
from pipeline.privacy.budget import NoiseSpec
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.exponential import Exponential
from pipeline.privacy.noise.permute_and_flip import PermuteAndFlip

GAUSSIAN = NoiseSpec("discrete_gaussian", Fraction(19, 10))
SMALL = Extent(draws=500_000, gaussians=(Fraction(19, 10),), laplaces=())


def failed(findings: list[Finding]) -> set[str]:
    return {finding.check for finding in findings if not finding.passed}


@pytest.fixture
def one_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out what tests choices, which takes seconds."""
    for chosen in ("_exponential", "_permute_and_flip"):
        monkeypatch.setattr(samplers, chosen, lambda *_: certain("samplers", "left out", "", []))


def test_choices_by_another_mechanism_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Permute-and-flip passes, every arm is noticed, and the exponential mechanism in its place does not pass."""
    few, key = replace(SMALL, draws=100_000), MasterKey.from_text("insecure-test:1")
    found = samplers._permute_and_flip(few, key)
    assert found.passed, found.detail
    monkeypatch.setattr(PermuteAndFlip, "draw", lambda own, *rest: Exponential(own.scale).draw(*rest))
    assert not samplers._permute_and_flip(few, key).passed


def _smaller(spec, key, count):  # type: ignore[no-untyped-def]
    return installed_draw(rescaled(spec, Fraction(97, 100)), key, count)


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
