"""Rigorous enclosures of real numbers in [0, 1] by whole numbers.

A number x is enclosed at `bits` bits by a pair of ints `lower <= 2^bits x <= upper`. Lower ends are rounded down and
upper ends up at every step, so that an enclosure holds whatever the number of steps; Python's ints do not overflow.
"""

from __future__ import annotations

from fractions import Fraction

Enclosure = tuple[int, int]


def exp_minus(x: Fraction, bits: int) -> Enclosure:
    """Enclosure of e^-x for x >= 0.

    The Taylor series of e^-y at y = x / 2^halvings < 2^-8, whose terms alternate and fall, so that what is left out is
    between 0 and the first term left out; then squared `halvings` times.
    """
    if x < 0:
        raise ValueError(f"exp_minus: found x = {x}; it must not be negative")
    if x >= bits:
        return 0, 1  # e^-x < 2^-x <= 2^-bits
    halvings = max(0, (x.numerator // x.denominator).bit_length() + 8)
    working = bits + halvings + 16
    one = 1 << working
    y_lower = (x.numerator << working) // (x.denominator << halvings)
    y_upper = y_lower + 1
    lower = upper = term_lower = term_upper = one
    n = 0
    while term_upper > 1:
        n += 1
        term_lower = term_lower * y_lower // (n << working)
        term_upper = -(-term_upper * y_upper // (n << working))
        if n % 2:
            lower, upper = lower - term_upper, upper - term_lower
        else:
            lower, upper = lower + term_lower, upper + term_upper
    lower, upper = max(lower - term_upper, 0), min(upper + term_upper, one)
    for _ in range(halvings):
        lower, upper = multiply((lower, upper), (lower, upper), working)
    shift = working - bits
    return lower >> shift, -(-upper >> shift)


def multiply(a: Enclosure, b: Enclosure, bits: int) -> Enclosure:
    """Enclosure of the product."""
    return a[0] * b[0] >> bits, -(-a[1] * b[1] >> bits)


def divide(a: Enclosure, b: Enclosure, bits: int) -> Enclosure:
    """Enclosure of a / b, for b above 0."""
    return (a[0] << bits) // b[1], -((-a[1] << bits) // b[0])
