"""Sums of cells as groups of values and as weights, and the ends of their intervals as columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pipeline.errors import ReleaseError
from postprocess.arrays import BoolArray, FloatArray, IntArray


def answer_weights(groups: Sequence[IntArray], answers: IntArray) -> tuple[FloatArray, ...]:
    """Zeros and ones that pick some answers, by their numbers, out of those that groups of values make."""
    sizes = tuple(int(group.max()) + 1 for group in groups)
    codes = np.unravel_index(answers, sizes)
    return tuple(
        (code[:, None] == group[None, :]).astype(np.float64) for code, group in zip(codes, groups, strict=True)
    )


def together(allowed: Sequence[BoolArray], k: int) -> tuple[FloatArray, ...]:
    """Ones for all that is counted, k times."""
    return tuple(np.repeat(mask[None, :].astype(np.float64), k, axis=0) for mask in allowed)


#: For each attribute, the group that each of its values is summed into.
Groups = Sequence[IntArray]


def ends_column(values: FloatArray) -> pd.arrays.IntegerArray:
    """Ends of intervals, or margins, which are whole persons, as a column of "Int64": missing where unknown (NaN).

    Raises:
        ReleaseError: they are not whole.
    """
    unknown = np.isnan(values)
    with np.errstate(invalid="ignore"):  # no whole number either
        whole = np.where(unknown, 0, values).astype(np.int64)
    if not ((whole == values) | unknown).all():
        raise ReleaseError("an interval of the release has an end that is no whole number")
    return pd.arrays.IntegerArray(whole, unknown)


def columns_of(groups: Groups, table: Groups) -> IntArray:
    """For each answer that `groups` make, the answer of `table` that counts the same cells; -1 where none does."""
    column = np.zeros(1, dtype=np.int64)
    for asked, published in zip(groups, table, strict=True):
        size = int(published.max()) + 1
        match = np.full(int(asked.max()) + 1, -1, dtype=np.int64)
        for number in range(len(match)):
            values = asked == number
            same = published[int(values.argmax())]
            if np.array_equal(published == same, values):
                match[number] = same
        pairs = column[:, None] * size + match[None, :]
        column = np.where((column[:, None] < 0) | (match[None, :] < 0), -1, pairs).ravel()
    return column
