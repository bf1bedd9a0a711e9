"""Epsilon is never understated, and a probability that is derived from one never exceeds it."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from oracles.randomisers import exp_at_least

from features.local.collect.listed import DirectEncoding, OptimisedUnaryEncoding, RandomisedResponse
from features.local.collect.mechanism import epsilon_of, exp_below

RATIOS = [Fraction(n, d) for n, d in ((3, 1), (3, 2), (9, 1), (81, 1), (1001, 1000), (10**12 + 1, 10**12), (7, 3))]
RATIOS += [Fraction(k * k + k + 1, k * k) for k in range(1, 60)]


@pytest.mark.parametrize("ratio", RATIOS, ids=str)
def test_epsilon_bounds_the_ratio_and_no_more(ratio: Fraction) -> None:
    epsilon = epsilon_of(ratio)
    assert exp_at_least(Fraction(epsilon), ratio)
    assert not exp_at_least(Fraction(epsilon) - Fraction(2, 10**10), ratio)


def test_rounding_to_the_nearest_would_be_noticed() -> None:
    """The seeded fault: the logarithm as a float, rounded as usual, understates about half of them."""
    understated = [ratio for ratio in RATIOS if not exp_at_least(Fraction(str(round(math.log(ratio), 10))), ratio)]
    assert len(understated) > 15


def test_epsilon_of_whole_numbers_is_plain_text() -> None:
    assert epsilon_of(Fraction(1)) == 0
    assert str(epsilon_of(exp_below(Fraction(10)))) == "10"
    assert epsilon_of(Fraction(3)) == Decimal("1.0986122887")
    with pytest.raises(ValueError, match="at least 1"):
        epsilon_of(Fraction(1, 2))


@pytest.mark.parametrize(
    "exponent", [Fraction(0), Fraction(1, 100), Fraction(1), Fraction(5, 2), Fraction(20)], ids=str
)
def test_the_exponential_is_approached_from_below(exponent: Fraction) -> None:
    below = exp_below(exponent)
    assert exp_at_least(exponent, below)
    assert exponent == 0 or not exp_at_least(exponent, below * (1 + Fraction(1, 10**15)))
    with pytest.raises(ValueError, match="0 to 40"):
        exp_below(Fraction(41))


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 2), Fraction(1), Fraction(3), Fraction(10)], ids=str)
def test_mechanisms_of_an_epsilon_keep_it_and_use_it(epsilon: Fraction) -> None:
    small = Fraction(1, 10**12)
    response = RandomisedResponse.for_epsilon(epsilon)
    direct = DirectEncoding.for_epsilon(12, epsilon)
    unary = OptimisedUnaryEncoding.for_epsilon(12, epsilon)
    for mechanism, beyond in (
        (response, RandomisedResponse(response.p + small)),
        (direct, DirectEncoding(12, direct.p + small)),
        (unary, OptimisedUnaryEncoding(12, unary.q - small)),
    ):
        assert exp_at_least(epsilon, mechanism.ratio)
        assert not exp_at_least(epsilon, beyond.ratio)
