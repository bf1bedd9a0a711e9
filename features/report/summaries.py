"""Margins of error in figures: by level, table and size of area, one pass over each table, some rows at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.release.area_sizes import TENFOLD
from pipeline.release.reliability import CLASSES, EXACT, TENTHS, UNKNOWN, classes_of, tenths
from pipeline.release.tables import ReleasedTable
from postprocess.statistics import quantile_class

#: Below this number of tenths, margins are kept apart; above it they are rounded to three digits.
_TOLD_APART = 2048
#: Numbers of at least this mean, persons, are far from 0 by themselves. Half intervals of at least this part of it take
#: many of them there, and intervals of some hold less than they state (docs/decisions/intervals.md).
_FAR, _NOISY = 100, 1 / 3
#: The least margin of each bin, in tenths.
_EDGES = np.array(
    [*range(_TOLD_APART), *(digits * 10**power for power in range(1, 13) for digits in range(100, 1000)
                       if digits * 10**power >= _TOLD_APART)],
    dtype=np.int64,
)  # fmt: skip


@dataclass(frozen=True)
class SizeSummary:
    """The numbers of the areas of one class of size.

    Attributes:
        size: number of the class in `TENFOLD`; -1 for all areas together.
        areas: how many.
        numbers: how many published numbers they have, which have a known margin.
        low, median, high: 10 %, 50 % and 90 % of their margins are at most this, persons; None where none is known.
        shares: of the numbers above zero, how many fall in each class of `reliability.CLASSES`.
    """

    size: int
    areas: int
    numbers: int
    low: float | None
    median: float | None
    high: float | None
    shares: tuple[int, ...]


class MarginSummary:
    """The margins of one table at one level, part by part.

    Attributes:
        unknown: numbers that the measurements do not determine.
    """

    def __init__(self) -> None:
        self._areas = np.zeros(len(TENFOLD), dtype=np.int64)
        self._margins = np.zeros((len(TENFOLD), len(_EDGES)), dtype=np.int64)
        self._classes = np.zeros((len(TENFOLD), len(CLASSES)), dtype=np.int64)
        self._numbers = 0
        self._sum = 0
        self.unknown = 0

    @property
    def mean(self) -> float:
        """Of the numbers, persons, without their signs."""
        return self._sum / max(1, self._numbers)

    @property
    def is_noisy(self) -> bool:
        """Whether noise is so large beside the numbers that intervals of some hold less than 88 %."""
        median = self.all().median
        return median is not None and self.mean >= _FAR and median >= self.mean * _NOISY

    def add(self, part: ReleasedTable, exact: NDArray[np.bool_] | None = None) -> None:
        """Count some rows of the table; the size of an area is the sum of its row, which holds everybody once.

        Of amounts that may be below 0, sizes are those without the sign.

        Args:
            exact: which numbers `(n, size)` are exact.
        """
        if part.margins is None or not len(part.counts):
            return
        size = np.searchsorted(TENFOLD, np.abs(part.counts.sum(axis=1)), side="right") - 1
        self._areas += np.bincount(size, minlength=len(TENFOLD))
        self._numbers += part.counts.size
        self._sum += int(np.abs(part.counts).sum())
        margins = tenths(part.margins, exact)
        known = margins != UNKNOWN
        self.unknown += int((~known).sum())
        bins = np.where(margins == EXACT, 0, margins)
        large = margins >= _TOLD_APART
        bins[large] = np.searchsorted(_EDGES, margins[large], side="right") - 1
        places = (size[:, None] * len(_EDGES) + bins)[known]
        self._margins += np.bincount(places, minlength=self._margins.size).reshape(self._margins.shape)
        some = part.counts != 0
        sizes = np.broadcast_to(size[:, None], some.shape)[some]
        classes = sizes * len(CLASSES) + classes_of(np.abs(part.counts[some]), margins[some])
        self._classes += np.bincount(classes, minlength=self._classes.size).reshape(self._classes.shape)

    def all(self) -> SizeSummary:
        """Of areas of any size."""
        return _summary(-1, int(self._areas.sum()), self._margins.sum(axis=0), self._classes.sum(axis=0))

    def by_size(self) -> list[SizeSummary]:
        """Of each class of size that has areas."""
        return [
            _summary(number, int(self._areas[number]), self._margins[number], self._classes[number])
            for number in range(len(TENFOLD))
            if self._areas[number]
        ]


def _summary(size: int, areas: int, margins: NDArray[np.int64], classes: NDArray[np.int64]) -> SizeSummary:
    classes_at = (quantile_class(margins, percent) for percent in (10, 50, 90))
    low, median, high = (None if at is None else float(_EDGES[at]) / TENTHS for at in classes_at)
    return SizeSummary(size, areas, int(margins.sum()), low, median, high, tuple(classes.tolist()))
