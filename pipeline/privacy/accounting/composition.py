"""Other ways to count what several mechanisms cost together, for comparison; and what a budget means for a group.

A release states the least of the bounds that are sound for its mechanisms (`statements`); these show what the others
would state. Sequential composition over levels and queries and parallel composition over the disjoint geounits of a
level are not here: the first is the sum of rho or epsilon, the second is in `budget.MOVED`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from geography.errors import InputError
from pipeline.privacy.accounting.conversion import zcdp_epsilon, zcdp_epsilon_textbook


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


def moments_epsilon(rho: Fraction, delta: Fraction) -> float:
    """Renyi composition ("moments accountant"): each order's divergences added, then converted at the best order.

    rho-zCDP is a Renyi divergence of at most alpha rho at every order alpha, which are (alpha, alpha rho)-RDP, and
    these add up as rho does. Mironov 2017 (arXiv 1702.07476), proposition 3, gives alpha rho + ln(1 / delta) /
    (alpha - 1), least at alpha = 1 + sqrt(ln(1 / delta) / rho): the textbook's conversion of zCDP. The tight one of
    `zcdp_epsilon` starts from the same divergences.
    """
    return zcdp_epsilon_textbook(rho, delta)


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
