"""Debiased counts of reports: unbiased, and with the variance that estimation is told, by enumeration and by draws."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from features.local.collect.listed import ListedMechanism
from features.local.collect.respondent import mechanism_of
from features.local.collected import CollectedAnswers

MECHANISMS = [
    ("randomised_response", {"p": "3/4"}),
    ("direct_encoding", {"values": "5", "p": "1/2"}),
    ("unary_encoding", {"values": "5", "q": "1/4"}),
]


def collected_by(name: str, parameters: dict[str, str]) -> CollectedAnswers:
    mechanism = mechanism_of(name, parameters)
    assert isinstance(mechanism, ListedMechanism)
    return CollectedAnswers(mechanism)


def covariance_of(mechanism: ListedMechanism, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the debiased counts for one report, given the true shares: that of each value's outputs, added up."""
    p, q = (float(chance) for chance in mechanism.chances)
    total = np.zeros((mechanism.values, mechanism.values))
    for value, share in enumerate(shares / shares.sum()):
        rates = np.where(np.arange(mechanism.values) == value, p, q)
        independent = np.diag(rates * (1 - rates))
        total += share * (np.diag(rates) - np.outer(rates, rates) if mechanism.exclusive else independent)
    return total / (p - q) ** 2


@pytest.mark.parametrize(("name", "parameters"), MECHANISMS)
def test_the_summed_variance_is_that_of_the_mechanism_whatever_is_true(name: str, parameters: dict[str, str]) -> None:
    """The trace of the exact covariance does not depend on the true shares; on sums that are known it is the same."""
    collected = collected_by(name, parameters)
    k = collected.n_cells
    for shares in (np.ones(k), np.eye(k)[0], np.arange(1.0, k + 1)):
        covariance = covariance_of(collected.mechanism, shares)
        assert np.trace(covariance) == pytest.approx(float(collected.noise_per_report))
    known = np.eye(k) - 1 / k
    projected = known @ covariance_of(collected.mechanism, np.ones(k)) @ known
    assert np.trace(projected) / (k - 1) == pytest.approx(float(collected.unit_variance))


def test_the_variance_of_two_answers_is_exact() -> None:
    """Var(yes) = n p (1 - p) / (2p - 1)^2 (Warner 1965), which with the total known is half of what is stated."""
    collected = collected_by("randomised_response", {"p": "3/4"})
    assert collected.noise(10).scale / 2 == 10 * Fraction(3, 16) / Fraction(1, 4)
    assert collected.noise(0) == collected.noise(1)


@pytest.mark.parametrize(("name", "parameters"), MECHANISMS)
def test_simulated_reports_are_distributed_as_those_of_respondents(name: str, parameters: dict[str, str]) -> None:
    collected = collected_by(name, parameters)
    counts = np.tile(np.arange(1, collected.n_cells + 1) * 7, (4000, 1))
    totals = collected.totals_of(counts, np.random.default_rng(5))
    n = int(counts[0].sum())
    found = collected.debiased(totals, np.full(len(counts), n))
    covariance = n * covariance_of(collected.mechanism, counts[0] / n)
    standard = np.sqrt(np.diag(covariance) / len(counts))
    assert (np.abs(found.mean(axis=0) - counts[0]) < 4.5 * standard).all()
    spread = np.cov(found.T)
    tolerance = 6 * np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)) / len(counts) * 2)
    assert (np.abs(spread - covariance) < tolerance).all()
    # The test sees a variance that is a fifth too large.
    assert not (np.abs(1.2 * np.diag(spread) - np.diag(covariance)) < np.diag(tolerance)).all()


@pytest.mark.parametrize(("name", "parameters"), MECHANISMS)
def test_errors_of_counts_are_those_of_the_exact_covariance(name: str, parameters: dict[str, str]) -> None:
    """Of cells and of sums of cells, made to add up to the number of reports; against the mechanism's own matrix."""
    collected = collected_by(name, parameters)
    k, n = collected.n_cells, 3000
    known = np.eye(k) - 1 / k
    truth = np.arange(1, k + 1) * (n // (k * (k + 1) // 2))
    truth[-1] += n - truth.sum()
    exact = n * known @ covariance_of(collected.mechanism, truth / n) @ known
    stated = n * float(collected.unit_variance) * known
    for sums in (np.eye(k, dtype=np.int64), np.array([[1] * (k - 1) + [0], [0] * (k - 1) + [1]])):
        answers = sums.argmax(axis=0)
        found = collected.own_errors(answers, np.arange(len(sums)), sums @ truth, np.array(n))
        expected = np.sqrt(np.diag(sums @ exact @ sums.T) / np.diag(sums @ stated @ sums.T))
        assert found == pytest.approx(expected)
        # One and the same error for all answers would be seen, but where it is right.
        assert len(sums) == 2 or np.ptp(expected) > 0.02
    whole = collected.own_errors(np.zeros(k, dtype=np.int64), np.array([0]), np.array([n]), np.array([n]))
    assert np.isfinite(whole).all()  # which is known, with a standard error of 0
