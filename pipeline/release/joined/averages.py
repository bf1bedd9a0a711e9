"""The average household size and its interval, from the counts of persons and of households and their intervals.

The average is R = P / H. An interval of P - t H with ends of its own on either side (MOVER: Donner and Zou 2012,
"Closed-form confidence intervals for functions of the normal mean and standard deviation", Statistical Methods in
Medical Research 21) does not exclude 0 for the t between the roots of

    (P - t H)^2 = (P - P_low)^2 + t^2 (H_high - H)^2,   t <= R,
    (P - t H)^2 = (P_high - P)^2 + t^2 (H - H_low)^2,   t >= R,

which is Fieller's interval where those of the counts are symmetric. For t below 0 the ends of H are the other ones.
Released counts and the ends of their intervals are whole numbers: that a true count is from 3 to 7 says of a quantity
without steps that it is from 2.5 to 7.5, and the formula is for such. So each end of an interval of whole numbers is
taken half a record (or half a unit of an amount) further out (`Counted.of_whole`), but for one that is the count
itself: the truth is surely not beyond it, as that of an exact count.
Errors of P and H are taken as independent. They are not: released households have learned from the persons, so that
both err in the same direction, and the average errs less than is said here. A household has at least and at most so
many members, and so has the average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Counted:
    """Counts `(n,)` with the ends of their 90 % intervals; NaN where an interval is unknown, None for no intervals.

    The ends are those of numbers without steps; whole ones are given to `of_whole`.
    """

    counts: NDArray[np.int64]
    lows: Floats | None = None
    highs: Floats | None = None

    @classmethod
    def of_whole(cls, counts: NDArray[np.int64], lows: Floats | None, highs: Floats | None) -> Counted:
        """From intervals whose ends are whole numbers, both among those that the truth may be: half a step wider.

        An end that is the count itself is a limit, and stays.
        """
        if lows is None or highs is None:
            return cls(counts)
        return cls(counts, lows - 0.5 * (lows < counts), highs + 0.5 * (counts < highs))

    @classmethod
    def joined(cls, parts: Sequence[Counted]) -> Counted:
        """Those of successive geounits together, one part at least."""
        lows = [part.lows for part in parts if part.lows is not None]
        highs = [part.highs for part in parts if part.highs is not None]
        ends = [np.concatenate(side) if len(side) == len(parts) else None for side in (lows, highs)]
        return cls(np.concatenate([part.counts for part in parts]), *ends)


@dataclass(frozen=True, eq=False)
class Averages:
    """Average sizes `(n,)`, NaN where there are no households, and the ends of their intervals.

    Ends are NaN where there is no average or an interval of a count is unknown; None where there are no intervals.
    """

    values: Floats
    lows: Floats | None
    highs: Floats | None


def average_sizes(persons: Counted, households: Counted, least: int, most: int) -> Averages:
    """Persons for each household.

    Args:
        persons: in households; or sums of an amount, which may be below 0 where `least` is.
        households: all of them.
        least, most: members that one household can have.
    """
    p, h = persons.counts.astype(np.float64), households.counts.astype(np.float64)
    some = h > 0
    values = np.divide(p, h, out=np.full(len(h), np.nan), where=some)
    if persons.lows is None or persons.highs is None or households.lows is None or households.highs is None:
        return Averages(values, None, None)
    below, above, more = p - persons.lows, persons.highs - p, households.highs - h
    fewer = np.minimum(h - households.lows, h)  # there are no fewer than none
    if least < 0:
        low, high = _signed_low_end(p, h, below, more, fewer), -_signed_low_end(-p, h, above, more, fewer)
    else:
        low, high = _low_end(p, h, np.minimum(below, p), more), _high_end(p, h, above, fewer)
    known = some & ~np.isnan(low) & ~np.isnan(high)
    low = np.where(known, np.minimum(np.clip(low, least, most), values), np.nan)
    return Averages(values, low, np.where(known, np.maximum(np.clip(high, least, most), values), np.nan))


def _low_end(p: Floats, h: Floats, below: Floats, above: Floats) -> Floats:
    """The lower root, in a form that stays finite where H_high is far: P_low is not negative, so below <= p."""
    root = np.sqrt(np.maximum(above**2 * (p**2 - below**2) + below**2 * h**2, 0.0))
    denominator = p * h + root
    return np.divide(p**2 - below**2, denominator, out=np.where(np.isnan(root), np.nan, 0.0), where=denominator > 0)


def _high_end(p: Floats, h: Floats, above: Floats, below: Floats) -> Floats:
    """The upper root; infinite where there may be no households at all."""
    square = h**2 - below**2
    root = np.sqrt(np.maximum(p**2 * below**2 + above**2 * square, 0.0))
    return np.divide(p * h + root, square, out=np.where(np.isnan(root), np.nan, np.inf), where=square > 0)


def _signed_low_end(p: Floats, h: Floats, below: Floats, more: Floats, fewer: Floats) -> Floats:
    """The lower root, of any sign; infinite where there may be no households, and the sum may be below 0."""
    aside = np.where(p - below < 0, fewer, more)
    root = np.sqrt(np.maximum(aside**2 * (p**2 - below**2) + below**2 * h**2, 0.0))
    unknown = np.isnan(root)
    # The form without cancellation: of a sum from 0 on, and of one below.
    denominator, square = p * h + root, h**2 - aside**2
    # A sum of 0 that may be below it, of records of which there may be none: no mean is excluded.
    nothing = np.where(unknown, np.nan, np.where(below > 0, -np.inf, 0.0))
    of_gain = np.divide(p**2 - below**2, denominator, out=nothing, where=denominator > 0)
    of_loss = np.divide(p * h - root, square, out=np.where(unknown, np.nan, -np.inf), where=square > 0)
    return np.where(p < 0, of_loss, of_gain)
