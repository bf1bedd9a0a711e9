"""What is said of a series' numbers: of each period, and of the change between any two, with 90 % intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np

from features.years.change import intervals
from features.years.history import LevelHistory
from geography.errors import InputError
from pipeline.model.query import Query
from postprocess.arrays import FloatArray, IntArray

__all__ = ["VERDICTS", "Numbers", "Verdict", "answers_of", "between", "in_period", "pairs_of"]

Verdict = Literal["fell", "cannot tell", "rose"]
#: In the order of the numbers -1, 0, 1 of `Numbers.directions`.
VERDICTS: Final[tuple[Verdict, ...]] = ("fell", "cannot tell", "rose")


@dataclass(frozen=True, eq=False)
class Numbers:
    """One number of each geounit of a level, `(n,)` each.

    Attributes:
        values: of the released whole numbers.
        low, high: the 90 % interval, whole numbers; the value is within it.
    """

    values: IntArray
    low: IntArray
    high: IntArray

    @property
    def directions(self) -> IntArray:
        """-1 where a change is below 0 by its interval, 1 where it is above, 0 where it cannot be told."""
        return np.sign(np.maximum(self.low, 0) + np.minimum(self.high, 0)).astype(np.int64)


def pairs_of(n: int) -> list[tuple[int, int]]:
    """The periods between which changes are published: from each to the next, and from the first to the last."""
    return [*pairwise(range(n)), *([(0, n - 1)] if n > 2 else [])]


def answers_of(query: Query, kept: FloatArray | None = None) -> Iterator[tuple[str, FloatArray]]:
    """Label and cells `(c,)` of each answer of which some cell is kept: `kept` `(c,)` is 1 for those, else 0."""
    for number, label in enumerate(query.answer_labels()):
        cells = (query.cell_answer == number).astype(np.float64)
        if kept is None:
            yield label, cells
        elif (cells * kept).any():
            yield label, cells * kept


def in_period(
    released: IntArray, plain: LevelHistory, modelled: LevelHistory, cells: FloatArray, period: int
) -> Numbers:
    """The sum of some cells in a period.

    Args:
        released: whole numbers `(n, T, c)`.
        plain, modelled: linear estimates without and with a model of change; the same twice where there is none.
        cells: `(c,)` 1 for the cells that are summed, else 0.
        period: from 0.
    """
    weights = np.zeros(released.shape[1])
    weights[_checked(period, released)] = 1.0
    numbers = _numbers(released, plain, modelled, cells, weights)
    return Numbers(numbers.values, np.maximum(numbers.low, 0), np.maximum(numbers.high, 0))


def between(
    released: IntArray,
    plain: LevelHistory,
    modelled: LevelHistory,
    cells: FloatArray,
    periods: tuple[int, int],
) -> Numbers:
    """How much the sum of some cells has changed from the first of two periods to the second; see `in_period`."""
    weights = np.zeros(released.shape[1])
    weights[_checked(periods[0], released)] -= 1.0
    weights[_checked(periods[1], released)] += 1.0
    if periods[0] == periods[1]:
        raise InputError(f"change: found period {periods[0] + 1} twice; two different periods are needed")
    return _numbers(released, plain, modelled, cells, weights)


def _numbers(
    released: IntArray, plain: LevelHistory, modelled: LevelHistory, cells: FloatArray, weights: FloatArray
) -> Numbers:
    both = []
    for history in (plain, modelled):
        numbers, covariance = history.sums(cells)
        both.append((numbers @ weights, np.einsum("s,nst,t->n", weights, covariance, weights)))
    low, high = intervals(both[0], both[1])
    values = np.rint(np.einsum("ntc,c,t->n", released, cells, weights)).astype(np.int64)
    return Numbers(values, np.minimum(low, values).astype(np.int64), np.maximum(high, values).astype(np.int64))


def _checked(period: int, released: IntArray) -> int:
    if not 0 <= period < released.shape[1]:
        raise InputError(f"period {period + 1} of a series: it has periods 1 to {released.shape[1]}")
    return period
