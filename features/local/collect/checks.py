"""What parameters and values of a mechanism have to be; every message names what was found and what is allowed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError

#: Denominator of probabilities that are derived from an epsilon.
DENOMINATOR = 10**12
#: The longest list.
MOST_VALUES = 60_000
#: The largest denominator of a probability: its product with the length of a list is below 2^62.
MOST_DENOMINATOR = 10**12


def check_probability(key: str, found: Fraction, above: Fraction, below: Fraction, *, ends: bool = False) -> Fraction:
    """The probability.

    Args:
        key: its name.
        above, below: what it has to lie between.
        ends: they are allowed themselves.

    Raises:
        InputError: it lies outside, or its denominator is too large.
    """
    inside = above <= found <= below if ends else above < found < below
    if not inside:
        words = f"from {above} to {below}" if ends else f"of more than {above} and less than {below}"
        raise InputError(f"{key}: found {found}; a probability {words} is needed")
    if found.denominator > MOST_DENOMINATOR:
        raise InputError(f"{key}: found {found}; a denominator of at most {MOST_DENOMINATOR} is needed")
    return found


def whole_number(key: str, found: int, least: int, most: int) -> int:
    """The number.

    Raises:
        InputError: it lies outside.
    """
    if not least <= found <= most:
        raise InputError(f"{key}: found {found}; a whole number from {least} to {most} is needed")
    return found


def check_values(values: npt.ArrayLike, n_values: int) -> npt.NDArray[np.int64]:
    """Values as (n,) int64; the message of the error does not hold them.

    Raises:
        InputError: one is none of the mechanism.
    """
    given = np.asarray(values)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iub"):
        raise InputError("values: a list of whole numbers is needed")
    given = given.astype(np.int64)
    if given.size and not (given.min() >= 0 and given.max() < n_values):
        raise InputError(f"values: one is outside 0 to {n_values - 1}")
    return given
