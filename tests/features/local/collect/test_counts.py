"""Totals by groups, and counts whose errors are those that theory says."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from features.local.collect.bits import KeyedBytes
from features.local.collect.listed import DirectEncoding, OptimisedUnaryEncoding, RandomisedResponse

KEY = b"a key of the tests, thirty-two b"


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
