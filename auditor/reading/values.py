"""What is passed on: arrays, exact sums, and tables of a manifest, a spec or a ledger as JSON has them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from decimal import Context, Decimal, getcontext
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
#: What names stand for in a text of somebody else, about which nothing is known.
Stated = Mapping[str, Any]


def zeros(n: int | tuple[int, ...]) -> IntArray:
    """Whole numbers, all 0."""
    return np.zeros(n, dtype=np.int64)


def sums(n: int | tuple[int, ...], at: IntArray | tuple[IntArray, ...], numbers: IntArray) -> IntArray:
    """The numbers of each place added, of `n` places."""
    found = zeros(n)
    np.add.at(found, at, numbers)
    return found


def exact_sum(amounts: Iterable[Fraction]) -> Fraction:
    """The exact sum."""
    return sum(amounts, Fraction(0))


def as_decimal(exact: Fraction, context: Context | None = None) -> Decimal:
    """A fraction to the digits of a context, or of the one that is set."""
    return (context or getcontext()).divide(Decimal(exact.numerator), Decimal(exact.denominator))


def digest(content: object) -> str:
    """SHA-256 of a text of JSON, in hexadecimal."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
