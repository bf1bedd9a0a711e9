"""Enclosures hold, against decimals of far higher precision, and are narrow."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.privacy.noise.fixed_point import divide, exp_minus, multiply


def _exp_minus(x: Fraction, digits: int = 500) -> Fraction:
    with localcontext(Context(prec=digits)):
        return Fraction((-Decimal(x.numerator) / Decimal(x.denominator)).exp())


@settings(max_examples=40)
@given(x=st.fractions(0, 600, max_denominator=10**12), bits=st.sampled_from([16, 64, 192, 320, 1024]))
def test_the_exponential_is_enclosed(x: Fraction, bits: int) -> None:
    lower, upper = exp_minus(x, bits)
    assert lower <= _exp_minus(x) * 2**bits <= upper
    assert upper - lower <= 2


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 10**30), Fraction(10**9), Fraction(192), Fraction(1919, 10)])
def test_the_exponential_at_its_ends(x: Fraction) -> None:
    lower, upper = exp_minus(x, 192)
    with localcontext(Context(prec=200, Emin=-(10**12))):
        exact = (-Decimal(x.numerator) / Decimal(x.denominator)).exp() * 2**192
        assert lower - Decimal("1e-90") <= exact <= upper + Decimal("1e-90")
    assert upper - lower <= 2


def test_a_negative_exponent_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        exp_minus(Fraction(-1), 64)


@settings(max_examples=40)
@given(
    a=st.fractions(0, 1),
    b=st.fractions(Fraction(1, 1000), 2),
    widths=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    bits=st.integers(16, 200),
)
def test_products_and_quotients_are_enclosed(a: Fraction, b: Fraction, widths: tuple[int, int], bits: int) -> None:
    one = 1 << bits
    enclosure_a = int(a * one) - widths[0], int(a * one) + 1 + widths[0]
    enclosure_b = max(int(b * one) - widths[1], 1), int(b * one) + 1 + widths[1]
    enclosure_a = max(enclosure_a[0], 0), enclosure_a[1]
    lower, upper = multiply(enclosure_a, enclosure_b, bits)
    assert lower <= a * b * one <= upper
    lower, upper = divide(enclosure_a, enclosure_b, bits)
    assert lower <= a / b * one <= upper
