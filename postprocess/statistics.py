"""The statistics of published numbers: 90 % intervals, of single numbers, ratios, differences and averages; and ranks.

Each rule is here once: publishing, plans, readers of a release and answers of questions take it from here, so that one
number has one interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np

from postprocess.arrays import BoolArray, Ends, FloatArray, IntArray

#: Of repetitions in which an interval covers the true number.
COVERAGE: Final = 0.9
#: 90 % quantile of the absolute value of a standard normal.
NORMAL_QUANTILE: Final = 1.6448536269514722
#: Mean absolute value of a standard normal: sqrt(2 / pi).
MEAN_ABSOLUTE: Final = math.sqrt(2 / math.pi)
#: Variances below this, in persons squared, are those of numbers that are exact.
EXACT_VARIANCE: Final = 1e-9
#: Standard errors below this, in persons, are those of numbers that are exact.
EXACT_STANDARD: Final = math.sqrt(EXACT_VARIANCE)


# -- the interval of a number ---------------------------------------------------------------------------------------


def is_exact(standard: FloatArray) -> BoolArray:
    """Which numbers are exact, by their standard errors; those without one (NaN) are not."""
    return standard < EXACT_STANDARD


def holding(low: FloatArray, high: FloatArray, counts: IntArray) -> Ends:
    """The ends of intervals, from 0 on, with the released counts and a person to each side of them in."""
    return np.maximum(np.minimum(low, counts - 1), 0), np.maximum(high, counts + 1)


def around(counts: IntArray, estimates: FloatArray, standard: FloatArray) -> Ends:
    """90 % intervals around unbiased estimates, which hold the released counts; all arrays of one shape.

    Of whole truths as many are within 1.645 standard errors as of any: nothing is added for rounding. NaN where the
    standard error is not finite.
    """
    reach = np.where(np.isfinite(standard), NORMAL_QUANTILE * standard, np.nan)
    return holding(np.ceil(estimates - reach), np.floor(estimates + reach), counts)


def half_widths(standard: FloatArray, least: float = 1.0) -> FloatArray:
    """Half the width of a 90 % interval, in whole persons; 0 where exact, else `least` or more; NaN where unknown.

    It is rounded to the nearest: counts are whole, so an interval of m reaches errors of up to m + 1/2.

    Args:
        standard: standard errors, NaN where they are unknown.
        least: 1 for a number, which looked exact otherwise; 0 for a difference of two.
    """
    return np.where(is_exact(standard), 0.0, np.maximum(np.rint(NORMAL_QUANTILE * standard), least))


def typical_half_width(variances: FloatArray) -> float | None:
    """Median of half the widths, not rounded, of numbers that are known with an error; None where there are none."""
    noisy = variances[variances > EXACT_VARIANCE]
    return float(NORMAL_QUANTILE * np.sqrt(np.median(noisy))) if noisy.size else None


# -- ratios, shares and differences of two numbers with correlated errors -------------------------------------------


class Moments(NamedTuple):
    """Variances of two numbers and their covariance, of one shape; 0 where exact, NaN where not determined."""

    left: FloatArray
    right: FloatArray
    both: FloatArray


def ratio_interval(x: FloatArray, y: FloatArray, moments: Moments) -> tuple[FloatArray, FloatArray]:
    """Ends of the interval of x / y, the shape of both; infinite where y may be 0, NaN where something is not known.

    Fieller (1954), "Some problems in interval estimation": every theta for which x - theta y is not significantly
    different from 0,

        (x - theta y)^2 <= 1.645^2 (v_x - 2 theta v_xy + theta^2 v_y),

    with variances v_x, v_y and covariance v_xy. Unlike the delta method it is right where y is not far from 0, and has
    no end then.
    """
    square = NORMAL_QUANTILE * NORMAL_QUANTILE
    a = y * y - square * moments.right
    b = x * y - square * moments.both
    # b^2 - a (x^2 - 1.645^2 v_x), of which 1.645^2 is a factor: multiplied out, the two squares would cancel.
    rest = moments.left * a + moments.right * x * x - moments.both * (x * y + b)
    with np.errstate(divide="ignore", invalid="ignore"):
        root = NORMAL_QUANTILE * np.sqrt(np.maximum(rest, 0.0))
        low, high = (b - root) / a, (b + root) / a
    unbounded = a <= 0
    return np.where(unbounded, -np.inf, low), np.where(unbounded, np.inf, high)


def share_interval(x: FloatArray, y: FloatArray, moments: Moments) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Share x / y of a part in its whole, in percent, and the ends of its interval within 0 and 100."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(y > 0, 100.0 * x / y, np.nan)
    low, high = ratio_interval(x, y, moments)
    return share, np.clip(100.0 * low, 0.0, 100.0), np.clip(100.0 * high, 0.0, 100.0)


def difference_interval(
    values: FloatArray, low: FloatArray, high: FloatArray, correlation: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The difference of two numbers and its interval, from those of each, `(2, k)`, and the errors' correlation `(k,)`.

    Method of variance estimates recovery (MOVER: Donner and Zou 2012, "Closed-form confidence intervals for functions
    of the normal mean and standard deviation", Statistical Methods in Medical Research 21): each end is as far from the
    difference as the nearer ends of both intervals let it be.
    """
    below, above = values - low, high - values
    difference = values[0] - values[1]

    def reach(one: FloatArray, other: FloatArray) -> FloatArray:
        return np.sqrt(np.maximum(one**2 + other**2 - 2.0 * correlation * one * other, 0.0))

    return difference, difference - reach(below[0], above[1]), difference + reach(above[0], below[1])


