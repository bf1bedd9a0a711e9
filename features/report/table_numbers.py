"""The numbers of one published table as the page has them, read once and part by part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.report.summaries import MarginSummary
from pipeline.pages.chunks import LARGEST
from pipeline.pages.encoding import packed_numbers
from pipeline.release.tables import ReleasedTable, read_table_parts, small_parts
from pipeline.storage.readable import Readable


class TableNumbers:
    """The numbers of a table, and what their reading says of it.

    Args:
        path: of the published table.
        areas: of its level.
        exact: which of its numbers are certain, as `ReportSources` has it.

    Attributes:
        summary: of the margins of what has been read.
        total: sum of the counts that have been read.
        whole: the ends of the interval of the only number, equal where it is exact; None where there are more.
        ends: whether it has intervals.
    """

    def __init__(
        self, path: Readable, areas: int, exact: tuple[NDArray[np.bool_], NDArray[np.int64]] | None = None
    ) -> None:
        self._path, self._areas, self._exact = path, areas, exact
        self.summary = MarginSummary()
        self.total = 0
        self.whole: tuple[int, int] | None = None
        self.ends = False

    def parts(self) -> Iterator[NDArray[np.int64]]:
        """Rows `(n, columns)`: the counts, with intervals how far these reach below and above, as `_ends`."""
        start = 0
        for part in small_parts(read_table_parts(self._path, self._areas)):
            end = start + len(part.counts)
            certain = _certain(part, None if self._exact is None else self._exact[0][self._exact[1][start:end]])
            self.summary.add(part, certain)
            self.total, self.ends = self.total + int(part.counts.sum()), part.lows is not None
            if self._areas == 1:
                self.whole = _only(part, certain)
            yield part.counts if part.lows is None else np.hstack([part.counts, *_ends(part, certain)])
            start = end


@dataclass(frozen=True, eq=False)
class PackedTable:
    """A table that was read to its end.

    Attributes:
        summary, total, whole, ends: as of `TableNumbers`.
        text: its numbers, column by column; None where no page has room for them.
    """

    summary: MarginSummary
    total: int
    whole: tuple[int, int] | None
    ends: bool
    text: str | None


def packed_table(
    path: Readable, areas: int, exact: tuple[NDArray[np.bool_], NDArray[np.int64]] | None = None
) -> PackedTable:
    """A table, packed as one; the arguments are those of `TableNumbers`.

    Raises:
        ReleaseError: it is missing or damaged.
    """
    numbers = TableNumbers(path, areas, exact)
    text = packed_numbers(np.concatenate(list(numbers.parts())).T)
    shown = text if len(text) <= LARGEST else None
    return PackedTable(numbers.summary, numbers.total, numbers.whole, numbers.ends, shown)


def _only(part: ReleasedTable, exact: NDArray[np.bool_] | None) -> tuple[int, int] | None:
    """The interval of the only number of a table; None where there are more, or none is known."""
    if part.lows is None or part.highs is None or part.counts.size != 1 or np.isnan(part.lows).any():
        return None
    if exact is not None and exact.all():
        return int(part.counts.item()), int(part.counts.item())
    return int(part.lows.item()), int(part.highs.item())


def _ends(part: ReleasedTable, exact: NDArray[np.bool_] | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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


def _certain(part: ReleasedTable, exact: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    """Which numbers are certain; where that is not worked out, those whose interval is the number alone.

    No other interval has no width.
    """
    return part.lows == part.highs if exact is None and part.lows is not None else exact
