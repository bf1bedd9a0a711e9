"""Totals by groups, and counts whose errors are those that theory says."""

from __future__ import annotations

from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from features.local.collect.bits import KeyedBytes
from features.local.collect.listed import DirectEncoding, ListedMechanism, OptimisedUnaryEncoding, RandomisedResponse

KEY = b"a key of the tests, thirty-two b"
AREAS, PEOPLE = 1_500, 200
MECHANISMS: list[ListedMechanism] = [
    RandomisedResponse(Fraction(3, 4)),
    DirectEncoding(12, Fraction(1, 3)),
    OptimisedUnaryEncoding(12, Fraction(1, 4)),
]


def test_totals_are_sums_of_the_reports_of_each_group() -> None:
    rng = np.random.default_rng(1)
    groups = rng.choice([0, 2, 3], 500)
    unary = OptimisedUnaryEncoding(5, Fraction(1, 4))
    bits = unary.randomise(rng.integers(0, 5, 500), KeyedBytes(KEY))
    direct = DirectEncoding(5, Fraction(1, 2))
    numbers = direct.randomise(rng.integers(0, 5, 500), KeyedBytes(KEY))
    for group in range(5):
        rows = groups == group
        assert unary.totals(bits, groups, 5)[group].tolist() == bits[rows].sum(axis=0).tolist()
        expected = [(numbers[rows, 0] == value).sum() for value in range(5)]
        assert direct.totals(numbers, groups, 5)[group].tolist() == expected


def simulated(mechanism: ListedMechanism) -> tuple[np.ndarray, np.ndarray]:
    """True counts of areas, of which some values are rare, and the errors of the debiased ones."""
    n_values = mechanism.values
    shares = np.full(n_values, 0.4 / (n_values - 1))
    shares[0] = 0.6
    values = np.random.default_rng(7).choice(n_values, (AREAS, PEOPLE), p=shares)
    groups = np.repeat(np.arange(AREAS), PEOPLE)
    reports = mechanism.randomise(values.reshape(-1), KeyedBytes(KEY, (mechanism.name,)))
    counts = mechanism.debias(mechanism.totals(reports, groups, AREAS), np.full(AREAS, PEOPLE))
    true = np.zeros((AREAS, n_values))
    np.add.at(true, (groups, values.reshape(-1)), 1)
    return true, counts - true


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda one: one.name)
def test_errors_are_those_of_theory(mechanism: ListedMechanism) -> None:
    """Within 3 % in all, unbiased in each value; intervals cover 90 % for rare and for frequent values."""
    true, errors = simulated(mechanism)
    theory = np.sqrt(PEOPLE * mechanism.unit_variances(true.sum(axis=0)))
    ratio = np.sqrt((errors**2).mean(axis=0)) / theory
    assert 0.97 < np.sqrt((ratio**2).mean()) < 1.03
    assert np.abs(errors.mean(axis=0) / theory * np.sqrt(AREAS)).max() < 4
    covered = (np.abs(errors) < NormalDist().inv_cdf(0.95) * theory).mean(axis=0)
    assert np.abs(covered - 0.9).max() < 4.5 * np.sqrt(0.09 / AREAS)
    assert 0.88 < covered.mean() < 0.93


@pytest.mark.parametrize("mechanism", MECHANISMS[1:], ids=lambda one: one.name)
def test_a_probability_five_percent_off_would_be_noticed(mechanism: ListedMechanism) -> None:
    """The power arm: debiased with a probability that is 5 % off, values are biased by many standard errors."""
    true, errors = simulated(mechanism)
    off = (
        DirectEncoding(12, Fraction(7, 20))
        if isinstance(mechanism, DirectEncoding)
        else OptimisedUnaryEncoding(12, Fraction(21, 80))
    )
    p, q = (float(chance) for chance in mechanism.chances)
    raw = (errors + true) * (p - q) + PEOPLE * q
    wrong = off.debias(np.rint(raw).astype(np.int64), np.full(AREAS, PEOPLE)) - true
    theory = np.sqrt(PEOPLE * mechanism.unit_variances(true.sum(axis=0)))
    assert np.abs(wrong.mean(axis=0) / theory * np.sqrt(AREAS)).max() > 8


def test_shares_are_made_positive_and_add_up() -> None:
    unary = OptimisedUnaryEncoding(4, Fraction(1, 4))
    assert np.allclose(
        unary.unit_variances(np.array([2.0, -1, 2, 0])), unary.unit_variances(np.array([0.5, 0, 0.5, 0]))
    )
    assert np.isfinite(unary.unit_variances(np.zeros(4))).all()


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(4)], ids=str)
def test_variances_of_rare_values_are_the_published_ones(epsilon: Fraction) -> None:
    """Wang et al. 2017, for n = 1: (d - 2 + e^eps) / (e^eps - 1)^2, of unary encoding 4 e^eps / (e^eps - 1)^2."""
    rare = np.array([0.0] * 11 + [1.0])
    power = float(np.exp(float(epsilon)))
    direct = DirectEncoding.for_epsilon(12, epsilon).unit_variances(rare)[0]
    unary = OptimisedUnaryEncoding.for_epsilon(12, epsilon).unit_variances(rare)[0]
    assert direct == pytest.approx((10 + power) / (power - 1) ** 2, rel=1e-9)
    assert unary == pytest.approx(4 * power / (power - 1) ** 2, rel=1e-9)
    assert (unary < direct) == (3 * power + 2 < 12)


def test_yes_and_no_are_values() -> None:
    response = RandomisedResponse(Fraction(3, 4))
    answers = np.arange(50) % 3 == 0
    same = response.randomise(answers.astype(np.int64), KeyedBytes(KEY))
    assert np.array_equal(response.randomise(answers, KeyedBytes(KEY)), same)
