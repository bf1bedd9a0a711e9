"""Statements of epsilon: published figures, an independent computation, and bounds on either side."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from pipeline.errors import InputError
from pipeline.privacy.accounting.conversion import zcdp_epsilon, zcdp_epsilon_textbook

RHOS = st.floats(1e-6, 1e3)
DELTAS = st.floats(1e-15, 1e-2)


def log_delta(rho: float, epsilon: float) -> float:
    """ln of the least delta of Canonne, Kamath and Steinke 2020, proposition 12, over alpha, in its first form."""

    def at(t: float) -> float:
        alpha = 1 + math.exp(t)
        return (alpha - 1) * (alpha * rho - epsilon) - t + alpha * (t - math.log(alpha))

    start = min((i / 10 for i in range(-300, 301)), key=at)
    return optimize.minimize_scalar(
        at, bounds=(start - 0.2, start + 0.2), method="bounded", options={"xatol": 1e-9}
    ).fun


def gaussian_epsilon(rho: float, delta: float) -> float:
    """Exact epsilon of the Gaussian mechanism that has this rho (Balle and Wang 2018, theorem 5)."""
    shift = math.sqrt(2 * rho)

    def excess(epsilon: float) -> float:
        upper = stats.norm.logcdf(shift / 2 - epsilon / shift)
        lower = epsilon + stats.norm.logcdf(-shift / 2 - epsilon / shift)
        return upper + math.log1p(-math.exp(min(lower - upper, -1e-300))) - math.log(delta)

    high = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    return optimize.brentq(excess, 1e-9 * high, high)


@settings(max_examples=40)
@given(rho=RHOS, delta=DELTAS)
def test_epsilon_is_the_tightest_of_the_formula(rho: float, delta: float) -> None:
    """The formula gives at most delta at epsilon, and more than delta a little below it."""
    epsilon = zcdp_epsilon(rho, delta)
    assert log_delta(rho, epsilon) <= math.log(delta) + 1e-6
    if epsilon > 0:
        assert log_delta(rho, epsilon * (1 - 1e-5)) > math.log(delta)


@settings(max_examples=40)
@given(rho=st.floats(1e-3, 100), delta=DELTAS)
def test_epsilon_is_between_the_gaussian_mechanism_and_the_textbook(rho: float, delta: float) -> None:
    """A bound for all rho-zCDP mechanisms cannot be below the exact epsilon of one of them."""
    assert gaussian_epsilon(rho, delta) <= zcdp_epsilon(rho, delta) <= zcdp_epsilon_textbook(rho, delta)


@settings(max_examples=40)
@given(rho=st.fractions(Fraction(1, 1000), 50), delta=st.integers(2, 40))
def test_the_textbook_is_rounded_up_and_by_little(rho: Fraction, delta: int) -> None:
    found = zcdp_epsilon_textbook(rho, Fraction(1, 10**delta))
    with localcontext(Context(prec=200)):
        decimal_rho = Decimal(rho.numerator) / Decimal(rho.denominator)
        exact = decimal_rho + 2 * (decimal_rho * delta * Decimal(10).ln()).sqrt()
        assert exact <= Decimal(found) <= exact * (1 + Decimal("3e-16"))


def test_epsilon_is_rounded_up() -> None:
    """At the minimum over alpha, found here in 60-digit decimals by golden section."""
    with localcontext(Context(prec=60)):
        rho, log = Decimal("2.5"), 10 * Decimal(10).ln()

        def at(alpha: Decimal) -> Decimal:
            return alpha * rho + (log + (alpha - 1) * (1 - 1 / alpha).ln() - alpha.ln()) / (alpha - 1)

        low, high, golden = Decimal(2), Decimal(8), (Decimal(5).sqrt() - 1) / 2
        while high - low > Decimal("1e-25"):
            a, b = high - golden * (high - low), low + golden * (high - low)
            low, high = (low, b) if at(a) < at(b) else (a, high)
        exact = at(low)
        assert exact <= Decimal(zcdp_epsilon(Fraction(5, 2), Fraction(1, 10**10))) <= exact * (1 + Decimal("1e-13"))


@pytest.mark.parametrize("rho", [0, 1e-300, 1e-12, 1e9, 1e100, Fraction(1, 10**400)])
@pytest.mark.parametrize("delta", [1e-300, 1e-10, 0.999, Fraction(1, 10**400), 1 - Fraction(1, 10**30)])
def test_extreme_budgets_have_a_finite_statement(rho: float, delta: float) -> None:
    assert 0 <= zcdp_epsilon(rho, delta) < math.inf
    assert zcdp_epsilon(0, delta) == 0


@pytest.mark.parametrize(
    ("rho", "delta", "message"),
    [
        (-1, 1e-6, "rho: found -1"),
        (math.nan, 1e-6, "rho: found nan"),
        (math.inf, 1e-6, "rho: found inf"),
        (1, 0, "delta: found 0"),
        (1, 1, "delta: found 1"),
        (1, math.nan, "delta: found nan"),
    ],
)
def test_senseless_arguments_are_refused(rho: float, delta: float, message: str) -> None:
    for convert in (zcdp_epsilon, zcdp_epsilon_textbook):
        with pytest.raises(InputError, match=message):
            convert(rho, delta)
