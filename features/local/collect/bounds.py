"""Epsilon and exact probabilities: every rounding goes to the side that does not understate the loss."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

#: Decimals of a stated epsilon.
_PLACES = Decimal("1e-10")
_WORKING = Context(prec=60)
#: Larger than all errors of the working precision together.
_SLACK = Decimal("1e-40")


def epsilon_of(ratio: Fraction) -> Decimal:
    """The smallest number of ten decimals that is at least ln(ratio), but for a slack of 1e-40.

    Raises:
        ValueError: the ratio is less than 1.
    """
    if ratio < 1:
        raise ValueError(f"a ratio of at least 1 is needed, got {ratio}")
    if ratio == 1:
        return Decimal(0)
    exact = _WORKING.subtract(_WORKING.ln(Decimal(ratio.numerator)), _WORKING.ln(Decimal(ratio.denominator)))
    places = _WORKING.add(exact, _SLACK).quantize(_PLACES, rounding=ROUND_CEILING, context=_WORKING)
    return Decimal(f"{places:f}".rstrip("0").rstrip("."))


def exp_below(exponent: Fraction) -> Fraction:
    """A fraction that is at most e^exponent, and less than 1e-15 of it below: a partial sum of its series.

    Args:
        exponent: from 0 to 40.

    Raises:
        ValueError: the exponent is outside.
    """
    if not 0 <= exponent <= 40:
        raise ValueError(f"an exponent from 0 to 40 is needed, got {exponent}")
    term = total = Fraction(1)
    step = 0
    # Past 2 x exponent terms at least halve, so that what is left out is at most the last term.
    while step <= 2 * exponent or term > total * Fraction(1, 10**16):
        step += 1
        term = term * exponent / step
        total += term
    return total


def least_share(ratio: Fraction, denominator: int) -> Fraction:
    """The smallest i / denominator that is at least 1 / (ratio + 1): a probability of lying that keeps `ratio`."""
    return Fraction(-(-denominator // (ratio + 1)), denominator)
