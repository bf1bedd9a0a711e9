"""The numbers of one published table as the page has them, and its margins in figures: read once, part by part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pipeline.pages.data import LARGEST, packed_numbers
from pipeline.release.area_sizes import TENFOLD
from pipeline.release.reliability import CLASSES, EXACT, TENTHS, UNKNOWN, classes_of, tenths
from pipeline.release.tables import ReleasedTable, read_table_parts, small_parts
from pipeline.storage.paths import Readable
from postprocess.arrays import BoolArray, IntArray
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

    def add(self, part: ReleasedTable, exact: BoolArray | None = None) -> None:
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


def _summary(size: int, areas: int, margins: IntArray, classes: IntArray) -> SizeSummary:
    classes_at = (quantile_class(margins, percent) for percent in (10, 50, 90))
    low, median, high = (None if at is None else float(_EDGES[at]) / TENTHS for at in classes_at)
    return SizeSummary(size, areas, int(margins.sum()), low, median, high, tuple(classes.tolist()))


#: Which numbers of a table are certain by class of areas, and the class of each area.
Certain = tuple[BoolArray, IntArray]


@dataclass(frozen=True, eq=False)
class TableNumbers:
    """A table that was read to its end, and what that says of its numbers.

    Attributes:
        summary: of their margins.
        total: sum of the counts.
        whole: the ends of the interval of the only number, equal where it is exact; None where there are more.
        ends: whether it has intervals.
        text: the numbers, column by column; None where no page has room for them, or where they were read part by part.
    """

    summary: MarginSummary
    total: int
    whole: tuple[int, int] | None
    ends: bool
    text: str | None = None


class TableReader:
    """Reads a table part by part, once.

    Attributes:
        summary: of the margins of what has been read.
    """

    def __init__(self) -> None:
        self.summary = MarginSummary()
        self._total, self._ends = 0, False
        self._whole: tuple[int, int] | None = None

    def parts(self, path: Readable, areas: int, exact: Certain | None = None) -> Iterator[IntArray]:
        """Rows `(n, columns)`: the counts, with intervals how far these reach below and above, as `_ends`.

        Args:
            path: of the published table.
            areas: of its level.
            exact: which of its numbers are certain, as `ReportSources` has it.
        """
        start = 0
        for part in small_parts(read_table_parts(path, areas)):
            end = start + len(part.counts)
            certain = None if exact is None else exact[0][exact[1][start:end]]
            if certain is None and part.lows is not None:
                certain = part.lows == part.highs  # no other interval has no width
            self.summary.add(part, certain)
            self._total, self._ends = self._total + int(part.counts.sum()), part.lows is not None
            if areas == 1:
                self._whole = _only(part, certain)
            yield part.counts if part.lows is None else np.hstack([part.counts, *_ends(part, certain)])
            start = end

    def numbers(self, text: str | None = None) -> TableNumbers:
        """What was read; `text` is all of it, packed."""
        return TableNumbers(self.summary, self._total, self._whole, self._ends, text)


def packed_table(path: Readable, areas: int, exact: Certain | None) -> TableNumbers:
    """A table that was read to its end, packed as one; the arguments are those of `TableReader.parts`.

    Raises:
        ReleaseError: it is missing or damaged.
    """
    reader = TableReader()
    text = packed_numbers(np.concatenate(list(reader.parts(path, areas, exact))).T)
    return reader.numbers(text if len(text) <= LARGEST else None)


def _only(part: ReleasedTable, exact: BoolArray | None) -> tuple[int, int] | None:
    """The interval of the only number of a table; None where there are more, or none is known."""
    if part.lows is None or part.highs is None or part.counts.size != 1 or np.isnan(part.lows).any():
        return None
    if exact is not None and exact.all():
        return int(part.counts.item()), int(part.counts.item())
    return int(part.lows.item()), int(part.highs.item())


def _ends(part: ReleasedTable, exact: BoolArray | None) -> tuple[IntArray, IntArray]:
    """How far the intervals reach below the counts and above them, persons, both `(n, size)`.

    Below: 0 where a number is exact, 1 where its interval is unknown, else 2 more than the distance.
    """
    assert part.lows is not None
    assert part.highs is not None
    unknown = np.isnan(part.lows)
    below = np.where(unknown, 1, 2 + part.counts - np.where(unknown, 0, part.lows))
    above = np.where(unknown, 0, part.highs - part.counts)
    certain = np.zeros_like(unknown) if exact is None else exact
    return np.where(certain, 0, below).astype(np.int64), np.where(certain, 0, np.nan_to_num(above)).astype(np.int64)
