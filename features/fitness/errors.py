"""Errors of published numbers: absolute, squared, signed and in percent, added up for each column of a table.

The measures are those of "Data Metrics for 2020 Disclosure Avoidance" (US Census Bureau, 25 March 2020) and its
detailed summary metrics: MAE, RMSE, mean error, MAPE, MALPE, CV. `l1` is that of `compute_errors` in census-bluedown
(google-research, 2026): the absolute errors of a query's answers added up, mean over the areas. Percent errors are of
numbers that are not 0, as in both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

#: Mean absolute value of a standard normal: sqrt(2 / pi).
MEAN_ABSOLUTE = math.sqrt(2 / math.pi)

Floats = NDArray[np.float64]


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


class ErrorSums:
    """Sums over areas, for each of a table's `size` columns; filled part by part.

    Args:
        size: columns of the table.
    """

    def __init__(self, size: int) -> None:
        self.areas = 0.0
        self.counted, self.truth = np.zeros(size), np.zeros(size)
        self.absolute, self.squared, self.signed = np.zeros(size), np.zeros(size), np.zeros(size)
        self.nonzero, self.percent, self.signed_percent = np.zeros(size), np.zeros(size), np.zeros(size)

    def add(self, published: NDArray[np.int64], truth: NDArray[np.generic], weight: float = 1.0) -> None:
        """Add areas: their published and true numbers `(n, size)`; each counts `weight`, for one of several truths."""
        true = np.asarray(truth, dtype=np.float64)
        error = published - true
        self._count(len(error), weight, np.full(error.shape[1], float(len(error))), true)
        absolute, positive = np.abs(error), true > 0
        divisor = np.where(positive, true, 1.0)
        self.absolute += weight * absolute.sum(axis=0)
        self.squared += weight * (absolute**2).sum(axis=0)
        self.signed += weight * error.sum(axis=0)
        self.nonzero += weight * positive.sum(axis=0)
        self.percent += weight * np.where(positive, absolute / divisor, 0.0).sum(axis=0)
        self.signed_percent += weight * np.where(positive, error / divisor, 0.0).sum(axis=0)

    def add_expected(self, published: NDArray[np.int64], spread: Floats) -> None:
        """Add areas whose errors are known by their standard deviations `(n, size)` alone, NaN for none; unsigned.

        The mean absolute error of a normal error is sqrt(2 / pi) of its standard deviation. Percent errors are of the
        published numbers, and of the sign nothing is known.
        """
        known = ~np.isnan(spread)
        sigma, absolute = np.where(known, spread, 0.0), np.where(known, spread, 0.0) * MEAN_ABSOLUTE
        counts = np.where(known, published, 0).astype(np.float64)
        self._count(len(sigma), 1.0, known.sum(axis=0).astype(np.float64), counts)
        positive = counts > 0
        self.absolute += absolute.sum(axis=0)
        self.squared += (sigma**2).sum(axis=0)
        self.signed += np.nan
        self.nonzero += positive.sum(axis=0)
        self.percent += np.where(positive, absolute / np.where(positive, counts, 1.0), 0.0).sum(axis=0)
        self.signed_percent += np.nan

    def _count(self, areas: int, weight: float, counted: Floats, truth: Floats) -> None:
        self.areas += weight * areas
        self.counted += weight * counted
        self.truth += weight * truth.sum(axis=0)

    def take_signs(self, other: ErrorSums) -> None:
        """Take the signed errors of the same areas from `other`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            self.signed = other.signed / other.counted * self.counted
            self.signed_percent = other.signed_percent / np.where(other.nonzero > 0, other.nonzero, 1.0) * self.nonzero

    def measures(self, columns: slice | int = slice(None)) -> ErrorMeasures:
        """The measures of all numbers, or of those of some columns."""

        def total(sums: Floats) -> float:
            return float(np.sum(sums[columns]))

        numbers, truth, nonzero = total(self.counted), total(self.truth), total(self.nonzero)
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
