"""Differences of numbers from others of the same areas: added up, outside of intervals, and the largest of them.

The others are true numbers, or those of another release. The measures are those of "Data Metrics for 2020 Disclosure
Avoidance" (US Census Bureau, 25 March 2020) and its detailed summary metrics: MAE, RMSE, mean error, MAPE, MALPE, CV.
`l1` is that of `compute_errors` in census-bluedown (google-research, 2026): the absolute errors of a query's answers
added up, mean over the areas. Percent errors are of numbers that are not 0, as in both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from postprocess.arrays import FloatArray, IntArray
from postprocess.statistics import MEAN_ABSOLUTE


class DifferenceSums:
    """Sums of differences for each of a table's columns, exact for whole numbers up to 2^53; filled part by part.

    Attributes:
        numbers, signed, absolute, squared: `(size,)`.
        equal: numbers that are the same as the others; `largest`: absolute difference of any.
    """

    def __init__(self, size: int) -> None:
        self.numbers, self.signed, self.absolute, self.squared = np.zeros((4, size))
        self.equal, self.largest = 0, 0.0

    def add(self, numbers: IntArray, others: NDArray[np.generic], weight: float = 1.0) -> None:
        """Add areas `(n, size)`; each counts `weight`."""
        difference = np.asarray(numbers - np.asarray(others, dtype=np.float64))
        absolute = np.abs(difference)
        self.numbers += weight * len(difference)
        self.signed += weight * difference.sum(axis=0)
        self.absolute += weight * absolute.sum(axis=0)
        self.squared += weight * (absolute**2).sum(axis=0)
        self.equal += int((difference == 0).sum())
        self.largest = max(self.largest, float(absolute.max(initial=0.0)))

    def mean(self, sums: FloatArray) -> float:
        """What was added up, for each number; 0 where there are none."""
        return float(sums.sum()) / max(1.0, float(self.numbers.sum()))


def outside(values: IntArray, low: FloatArray, high: FloatArray) -> tuple[int, int]:
    """How many values are outside of their intervals, and how many have one; the ends of the others are NaN."""
    return int(((values < low) | (values > high)).sum()), int((~np.isnan(low) & ~np.isnan(high)).sum())


def largest(sizes: IntArray, n: int, first: FloatArray | None = None) -> list[tuple[int, int]]:
    """Places (row, column) of the n largest sizes above 0, ties by place; by `first` before, of the same shape."""
    flat = sizes.ravel()
    rank, among = flat if first is None else first.ravel(), np.flatnonzero(flat > 0)
    if len(among) > n:
        among = among[rank[among] >= np.partition(rank[among], -n)[-n]]
    order = among[np.lexsort((-flat[among], -rank[among]))[:n]]
    return [divmod(place, sizes.shape[1]) for place in order.tolist()]


@dataclass(frozen=True)
class ErrorMeasures:
    """Errors of some numbers, published less true, in persons unless it says otherwise; None where it is not known.

    Those of sums of an amount are in its units.

    Attributes:
        areas, numbers: how many; numbers whose error is not known are left out.
        l1: sum of the absolute errors of an area's numbers, mean over areas.
        mae, rmse, bias: mean absolute, root mean square and mean error of a number.
        cv: `rmse` in percent of the mean number.
        mape, malpe: mean absolute and mean percent error, of the numbers that are not 0.
        relative, relative_bias: absolute errors, and errors, added up, in percent of the numbers added up.
    """

    areas: int
    numbers: int
    l1: float | None
    mae: float | None
    rmse: float | None
    bias: float | None
    cv: float | None
    mape: float | None
    malpe: float | None
    relative: float | None
    relative_bias: float | None

    def without_percents(self) -> ErrorMeasures:
        """For numbers of which some are below 0 and a sum may be about 0: nothing is in percent of them."""
        return replace(self, cv=None, mape=None, malpe=None, relative=None, relative_bias=None)


class ErrorSums(DifferenceSums):
    """Sums of errors, also in percent of the true numbers."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.areas = 0.0
        self.truth, self.nonzero, self.percent, self.signed_percent = np.zeros((4, size))

    def add(self, numbers: IntArray, others: NDArray[np.generic], weight: float = 1.0) -> None:
        """Add areas: published and true numbers `(n, size)`; each counts `weight`, for one of several truths."""
        super().add(numbers, others, weight)
        true = np.asarray(others, dtype=np.float64)
        error, positive = numbers - true, true > 0
        percent = np.where(positive, error / np.where(positive, true, 1.0), 0.0)
        self.areas += weight * len(true)
        self.truth += weight * true.sum(axis=0)
        self.nonzero += weight * positive.sum(axis=0)
        self.percent += weight * np.abs(percent).sum(axis=0)
        self.signed_percent += weight * percent.sum(axis=0)

    def add_expected(self, published: IntArray, spread: FloatArray) -> None:
        """Add areas whose errors are known by their standard deviations `(n, size)` alone, NaN for none; unsigned.

        The mean absolute error of a normal error is sqrt(2 / pi) of its standard deviation. Percent errors are of the
        published numbers, and of the sign nothing is known.
        """
        known = ~np.isnan(spread)
        sigma, absolute = np.where(known, spread, 0.0), np.where(known, spread, 0.0) * MEAN_ABSOLUTE
        counts = np.where(known, published, 0).astype(np.float64)
        self.areas += len(sigma)
        self.numbers += known.sum(axis=0)
        self.truth += counts.sum(axis=0)
        positive = counts > 0
        self.absolute += absolute.sum(axis=0)
        self.squared += (sigma**2).sum(axis=0)
        self.signed += np.nan
        self.nonzero += positive.sum(axis=0)
        self.percent += np.where(positive, absolute / np.where(positive, counts, 1.0), 0.0).sum(axis=0)
        self.signed_percent += np.nan

    def take_signs(self, other: ErrorSums) -> None:
        """Take the signed errors of the same areas from `other`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            self.signed = other.signed / other.numbers * self.numbers
            self.signed_percent = other.signed_percent / np.where(other.nonzero > 0, other.nonzero, 1.0) * self.nonzero

    def measures(self, columns: slice | int) -> ErrorMeasures:
        """The measures of all numbers, or of those of some columns."""

        def total(sums: FloatArray) -> float:
            return float(np.sum(sums[columns]))

        numbers, truth, nonzero = total(self.numbers), total(self.truth), total(self.nonzero)
        absolute, signed = total(self.absolute), total(self.signed)
        rmse = math.sqrt(total(self.squared) / numbers) if numbers else None
        mean = _ratio(truth, numbers)
        return ErrorMeasures(
            areas=round(self.areas),
            numbers=round(numbers),
            l1=_ratio(absolute, self.areas) if numbers else None,
            mae=_ratio(absolute, numbers),
            rmse=rmse,
            bias=_ratio(signed, numbers),
            cv=100 * rmse / mean if rmse is not None and mean is not None and mean > 0 else None,
            mape=_ratio(100 * total(self.percent), nonzero),
            malpe=_ratio(100 * total(self.signed_percent), nonzero),
            relative=_ratio(100 * absolute, truth),
            relative_bias=_ratio(100 * signed, truth),
        )


def _ratio(top: float, bottom: float) -> float | None:
    """None where it is not defined or not known."""
    return None if bottom <= 0 or math.isnan(top) else top / bottom
