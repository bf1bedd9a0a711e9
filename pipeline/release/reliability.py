"""Can I use this number? Three classes of a published number by its margin of error, in whole-number arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.model.texts.message import marked
from postprocess.arrays import BoolArray, FloatArray, IntArray

#: Margins are stated in tenths of a person, rounded up; UNKNOWN where the measurements say nothing, EXACT where the
#: public problem fixes the number.
TENTHS = 10
UNKNOWN, EXACT = -1, -2


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
        marked("Good for most uses"),
        marked("the number is exact, or its margin of error is at most a tenth of the number"),
        marked("Use it as it is. Quote the margin of error when a decision depends on it."),
    ),
    Class(
        "care",
        marked("Use with care"),
        marked("the margin of error is at most half of the number"),
        marked(
            "Always quote the margin of error. Treat two such numbers as different only if they differ by more than "
            "the sum of their margins of error."
        ),
    ),
    Class(
        "unreliable",
        marked("Do not use on its own"),
        marked(
            "the margin of error is more than half of the number, or is not known, or the number is 0 and not exact"
        ),
        marked("Use the larger area around it, or a coarser table: the relative error is smaller there."),
    ),
)


def tenths(margins: FloatArray, exact: BoolArray | None = None) -> IntArray:
    """Margins in persons as tenths of a person, rounded up; UNKNOWN for NaN, EXACT where `exact` says so."""
    unknown = np.isnan(margins)
    # A margin that is a tenth but for the last bits of a floating-point number counts as that tenth.
    rounded = np.ceil(np.where(unknown, 0.0, margins) * TENTHS - 1e-6).astype(np.int64)
    rounded = np.where(unknown, UNKNOWN, rounded)
    return rounded if exact is None else np.where(exact, EXACT, rounded)


def classes_of(counts: IntArray, margins: IntArray) -> NDArray[np.int8]:
    """The number of each count's class in `CLASSES`.

    A number that is not exact counts as having a margin of one person at least: that simulated runs did not err is no
    proof.

    Args:
        counts: persons.
        margins: the half-widths of their intervals, see `tenths`; an unknown margin is of the last class.
    """
    least = np.maximum(margins, TENTHS)
    good = 10 * least <= counts * TENTHS
    care = 2 * least <= counts * TENTHS
    classes = np.where(good, 0, np.where(care, 1, 2))
    return np.where(margins == EXACT, 0, np.where(margins == UNKNOWN, 2, classes)).astype(np.int8)


def classes_in(counts: IntArray, margins: FloatArray) -> NDArray[np.int8]:
    """The number of each count's class in `CLASSES`, from a published table alone.

    Args:
        counts: persons.
        margins: of error, in persons; NaN where unknown. One of 0 says that the number is exact.
    """
    return classes_of(counts, tenths(margins, margins == 0))
