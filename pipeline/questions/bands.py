"""The order of an attribute's values, as their names state it: "65", "0-4", "18 to 64", "65+", "under 18"."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final

__all__ = ["Band", "band_of"]

_NUMBER = r"(\d{1,12})"
_YEARS = r"(?:\s*(?:years?|yrs?))?"
_BETWEEN = re.compile(rf"{_NUMBER}\s*(?:-|–|\.\.|_|to)\s*{_NUMBER}{_YEARS}", re.ASCII)
_FROM = re.compile(rf"{_NUMBER}{_YEARS}\s*(?:\+|plus|(?:and|or) (?:over|older|more))", re.ASCII)
_UNDER = re.compile(rf"(?:under|below|<)\s*{_NUMBER}{_YEARS}", re.ASCII)
_ONE = re.compile(_NUMBER + _YEARS, re.ASCII)


@dataclass(frozen=True)
class Band:
    """The numbers that a value stands for: from `low` to `high`; None where there is no end."""

    low: Fraction | None
    high: Fraction | None

    def compared(self, operator: str, number: Fraction) -> bool | None:
        """Whether `band operator number` holds: for all of its numbers, for none, or None for some of them."""
        return _COMPARED[operator](self, number)

    def _least_at(self, number: Fraction) -> bool | None:
        """Whether all numbers are at least `number`; None for some."""
        if self.low is not None and self.low >= number:
            return True
        return False if self.high is not None and self.high < number else None

    def _above(self, number: Fraction) -> bool | None:
        if self.low is not None and self.low > number:
            return True
        return False if self.high is not None and self.high <= number else None


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


_COMPARED: Final[Mapping[str, Callable[[Band, Fraction], bool | None]]] = MappingProxyType(
    {
        ">=": Band._least_at,
        ">": Band._above,
        "<": lambda band, number: _not(band._least_at(number)),
        "<=": lambda band, number: _not(band._above(number)),
    }
)


def band_of(value: str) -> Band | None:
    """The whole numbers that a value's name states; None where it states none.

    >>> band_of("18-64"), band_of("asian")
    (Band(low=Fraction(18, 1), high=Fraction(64, 1)), None)
    """
    text = value.strip().lower()
    if found := _BETWEEN.fullmatch(text):
        low, high = Fraction(found[1]), Fraction(found[2])
        return Band(low, high) if low <= high else None
    if found := _FROM.fullmatch(text):
        return Band(Fraction(found[1]), None)
    if found := _UNDER.fullmatch(text):
        return Band(None, Fraction(found[1]) - 1)
    if found := _ONE.fullmatch(text):
        return Band(Fraction(found[1]), Fraction(found[1]))
    return None
