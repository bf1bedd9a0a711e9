"""The release beside the truth, for the agency alone: errors by level, table and size of area.

Everything here is computed from confidential counts. Its page is written to restricted/ and must not leave it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.model.texts.catalogue import Texts
from pipeline.release.tables import ReleasedTable
from pipeline.report.largest_group import PEOPLE, POINTS, SHARE, fits
from pipeline.report.render import render
from pipeline.report.summaries import SIZES, size_labels
from postprocess.statistics import quantile_class

#: Errors larger than this are counted as this, in persons, where quantiles are taken.
_LARGEST = 100_000
#: Errors listed of each table and level.
LISTED = 5


@dataclass(frozen=True)
class Errors:
    """Errors of the numbers of the areas of one class of size.

    Attributes:
        size: number of the class in `SIZES`, by true number of people; -1 for all areas together.
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


@dataclass(frozen=True)
class Fitness:
    """The fitness target of 2020.

    Attributes:
        areas, fit: areas of at least PEOPLE people, and those whose largest group's share is within
            POINTS points of the truth.
        all_areas, all_fit: the same of every area with anybody in it.
    """

    areas: int
    fit: int
    all_areas: int
    all_fit: int

    @property
    def met(self) -> bool:
        """Whether enough areas are within their points of the truth."""
        return self.fit >= SHARE * self.areas


class _Class:
    """Sums of one class of size."""

    def __init__(self) -> None:
        self.areas = self.numbers = self.covered = self.known = 0
        self.signed = self.absolute = self.squared = self.largest = 0
        self.errors = np.zeros(0, dtype=np.int64)

    def add(self, error: NDArray[np.int64], inside: NDArray[np.bool_] | None, known: NDArray[np.bool_]) -> None:
        """Add some numbers: their errors, whether the truth is in the interval, and whether there is one."""
        absolute = np.abs(error)
        self.areas += len(error)
        self.numbers += error.size
        self.signed += int(error.sum())
        self.absolute += int(absolute.sum())
        self.squared += int((absolute.astype(np.float64) ** 2).sum())
        self.largest = max(self.largest, int(absolute.max(initial=0)))
        self._count(np.bincount(np.minimum(absolute, _LARGEST).ravel()))
        if inside is not None:
            self.known += int(known.sum())
            self.covered += int(inside[known].sum())

    def merge(self, other: _Class) -> None:
        """Add the sums of another class."""
        for name in ("areas", "numbers", "covered", "known", "signed", "absolute", "squared"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.largest = max(self.largest, other.largest)
        self._count(other.errors)

    def _count(self, counts: NDArray[np.int64]) -> None:
        longest = max(len(counts), len(self.errors))
        self.errors = np.pad(self.errors, (0, longest - len(self.errors))) + np.pad(counts, (0, longest - len(counts)))

    def summary(self, size: int) -> Errors:
        half, nine, ninetynine = (quantile_class(self.errors, percent) or 0 for percent in (50, 90, 99))
        return Errors(
            size=size,
            areas=self.areas,
            numbers=self.numbers,
            l1=self.absolute / max(1, self.areas),
            bias=self.signed / max(1, self.numbers),
            rmse=(self.squared / max(1, self.numbers)) ** 0.5,
            half=half,
            nine=nine,
            ninetynine=ninetynine,
            largest=self.largest,
            covered=self.covered / self.known if self.known else None,
        )


@dataclass(frozen=True)
class Called:
    """What a table at a level, its numbers and its areas are called for people; what is not stated has its own name.

    Attributes:
        table, level: titles, "" where none is stated.
        labels: column -> label.
        names: geocode -> name.
    """

    table: str = ""
    level: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def area(self, geocode: str) -> str:
        """The geocode, with its name if it has one."""
        return f"{self.names[geocode]} ({geocode})" if self.names.get(geocode) else geocode

    def number(self, column: str) -> str:
        """The label of a number of the table."""
        return self.labels.get(column, column)


@dataclass
class TableErrors:
    """The errors of one table at one level; filled part by part."""

    table: str
    level: str
    called: Called = field(default_factory=Called)
    largest: list[LargestError] = field(default_factory=list)
    _classes: dict[int, _Class] = field(default_factory=dict)
    _fitness: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    _cells: int = 0

    def add(self, part: ReleasedTable, truth: NDArray[np.int64]) -> None:
        """Compare some rows of the table with the true answers `(n, size)` of the same areas."""
        error = part.counts - truth
        people = np.abs(truth.sum(axis=1))
        self._cells = error.shape[1]
        sizes = np.searchsorted(SIZES, people, side="right") - 1
        for size in np.unique(sizes).tolist():
            rows = sizes == size
            here = part.rows(rows)
            inside, known = None, np.zeros(here.counts.shape, dtype=bool)
            if here.lows is not None and here.highs is not None:
                inside, known = (here.lows <= truth[rows]) & (truth[rows] <= here.highs), ~np.isnan(here.lows)
            self._classes.setdefault(size, _Class()).add(error[rows], inside, known)
        self._add_largest(part, truth, error)
        self._add_fitness(part.counts, truth, people)

    def _add_largest(self, part: ReleasedTable, truth: NDArray[np.int64], error: NDArray[np.int64]) -> None:
        flat = np.abs(error).ravel()
        least = int(np.partition(flat, -LISTED)[-LISTED]) if len(flat) > LISTED else 0
        among = np.flatnonzero(flat >= max(1, least))
        for place in among[np.argsort(-flat[among], kind="stable")[:LISTED]].tolist():
            row, column = divmod(place, error.shape[1])
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

    def _add_fitness(self, released: NDArray[np.int64], truth: NDArray[np.int64], people: NDArray[np.int64]) -> None:
        if self._cells < 2:
            return
        right = fits(released, truth)
        for number, which in ((0, people >= PEOPLE), (2, people > 0)):
            self._fitness[number] += int(which.sum())
            self._fitness[number + 1] += int((right & which).sum())

    @property
    def whole(self) -> Errors:
        """Of all areas."""
        together = _Class()
        for size in sorted(self._classes):
            together.merge(self._classes[size])
        return together.summary(-1)

    @property
    def by_size(self) -> tuple[Errors, ...]:
        """Of each class of size that has areas."""
        return tuple(self._classes[size].summary(size) for size in sorted(self._classes))

    @property
    def fitness(self) -> Fitness | None:
        """None for a table of one number an area."""
        return Fitness(*self._fitness) if self._cells > 1 else None


def accuracy_page(
    release: str, status: str, universes: Sequence[tuple[str, Sequence[TableErrors]]], texts: Texts
) -> str:
    """The page for restricted/.

    Args:
        universes: what each counts, and the errors of its tables.
        texts: of the page's language.
    """
    return render(
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