# -- averages: ratios of two numbers whose intervals have ends of their own on either side --------------------------


@dataclass(frozen=True, eq=False)
class Counted:
    """Counts `(n,)` with the ends of their 90 % intervals; NaN where an interval is unknown, None for no intervals.

    The ends are those of numbers without steps; whole ones are given to `of_whole`.
    """

    counts: IntArray
    lows: FloatArray | None = None
    highs: FloatArray | None = None

    @classmethod
    def of_whole(cls, counts: IntArray, lows: FloatArray | None, highs: FloatArray | None) -> Counted:
        """From intervals whose ends are whole numbers, both among those that the truth may be: half a step wider.

        That a true count is from 3 to 7 says of a quantity without steps that it is from 2.5 to 7.5. An end that is the
        count itself is a limit, as that of an exact count, and stays.
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

    values: FloatArray
    lows: FloatArray | None
    highs: FloatArray | None

    def each(self, change: Callable[[FloatArray], FloatArray]) -> Averages:
        """The same with values and ends changed alike."""
        low, high = (None if end is None else change(end) for end in (self.lows, self.highs))
        return Averages(change(self.values), low, high)


def average_sizes(persons: Counted, households: Counted, least: int, most: int) -> Averages:
    """Persons for each household, theta = r_1 / r_2, and its interval by MOVER (see `difference_interval`).

    An interval of r_1 - theta r_2 with ends of its own on either side does not exclude 0 for the theta between the
    roots of

        (r_1 - theta r_2)^2 = (r_1 - low r_1)^2 + theta^2 (high r_2 - r_2)^2,   theta <= r_1 / r_2,
        (r_1 - theta r_2)^2 = (high r_1 - r_1)^2 + theta^2 (r_2 - low r_2)^2,   theta >= r_1 / r_2,

    which is `ratio_interval` where those of the counts are symmetric. For theta below 0 the ends of r_2 are the other
    ones. Errors of r_1 and r_2 are taken as independent. They are not: released households have learned from the
    persons, so that both err in the same direction, and the average errs less than is said here. A household has at
    least and at most so many members, and so has the average.

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
    if least >= 0:
        below = np.minimum(below, p)
    low, high = _low_end(p, h, below, more, fewer), -_low_end(-p, h, above, more, fewer)
    known = some & ~np.isnan(low) & ~np.isnan(high)
    low = np.where(known, np.minimum(np.clip(low, least, most), values), np.nan)
    return Averages(values, low, np.where(known, np.maximum(np.clip(high, least, most), values), np.nan))


