"""From a period's published numbers back to its counts: by the public design, from those of the periods before.

`carried.CarriedPeriods` makes what is published, v: earlier and present truths mixed, w, plus whole-number noise, less
what is `known` of the periods before. The truth plus noise of a known variance in each period follows from that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from features.years.design import Design
from geography.errors import InputError
from postprocess.arrays import FloatArray, IntArray

__all__ = ["known", "mixed_again", "unmixed"]


def unmixed(design: Design, mixtures: Sequence[IntArray]) -> list[FloatArray]:
    """The truth of each period so far plus noise, from the mixed numbers w; of the shape of each array.

    Forward substitution, period by period, each operation rounded as IEEE 754 says: the same numbers everywhere.
    """
    _period(design, len(mixtures) - 1)
    found: list[FloatArray] = []
    for row, numbers in zip(design.rows, mixtures, strict=False):
        rest = numbers.astype(np.float64)
        for weight, before in zip(row, found, strict=False):
            rest = rest - weight * before
        found.append(rest / row[-1])
    return found


def known(weights: Sequence[int], counts: Sequence[FloatArray]) -> IntArray:
    """What the releases before say of the sum of their mixed truths, rounded; the same numbers everywhere.

    Args:
        weights: of each period before.
        counts: of each, with noise, of one shape.
    """
    total = np.zeros_like(counts[0])
    for weight, count in zip(weights, counts, strict=True):
        total = total + weight * count
    return np.rint(total).astype(np.int64)


def mixed_again(design: Design, numbers: Sequence[IntArray]) -> list[IntArray]:
    """The mixed numbers w of those that are published, v."""
    _period(design, len(numbers) - 1)
    counts = [one / np.float64(row[-1]) for row, one in zip(design.rows, numbers, strict=False)]
    return [
        one + known(row[:-1], counts[:number]) if number else one.astype(np.int64)
        for number, (row, one) in enumerate(zip(design.rows, numbers, strict=False))
    ]


def _period(design: Design, period: int) -> int:
    if not 0 <= period < design.periods:
        raise InputError(f"period {period + 1} of a series: it has periods 1 to {design.periods}")
    return period
