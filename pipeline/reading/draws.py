"""Intervals of any function of a release's numbers, from its draws.

Draws and the truth are alike: given the measurements, each is an independent draw from the same distribution (with a
flat prior). So is a function of them, and its true value is as likely to be the lowest of M + 1 as any draw's. The
interval from the (M + 1) p-th lowest to the (M + 1) p-th highest draw therefore has the probability 1 - 2p, however few
draws there are and whatever the function, as long as (M + 1) p is 1 or more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.errors import InputError

#: One draw of each table -> a number, or a pandas Series, DataFrame or array of numbers.
Function = Callable[..., Any]


def interval_of(function: Function, tables: Sequence[pd.DataFrame], share: float = 0.9) -> pd.DataFrame:
    """The interval of a function of the truth: columns median, low90 and high90 (by `share`), a row for each value.

    Args:
        function: called once for each draw with a data frame for each of `tables`, geounits by labels, as
            `Release.table` gives counts.
        tables: draws of tables with the index (draw, geocode), as `Release.draws` gives them.
        share: probability of the interval, above 0 and below 1.

    Raises:
        InputError: there are too few draws for the share, or the function's values differ in their form.
    """
    if not 0 < share < 1:
        raise InputError(f"interval: found share = {share}; a number above 0 and below 1 is needed, such as 0.9")
    outside = (1 - share) / 2
    count = len(tables[0].index.unique(level=0))
    needed = math.ceil(round(1 / outside, 9)) - 1
    if count < needed:
        raise InputError(
            f"interval: found {count} draws; an interval with a share of {share:g} needs {needed} at least "
            "(publish.draws)"
        )
    values = [
        _as_series(function(*parts), number) for number, parts in enumerate(_draw_by_draw(tables, count), start=1)
    ]
    for number, value in enumerate(values, start=1):
        if not value.index.equals(values[0].index):
            raise InputError(
                f"interval: the function gives {len(value)} values for draw {number} and {len(values[0])} for draw 1, "
                "or values with other names; they must be the same for every draw"
            )
    drawn = np.array([value.to_numpy(dtype=np.float64) for value in values])
    # The method with positions (M + 1) p, not interpolated beyond the lowest and highest draw.
    low, median, high = np.quantile(drawn, [round(outside, 12), 0.5, round(1 - outside, 12)], axis=0, method="weibull")
    percent = f"{100 * share:g}"
    return pd.DataFrame({"median": median, f"low{percent}": low, f"high{percent}": high}, index=values[0].index)


def _draw_by_draw(tables: Sequence[pd.DataFrame], count: int) -> Iterator[list[pd.DataFrame]]:
    """The tables of each draw; their rows are in order."""
    for number in range(count):
        parts = []
        for table in tables:
            n = len(table) // count
            parts.append(table.iloc[number * n : (number + 1) * n].droplevel(0))
        yield parts


def _as_series(value: object, number: int) -> pd.Series[Any]:
    if isinstance(value, pd.DataFrame):
        value = value.stack(future_stack=True)
    if isinstance(value, pd.Series):
        return value
    array = np.asarray(value)
    if array.ndim > 1 or not np.issubdtype(array.dtype, np.number):
        raise InputError(
            f"interval: the function gives {type(value).__name__} for draw {number}; a number, or a pandas Series, "
            "DataFrame or one-dimensional array of numbers is needed"
        )
    return pd.Series(np.atleast_1d(array), index=None if array.ndim else ["value"])