def _low_end(p: FloatArray, h: FloatArray, below: FloatArray, more: FloatArray, fewer: FloatArray) -> FloatArray:
    """The lower root, of any sign; infinite where there may be no households, and the sum may be below 0.

    The upper root is that of minus the sum, with the other sign.
    """
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


# -- order statistics -----------------------------------------------------------------------------------------------


def quantile_of(values: FloatArray, percent: int) -> float | None:
    """The least of the values `(n,)` that `percent` % of them do not exceed, NaN left out; None where none is left."""
    known = np.sort(values[~np.isnan(values)])
    return float(known[_rank(len(known), percent) - 1]) if len(known) else None


def quantile_class(numbers: IntArray, percent: int) -> int | None:
    """The first class up to which `percent` % of all lie, given how many are in each `(n,)`; None where none are."""
    total = int(numbers.sum())
    return int(np.searchsorted(np.cumsum(numbers), _rank(total, percent))) if total else None


def _rank(n: int, percent: int) -> int:
    """The least whole number that is at least `percent` % of n."""
    return -(-n * percent // 100)


def median_weights(n_values: int) -> FloatArray:
    """Weights `(n_values, n_values)` on the values that make t_k of each k: 1/2 up to k, -1/2 above."""
    return np.where(np.tri(n_values, dtype=bool), 0.5, -0.5)


def median_interval(counts: IntArray, variances: FloatArray) -> tuple[IntArray, IntArray, IntArray]:
    """Numbers `(n,)` of the value with the median, the lowest and the highest that it may be; -1 where nobody is known.

    Woodruff (1952): the median is at value k or below exactly if those up to k are half of all or more. So the interval
    is that of values which this test cannot exclude, by t_k = c_k - n/2, c_k being the count up to k and n that of all.

    Args:
        counts: of the values in order, `(n, n_values)`.
        variances: of t_k for each k, the same shape; all values where one of them is NaN.
    """
    last = counts.shape[1] - 1
    total = counts.sum(axis=1)
    tested = np.cumsum(counts, axis=1) - total[:, None] / 2
    reach = NORMAL_QUANTILE * np.sqrt(variances)
    unknown = np.isnan(reach).any(axis=1)
    median = np.where(total > 0, (tested >= 0).argmax(axis=1), -1)
    possible, sure = tested >= -reach, tested >= reach
    low = np.where(unknown | ~possible.any(axis=1), 0, possible.argmax(axis=1))
    high = np.where(unknown | ~sure.any(axis=1), last, sure.argmax(axis=1))
    return median.astype(np.int64), low.astype(np.int64), high.astype(np.int64)


def reach_at_once(n: int) -> float:
    """Standard errors to each side that hold n numbers at once, however their errors are correlated (Bonferroni)."""
    return NormalDist().inv_cdf(1 - (1 - COVERAGE) / (2 * n))


def rank_limits(counts: IntArray, variances: FloatArray) -> tuple[IntArray, IntArray, IntArray]:
    """Rank (1 for the largest; ties share the best), lowest and highest rank that each of n numbers may have, `(n,)`.

    Klein, Wright and Wieczorek (2020): with intervals that hold for all n geounits at once with 90 %, a geounit is
    surely below those whose interval is above its own. All true ranks are then within their limits at once, with 90 %
    or more.

    Args:
        counts: `(n,)`.
        variances: of their errors; NaN where not known.
    """
    n = len(counts)
    reach = reach_at_once(n) * np.sqrt(np.where(np.isnan(variances), np.inf, variances))
    low, high = counts - reach, counts + reach
    rank = 1 + n - np.searchsorted(np.sort(counts), counts, side="right")
    surely_above = n - np.searchsorted(np.sort(low), high, side="right")
    surely_below = np.searchsorted(np.sort(high), low, side="left")
    return rank.astype(np.int64), (1 + surely_above).astype(np.int64), (n - surely_below).astype(np.int64)
