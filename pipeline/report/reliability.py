"""Can I use this number? Three classes of a published number by its margin of error, in whole-number arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Margins are told in tenths of a person, rounded up; UNKNOWN where the measurements say nothing.
TENTHS = 10
UNKNOWN = -1


@dataclass(frozen=True)
class Class:
    """A class of numbers.

    Attributes:
        key: for programs.
        label: on its badge.
        rule: which numbers are of it.
        advice: what to do with them.
    """

    key: str
    label: str
    rule: str
    advice: str


#: Best first. A number is of the first class whose rule it fits.
CLASSES = (
    Class(
        "good",
        "Good for most uses",
        "the margin of error is at most a tenth of the number",
        "Use it as it stands. Give the margin with it where a decision hangs on it.",
    ),
    Class(
        "care",
        "Use with care",
        "the margin of error is at most half of the number",
        "Always give the margin with it. Two such numbers surely differ only if they are further apart than both "
        "margins together.",
    ),
    Class(
        "sum",
        "Do not use on its own",
        "the margin of error is more than half of the number, or the number is 0 with a margin",
        "Add it up with others first: take the larger area around it, or a coarser table. The sum is much more exact "
        "than its parts.",
    ),
)


def tenths(margins: NDArray[np.float64]) -> NDArray[np.int64]:
    """Margins in persons as tenths of a person, rounded up; UNKNOWN for NaN."""
    unknown = np.isnan(margins)
    # A margin that is a tenth but for the last bits of a floating-point number counts as that tenth.
    found = np.ceil(np.where(unknown, 0.0, margins) * TENTHS - 1e-6).astype(np.int64)
    return np.where(unknown, UNKNOWN, found)


def classes_of(counts: NDArray[np.int64], margins: NDArray[np.int64]) -> NDArray[np.int8]:
    """The number of each count's class in `CLASSES`.

    Args:
        counts: persons.
        margins: the half-widths of their intervals, see `tenths`; an unknown margin is of the last class.
    """
    good = 10 * margins <= counts * TENTHS
    care = 2 * margins <= counts * TENTHS
    found = np.where(good, 0, np.where(care, 1, 2))
    return np.where(margins == UNKNOWN, 2, found).astype(np.int8)
