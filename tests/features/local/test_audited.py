"""The battery passes the installed randomisers and rejects faulty ones."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from releases.command import feature_module

from features.local.collect import listed, rappor
from features.local.collect import mechanism as stated
from features.local.collect.bits import events
from features.local.collect.mechanism import epsilon_of


def randomiser_findings(seed: int) -> Iterator[Any]:
    """The audit's findings."""
    found: Iterator[Any] = feature_module("features.audit.installed").randomiser_findings(seed)
    return found


def failed() -> list[Any]:
    return [finding for finding in randomiser_findings(1) if not finding.passed]


def test_the_installed_randomisers_pass() -> None:
    findings = list(randomiser_findings(1))
    assert [finding.subject for finding in findings if not finding.passed] == []
    assert [finding.check for finding in findings] == ["probabilities", "bound"] * 4
    assert all("5 % off" in finding.detail for finding in findings if finding.check == "probabilities")


@pytest.mark.parametrize("module", [listed, rappor])
def test_events_that_are_too_likely_are_noticed(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By 1 %: a fault that none of the arms is."""

    def likelier(likely: Any, one: Fraction, other: Fraction, source: Any) -> Any:
        return events(likely, one, other * Fraction(101, 100), source)

    monkeypatch.setattr(module, "events", likelier)
    name = {listed: "unary_encoding", rappor: "rappor"}[module]
    assert [(finding.check, finding.subject.split(",")[0]) for finding in failed()] == [("probabilities", name)]


def test_an_epsilon_that_is_rounded_down_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    rounded = "features.local.collect.mechanism.epsilon_of"
    monkeypatch.setattr(rounded, lambda ratio: epsilon_of(ratio) - Decimal("1e-10"))
    findings = failed()
    assert [finding.check for finding in findings] == ["bound"] * 4
    assert all("is less than the logarithm of the ratio" in finding.detail for finding in findings)


def test_a_ratio_of_one_bit_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seeded fault: the bit of the other value is forgotten."""
    fault = property(lambda self: stated.Bound(Fraction(1, 2) / self.q))
    monkeypatch.setattr(listed.OptimisedUnaryEncoding, "bound", fault)
    (finding,) = failed()
    assert finding.check == "bound"
    assert "the ratio stated is 1.85" in finding.detail
