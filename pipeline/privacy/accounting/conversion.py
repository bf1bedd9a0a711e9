"""What a budget means as (epsilon, delta).

Zero-concentrated differential privacy (Bun and Steinke 2016) adds up, which is why budgets are stated in rho; the
functions here restate a rho as an epsilon at a given delta. Each returns an upper bound, rounded up, never down.
"""

from __future__ import annotations

import math
import sys
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from geography.errors import InputError

#: How statements cite `zcdp_epsilon`.
CONVERSION = "Canonne, Kamath and Steinke 2020 (arXiv 2004.00010), proposition 12 and corollary 13; rounded up"

_DIGITS = 80
_SLACK = Decimal("1e-30")  # beside 1 or the result, whichever is larger; the computations below lose less
_LARGEST_RHO = 1e100
_REACH, _STEP = 12.0, 0.05  # of the search for alpha, in ln(alpha - 1)


def zcdp_epsilon(rho: Fraction | float, delta: Fraction | float) -> float:
    """An epsilon that holds for every rho-zCDP mechanism at this delta, tight to a few percent, rounded up.

    For each order alpha > 1, rho-zCDP implies (epsilon, delta)-DP with
        delta = exp((alpha - 1) (alpha rho - epsilon)) / (alpha - 1) * (1 - 1 / alpha)^alpha
    (Canonne, Kamath and Steinke 2020, arXiv 2004.00010 version 4, proposition 12). Solved for epsilon:
        epsilon = alpha rho + (ln(1 / delta) + (alpha - 1) ln(1 - 1 / alpha) - ln alpha) / (alpha - 1).
    The best alpha is searched in floats; since any alpha gives a valid epsilon, the search can cost tightness only.
    Epsilon is then computed at that alpha with 80 digits.

    Args:
        rho: the budget, 0 or more.
        delta: above 0 and below 1.

    Raises:
        InputError: rho or delta is out of range.

    >>> round(zcdp_epsilon(2.63, 1e-6), 3)
    13.792
    """
    return _zcdp_epsilon(*_checked(rho, delta))


@lru_cache(maxsize=1024)  # statements of many universes ask for the same
def _zcdp_epsilon(exact_rho: Fraction, exact_delta: Fraction) -> float:
    if exact_rho == 0:
        return 0.0
    less = Decimal(_best_order_less_one(exact_rho, exact_delta))
    with localcontext(Context(prec=_DIGITS)):
        order = 1 + less
        bound = (
            order * _decimal(exact_rho, up=True)
            + (-_decimal(exact_delta, up=False).ln() + less * (less / order).ln() - order.ln()) / less
        )
        return _float_up(bound + _SLACK * (1 + abs(bound)))


def zcdp_epsilon_textbook(rho: Fraction | float, delta: Fraction | float) -> float:
    """The epsilon rho + 2 sqrt(rho ln(1 / delta)), rounded up (Bun and Steinke 2016, proposition 1.3).

    Simpler and larger than `zcdp_epsilon`; for comparison with statements that were computed so.

    Raises:
        InputError: rho or delta is out of range.

    >>> round(zcdp_epsilon_textbook(2.63, 1e-6), 3)
    14.686
    """
    exact_rho, exact_delta = _checked(rho, delta)
    with localcontext(Context(prec=_DIGITS)):
        decimal_rho = _decimal(exact_rho, up=True)
        bound = decimal_rho + 2 * (decimal_rho * -_decimal(exact_delta, up=False).ln()).sqrt()
        return _float_up(bound + _SLACK * bound)


def _checked(rho: Fraction | float, delta: Fraction | float) -> tuple[Fraction, Fraction]:
    if not 0 <= rho <= _LARGEST_RHO:
        raise InputError(f"rho: found {rho}; it must be at least 0 and at most {_LARGEST_RHO:g}")
    if not 0 < delta < 1:
        raise InputError(f"delta: found {delta}; it must be above 0 and below 1")
    return Fraction(rho), Fraction(delta)


def _best_order_less_one(rho: Fraction, delta: Fraction) -> float:
    """The alpha - 1 that nearly minimises epsilon, between 1e-32 and 1e32.

    With alpha = 1 + e^t, epsilon is (1 + e^t) rho + (ln(1/delta) - ln(1 + e^t)) e^-t - ln(1 + e^-t), and its least
    value is near e^t = sqrt(ln(1/delta) / rho), which the textbook's conversion uses.
    """
    log_rho = math.log(rho.numerator) - math.log(rho.denominator)
    surprise = (
        math.log(delta.denominator) - math.log(delta.numerator) if 2 * delta < 1 else -math.log1p(-float(1 - delta))
    )
    surprise = max(surprise, sys.float_info.min)  # of a delta that is 1 to all digits of a float
    float_rho = math.exp(log_rho)

    def epsilon(t: float) -> float:
        return (
            (1 + math.exp(t)) * float_rho
            + (surprise - math.log1p(math.exp(t))) * math.exp(-t)
            - math.log1p(math.exp(-t))
        )

    centre = min(max((math.log(surprise) - log_rho) / 2, -60.0), 60.0)
    steps = round(_REACH / _STEP)
    best = min((centre + i * _STEP for i in range(-steps, steps + 1)), key=epsilon)
    low, high = best - _STEP, best + _STEP
    for _ in range(40):
        third = (high - low) / 3
        if epsilon(low + third) < epsilon(high - third):
            high -= third
        else:
            low += third
    return math.exp((low + high) / 2)


def _decimal(value: Fraction, *, up: bool) -> Decimal:
    """`value` to 80 digits, rounded up or down."""
    context = Context(prec=_DIGITS, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def _float_up(value: Decimal) -> float:
    """The least float that is not below `value`, and not below 0."""
    if value <= 0:
        return 0.0
    nearest = float(value)
    return nearest if Decimal(nearest) >= value else math.nextafter(nearest, math.inf)
