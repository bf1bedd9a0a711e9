"""A period's published numbers: earlier and present truths mixed, plus whole-number noise; and the way back.

Mixed numbers are whole, and all that is published of the truth. What follows from them by the public design, truth plus
noise of a known variance in each period, is post-processing, and what the estimator of a single release takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from features.years.design import Design
from features.years.source import counts_variance
from geography.errors import InputError
from pipeline.errors import ReleaseError
from pipeline.model.mixed import MixedNoise
from postprocess.arrays import FloatArray, IntArray

__all__ = ["known", "mixed", "mixed_again", "period_noise", "published", "truths_again", "unmixed"]

#: Beyond it a sum of mixed truths would not be exact as a float, and ten of them not as a 64-bit number.
_LARGEST: Final = 2**53


def period_noise(design: Design, rho: Fraction, period: int) -> MixedNoise:
    """The noise in a period, counted from 0, of a query that gets rho for the whole series."""
    row = design.rows[_period(design, period)]
    return MixedNoise(design.noise(rho), row, counts_variance(design.rows, period))


def mixed(design: Design, truths: Sequence[IntArray], noise: IntArray) -> IntArray:
    """What is published in the last of some periods: whole numbers, of the shape of each array.

    Args:
        design: of the series.
        truths: of the first period, the second, and so on; one for each period so far.
        noise: z of the last of them.

    Raises:
        InputError: there are more periods than the design has, or the numbers are too large to be added exactly.
    """
    row = design.rows[_period(design, len(truths) - 1)]
    out = noise.astype(np.int64)
    for weight, truth in zip(row, truths, strict=True):
        if truth.dtype.kind != "i" or truth.shape != noise.shape:
            raise ValueError(f"truths are whole numbers of one shape, got {truth.dtype} {truth.shape}, {noise.shape}")
        if int(np.abs(truth).max(initial=0)) * max(1, abs(weight)) * len(row) > _LARGEST:
            raise InputError(f"period {len(truths)} of a series: a number is too large to be mixed exactly")
        out += weight * truth
    return out


def unmixed(design: Design, published: Sequence[IntArray]) -> list[FloatArray]:
    """The truth of each period so far plus noise, from what was published; of the shape of each array.

    Forward substitution, period by period, each operation rounded as IEEE 754 says: the same numbers everywhere.
    """
    _period(design, len(published) - 1)
    found: list[FloatArray] = []
    for row, numbers in zip(design.rows, published, strict=False):
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


def published(design: Design, numbers: Sequence[IntArray]) -> list[IntArray]:
    """What is published of mixed numbers w: less what is known of the periods before, so that each stands alone.

    In each period the numbers are L_tt times the count with its noise.
    """
    _period(design, len(numbers) - 1)
    found: list[IntArray] = []
    for row, whole in zip(design.rows, numbers, strict=False):
        counts = _counts(design, found)
        found.append(whole - known(row[:-1], counts) if counts else whole.astype(np.int64))
    return found


def mixed_again(design: Design, numbers: Sequence[IntArray]) -> list[IntArray]:
    """The mixed numbers w of those that are published, see `published`."""
    _period(design, len(numbers) - 1)
    counts = _counts(design, numbers)
    return [
        one + known(row[:-1], counts[:number]) if number else one.astype(np.int64)
        for number, (row, one) in enumerate(zip(design.rows, numbers, strict=False))
    ]


def _counts(design: Design, numbers: Sequence[IntArray]) -> list[FloatArray]:
    return [one / np.float64(row[-1]) for row, one in zip(design.rows, numbers, strict=False)]


def truths_again(design: Design, published: Sequence[IntArray], noises: Sequence[IntArray]) -> list[IntArray]:
    """The truths, from what was published and the noise that was drawn again with the key. Confidential.

    So a period needs the key and the public files of its predecessors, not their records.

    Raises:
        ReleaseError: these are not the numbers of this design and this noise.
    """
    found: list[IntArray] = []
    for number, (row, numbers, noise) in enumerate(zip(design.rows, published, noises, strict=False), 1):
        rest = numbers - noise
        for weight, before in zip(row, found, strict=False):
            rest = rest - weight * before
        truth, left = np.divmod(rest, row[-1])
        if left.any():
            raise ReleaseError(
                f"period {number} of a series: its numbers were not mixed by this design, or not with this key's noise"
            )
        found.append(truth)
    return found


def _period(design: Design, period: int) -> int:
    if not 0 <= period < design.periods:
        raise InputError(f"period {period + 1} of a series: it has periods 1 to {design.periods}")
    return period
