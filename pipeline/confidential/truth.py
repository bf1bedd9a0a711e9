"""The release beside the truth, for the agency alone: errors by level, table and size of area.

Everything here is computed from confidential counts. Its page is written to restricted/ and must not leave it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.model.texts.catalogue import Texts
from pipeline.pages.templates import render
from pipeline.pages.words import Called
from pipeline.release.area_sizes import TENFOLD, size_labels
from pipeline.release.tables import ReleasedTable
from postprocess.differences import DifferenceSums, largest, outside
from postprocess.largest_group import PEOPLE, POINTS, SHARE, Target, TargetSums, fits
from postprocess.statistics import quantile_class

#: Errors larger than this are counted as this, in persons, where quantiles are taken.
_LARGEST = 100_000
#: Errors listed of each table and level.
LISTED = 5


@dataclass(frozen=True)
class Errors:
    """Errors of the numbers of the areas of one class of size.

    Attributes:
        size: number of the class in `TENFOLD`, by true number of people; -1 for all areas together.
        areas, numbers: how many.
        l1: mean over the areas of the sum of the absolute errors, persons.
        bias: mean error, persons; positive where too many are published.
        rmse: root of the mean squared error, persons.
        half, nine, ninetynine, largest: 50 %, 90 % and 99 % of the absolute errors are at most this, and the largest.
        covered: share of the true counts within their intervals; None where none are published.
    """

    size: int
    areas: int
    numbers: int
    l1: float
    bias: float
    rmse: float
    half: int
    nine: int
    ninetynine: int
    largest: int
    covered: float | None


@dataclass(frozen=True)
class LargestError:
    """One of the largest errors of a table at a level."""

    area: str
    label: str
    truth: int
    released: int
    margin: float | None

    @property
    def error(self) -> int:
        """Released less true, in persons."""
        return self.released - self.truth


class _Class:
    """Sums of one class of size, of areas with `size` numbers each."""

    def __init__(self, size: int) -> None:
        self.areas = self.outside = self.known = 0
        self.sums = DifferenceSums(size)
        self.errors = np.zeros(0, dtype=np.int64)

    def add(self, part: ReleasedTable, truth: NDArray[np.int64]) -> None:
        """Add some areas, with their true numbers."""
        self.areas += len(truth)
        self.sums.add(part.counts, truth)
        self._count(np.bincount(np.minimum(np.abs(part.counts - truth), _LARGEST).ravel()))
        if part.lows is not None and part.highs is not None:
            missed, known = outside(truth, part.lows, part.highs)
            self.outside, self.known = self.outside + missed, self.known + known

    def merge(self, other: _Class) -> None:
        """Add the sums of another class."""
        for name in ("areas", "outside", "known"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.sums.merge(other.sums)
        self._count(other.errors)

    def _count(self, counts: NDArray[np.int64]) -> None:
        longest = max(len(counts), len(self.errors))
        self.errors = np.pad(self.errors, (0, longest - len(self.errors))) + np.pad(counts, (0, longest - len(counts)))

    def summary(self, size: int) -> Errors:
        half, nine, ninetynine = (quantile_class(self.errors, percent) or 0 for percent in (50, 90, 99))
        return Errors(
            size=size,
            areas=self.areas,
            numbers=round(float(self.sums.numbers.sum())),
            l1=float(self.sums.absolute.sum()) / max(1, self.areas),
            bias=self.sums.mean(self.sums.signed),
            rmse=math.sqrt(self.sums.mean(self.sums.squared)),
            half=half,
            nine=nine,
            ninetynine=ninetynine,
            largest=round(self.sums.largest),
            covered=(self.known - self.outside) / self.known if self.known else None,
        )


@dataclass
class TableErrors:
    """The errors of one table at one level; filled part by part."""

    table: str
    level: str
    called: Called = field(default_factory=Called)
    largest: list[LargestError] = field(default_factory=list)
    _classes: dict[int, _Class] = field(default_factory=dict)
    _target: TargetSums = field(default_factory=TargetSums)
    _cells: int = 0

    def add(self, part: ReleasedTable, truth: NDArray[np.int64]) -> None:
        """Compare some rows of the table with the true answers `(n, size)` of the same areas."""
        people = np.abs(truth.sum(axis=1))
        self._cells = truth.shape[1]
        sizes = np.searchsorted(TENFOLD, people, side="right") - 1
        for size in np.unique(sizes).tolist():
            rows = sizes == size
            self._classes.setdefault(size, _Class(self._cells)).add(part.rows(rows), truth[rows])
        self._add_largest(part, truth)
        if self._cells > 1:
            self._target.add(people, fits(part.counts, truth))

    def _add_largest(self, part: ReleasedTable, truth: NDArray[np.int64]) -> None:
        for row, column in largest(np.abs(part.counts - truth), LISTED):
            margin = None if part.margins is None else float(part.margins[row, column])
            self.largest.append(
                LargestError(
                    self.called.area(str(part.geocodes[row])),
                    self.called.number(part.labels[column]),
                    int(truth[row, column]),
                    int(part.counts[row, column]),
                    None if margin is None or np.isnan(margin) else margin,
                )
            )
        self.largest = sorted(self.largest, key=lambda listed: -abs(listed.error))[:LISTED]

    @property
    def whole(self) -> Errors:
        """Of all areas."""
        together = _Class(self._cells)
        for size in sorted(self._classes):
            together.merge(self._classes[size])
        return together.summary(-1)

    @property
    def by_size(self) -> tuple[Errors, ...]:
        """Of each class of size that has areas."""
        return tuple(self._classes[size].summary(size) for size in sorted(self._classes))

    @property
    def fitness(self) -> Target | None:
        """How well the target of 2020 is met; None for a table of one number an area, or where nobody lives."""
        return self._target.target()


def accuracy_page(
    release: str, status: str, universes: Sequence[tuple[str, Sequence[TableErrors]]], texts: Texts
) -> str:
    """The page for restricted/.

    Args:
        universes: what each counts, and the errors of its tables.
        texts: of the page's language.
    """
    return render(
        "pipeline.confidential",
        "accuracy.html.j2",
        (),
        texts,
        release=release,
        status=status,
        universes=universes,
        points=POINTS,
        fitness_people=PEOPLE,
        percent_of_areas=round(100 * SHARE),
        size_labels=size_labels(texts),
    )
