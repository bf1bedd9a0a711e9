"""What a budget means as (epsilon, delta), and for a group; and other ways to count, for comparison.

Zero-concentrated differential privacy (Bun and Steinke 2016) adds up, which is why budgets are stated in rho;
`zcdp_epsilon` restates a rho as an epsilon at a given delta: an upper bound, rounded up, never down.

A release states the least of the bounds that are sound for its mechanisms (`statements`); the other ways show what they
would state. Sequential composition over levels and queries and parallel composition over the disjoint geounits of a
level are not here: the first is the sum of rho or epsilon, the second is in `budget.MOVED`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
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

    Simpler and larger than `zcdp_epsilon`; for comparison with statements that were computed so, and by Renyi
    composition ("moments accountant"): rho-zCDP is a Renyi divergence of at most alpha rho at every order alpha, which
    add up as rho does, and Mironov 2017 (arXiv 1702.07476), proposition 3, gives alpha rho + ln(1 / delta) /
    (alpha - 1), least at alpha = 1 + sqrt(ln(1 / delta) / rho). The tight one starts from the same divergences.

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


def basic_epsilon(rhos: Sequence[Fraction], delta: Fraction) -> float:
    """The sum of the mechanisms' own epsilons, each at its part of delta.

    Sequential composition of (epsilon, delta) guarantees (Dwork, Kenthapadi, McSherry, Mironov and Naor 2006), delta
    shared equally.
    """
    used = [rho for rho in rhos if rho]
    return math.fsum(zcdp_epsilon(rho, delta / len(used)) for rho in used)


def advanced_epsilon(rhos: Sequence[Fraction], delta: Fraction) -> float:
    """Advanced composition of the mechanisms' own epsilons; half of delta for them, half for the composition."""
    used = [rho for rho in rhos if rho]
    if not used:
        return 0.0
    return advanced_composition([zcdp_epsilon(rho, delta / (2 * len(used))) for rho in used], delta / 2)


def advanced_composition(epsilons: Sequence[float], slack: Fraction) -> float:
    """The epsilon of mechanisms with these epsilons, at a delta that is `slack` larger than the sum of theirs.

    The sum of e (exp(e) - 1) / (exp(e) + 1), plus the root of 2 ln(1 / slack) times the sum of e^2 (Kairouz, Oh and
    Viswanath 2015, arXiv 1311.0776, theorem 3.5), or the sum of the epsilons where that is less.
    """
    drift = math.fsum(e * math.tanh(e / 2) for e in epsilons)
    spread = math.sqrt(2 * _surprise(slack) * math.fsum(e * e for e in epsilons))
    return min(drift + spread, math.fsum(epsilons))


def gaussian_epsilon(rho: Fraction, delta: Fraction) -> float:
    """The exact epsilon of one Gaussian mechanism on the real numbers that has this rho.

    Balle and Wang 2018 (arXiv 1805.06530), theorem 8, with L2 sensitivity / sigma = sqrt(2 rho). Real-valued Gaussians
    with L2 sensitivity sqrt 2 compose to it. Whole-number noise only comes near it, from above or below: not a bound.

    >>> round(gaussian_epsilon(Fraction(263, 100), Fraction(1, 10**6)), 3)
    12.993
    """
    from scipy import special  # slow to import, and rarely needed

    shift = math.sqrt(2 * rho)
    if shift == 0:
        return 0.0

    def surprise(epsilon: float) -> float:
        """ln(1 / delta) at this epsilon."""
        upper = special.log_ndtr(shift / 2 - epsilon / shift)
        lower = epsilon + special.log_ndtr(-shift / 2 - epsilon / shift)
        return float(math.inf if lower >= upper else -(upper + math.log1p(-math.exp(lower - upper))))

    low, high, target = 0.0, zcdp_epsilon_textbook(rho, delta), _surprise(delta)
    if surprise(low) >= target:
        return 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if surprise(middle) < target else (low, middle)
    return high


def group_budget(framework: str, budget: Fraction, size: int) -> Fraction:
    """The budget that holds for any `size` records together, such as those of a household.

    rho grows with the square of the size (Bun and Steinke 2016, proposition 1.9), epsilon with the size (Dwork and Roth
    2014, theorem 2.2).

    Raises:
        InputError: the size is below 1.
    """
    if size < 1:
        raise InputError(f"group privacy: found a group of {size} records; at least 1 is needed")
    return budget * size ** (2 if framework == "zcdp" else 1)


def _surprise(delta: Fraction) -> float:
    """ln(1 / delta), also of a delta too small for a float."""
    return math.log(delta.denominator) - math.log(delta.numerator)
