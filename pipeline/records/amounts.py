"""Amounts in a file, such as wages -> the step of the public grid that each counts as, or where it is among ends."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final

from pipeline.model.schema import AmountAttribute, ClippedAttribute, ListedAttribute

# No number of more digits is written; and Fraction would take an exponent of any size, for hours.
_AMOUNT: Final = re.compile(r"[+-]?([0-9]{1,40}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,3})?", re.ASCII)


class AmountNumbers(Mapping[str, int]):
    """The text of an amount -> the number of its value; what is no amount has none.

    Clip and rounding happen here, before anything is counted, so that no record counts more than the grid allows.
    """

    def __init__(self, attribute: AmountAttribute | ClippedAttribute | ListedAttribute) -> None:
        self._attribute = attribute

    def __getitem__(self, text: str) -> int:
        if not text:
            if self._attribute.missing is None:
                raise KeyError(text)
            return self._attribute.number_of(self._attribute.missing)
        if _AMOUNT.fullmatch(text) is None:
            raise KeyError(text)
        return self._attribute.number_of(Fraction(text))

    def __iter__(self) -> Iterator[str]:
        """What messages show as allowed."""
        yield "a number such as 1200 or 0.5"

    def __len__(self) -> int:
        return 1
