"""Exact numbers in a manifest: text, as this program writes them."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Final

from pydantic import AfterValidator

__all__ = ["Exact", "Positive"]


def _exact(text: str) -> str:
    if not _EXACT.fullmatch(text):
        raise ValueError(f"found {text[:40]!r}; a whole number or a fraction of two is needed")
    return text


def _positive(text: str) -> str:
    if Fraction(_exact(text)) <= 0:
        raise ValueError(f"found {text[:40]!r}; it must be above 0")
    return text


#: An exact number as text, as this program writes them: no exponent, which could stand for a number of any length.
_EXACT: Final = re.compile(r"-?[0-9]{1,400}(/0*[1-9][0-9]{0,399})?", re.ASCII)
Exact = Annotated[str, AfterValidator(_exact)]
Positive = Annotated[str, AfterValidator(_positive)]
