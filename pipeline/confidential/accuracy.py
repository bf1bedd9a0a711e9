"""How far the release is from the confidential counts, by level, table and size of area, for the agency alone.

Everything here is computed from confidential counts. What it writes, accuracy.json and accuracy.html, is in restricted/
and must not leave it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import scipy.sparse as sp

from geography.spine import Level
from pipeline.confidential.measure import true_histogram
from pipeline.confidential.refusals import shielded
from pipeline.estimation.whole_spine import Estimation
from pipeline.execution.job import Job
from pipeline.model.query import Query
from pipeline.model.texts.catalogue import Texts, texts_in
from pipeline.model.universe import Table, Universe
from pipeline.pages.templates import Called, render
from pipeline.release.area_sizes import TENFOLD, size_labels
from pipeline.release.spine import read_public_names
from pipeline.release.tables import ReleasedTable, read_table_parts, small_parts
from pipeline.storage.files import write_bytes, write_json
from postprocess.arrays import IntArray
from postprocess.differences import DifferenceSums, largest, outside
from postprocess.largest_group import PEOPLE, POINTS, SHARE, Target, TargetSums, fits
from postprocess.statistics import quantile_class

#: Errors larger than this are counted as this, in persons, where quantiles are taken.
_LARGEST = 100_000
#: The class of all areas together.
_ALL: Final = -1
#: Errors listed of each table and level.
LISTED = 5


@dataclass(frozen=True)
class Errors:
    """Errors of the numbers of the areas of one class of size.

    Attributes:
        size: number of the class in `TENFOLD`, by true number of people; `_ALL` for all areas together.
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

    def add(self, part: ReleasedTable, truth: IntArray) -> None:
        """Add some areas, with their true numbers."""
        self.areas += len(truth)
        self.sums.add(part.counts, truth)
        errors = np.minimum(np.abs(part.counts - truth), _LARGEST).ravel()
        self.errors = np.pad(self.errors, (0, max(0, int(errors.max(initial=-1)) + 1 - len(self.errors))))
        self.errors += np.bincount(errors, minlength=len(self.errors))
        if part.lows is not None and part.highs is not None:
            missed, known = outside(truth, part.lows, part.highs)
            self.outside, self.known = self.outside + missed, self.known + known

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

    def add(self, part: ReleasedTable, truth: IntArray) -> None:
        """Compare some rows of the table with the true answers `(n, size)` of the same areas."""
        people = np.abs(truth.sum(axis=1))
        self._cells = truth.shape[1]
        sizes = np.searchsorted(TENFOLD, people, side="right") - 1
        for size in (_ALL, *np.unique(sizes).tolist()):
            rows = slice(None) if size == _ALL else sizes == size
            self._classes.setdefault(size, _Class(self._cells)).add(part.rows(rows), truth[rows])
        self._add_largest(part, truth)
        if self._cells > 1:
            self._target.add(people, fits(part.counts, truth))

    def _add_largest(self, part: ReleasedTable, truth: IntArray) -> None:
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
        return self._classes.get(_ALL, _Class(self._cells)).summary(_ALL)

    @property
    def by_size(self) -> tuple[Errors, ...]:
        """Of each class of size that has areas."""
        return tuple(self._classes[size].summary(size) for size in sorted(self._classes) if size != _ALL)

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


#: Answers in memory at a time.
_AT_ONCE = 1 << 24


def write_accuracy(job: Job) -> None:
    """Write to restricted/ how far the release is from the truth.

    accuracy.json has, for each universe, table and level, the mean over geounits of the L1 error, in persons: the sum
    over the table's numbers of |released - true|. accuracy.html shows the rest, see `pipeline.confidential.accuracy`.
    """
    shielded(job.run, "accuracy", lambda: _write(job))


def _write(job: Job) -> None:
    write_json(job.run.accuracy, accuracy_of(job), job.run.staging, private=True)
    texts = texts_in(job.spec.report.language)
    universes = [
        (job.spec.labels(universe.name).records or universe.name or texts("people"), errors_of(job, universe))
        for universe in job.universes
    ]
    page = accuracy_page(job.spec.name, job.status, universes, texts)
    write_bytes(job.run.accuracy_page, page.encode(), job.run.staging, private=True)


def errors_of(job: Job, universe: Universe) -> list[TableErrors]:
    """The errors of each published table at each of its levels."""
    all_errors = []
    for level in job.spine.levels:
        truth = true_histogram(job, universe, level.name)
        for table in universe.tables:
            if level.name not in table.levels:
                continue
            errors = TableErrors(table.name, level.name, _called(job, universe, table, level))
            start = 0
            file = job.readable(job.folder(universe).table(table.name, level.name))
            for part in small_parts(read_table_parts(file, geocodes=level.geocodes)):
                stop = start + len(part.geocodes)
                errors.add(part, table.query.answer_csr(truth[start:stop]))
                start = stop
            all_errors.append(errors)
    return sorted(
        all_errors, key=lambda errors_of_table: [table.name for table in universe.tables].index(errors_of_table.table)
    )


def _called(job: Job, universe: Universe, table: Table, level: Level) -> Called:
    """By the published names and labels, in the language of the report."""
    labels, stated = job.spec.labels(universe.name), (job.spec.geography.names or {}).get(level.name)
    names: list[str] = []
    if stated is not None:
        found = read_public_names(
            job.readable(job.run.names(level.name)), level.name, level.geocodes, tuple(stated.name)
        )
        names = found.in_language(job.spec.report.language or "")
    return Called(
        table=labels.table(table.name),
        level=labels.level(level.name),
        labels=labels.columns(table.query),
        names=dict(zip(level.geocodes.tolist(), names, strict=False)),
    )


def accuracy_of(job: Job) -> dict[str, dict[str, dict[str, float]]]:
    """Universe -> table -> level -> mean L1 error."""
    mean_errors: dict[str, dict[str, dict[str, float]]] = {}
    for universe in job.universes:
        estimation = Estimation(job, universe)
        tables: dict[str, dict[str, float]] = {table.name: {} for table in universe.tables}
        for number, level in enumerate(job.spine.levels):
            difference = (estimation.released(number) - true_histogram(job, universe, level.name)).tocsr()
            for table in universe.tables:
                tables[table.name][level.name] = _mean_error(table.query, difference)
            job.progress.advance(len(level))
        mean_errors[universe.name] = tables
    return mean_errors


def _mean_error(query: Query, difference: sp.csr_array) -> float:
    """Mean over geounits of the L1 norm of a query's answers, computed for some geounits at a time."""
    step = max(1, _AT_ONCE // query.size)
    parts = range(0, difference.shape[0], step)
    total = sum(int(np.abs(query.answer_csr(difference[start : start + step])).sum()) for start in parts)
    return total / difference.shape[0]
