"""Expected errors by size of area: how large areas are is what an earlier release published of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.errors import InputError
from pipeline.estimation.expectation import Expectation
from pipeline.model.exact import exact_text
from pipeline.model.universe import Table
from pipeline.reading.reader import Reader, open_reader
from pipeline.release.area_sizes import SIZES, size_classes
from postprocess.linear.covariances import LevelCovariances, of_level
from postprocess.statistics import MEAN_ABSOLUTE

#: What is said where no earlier release is named.
UNKNOWN = (
    "Errors by size of area need the sizes of the areas, which are not known before the records are read: name an "
    "earlier release of the same areas with --like."
)


@dataclass(frozen=True)
class SizeRow:
    """The errors to expect of one table in the areas of one class of size at a level.

    Attributes:
        universe: "" for the release's own.
        size: number of the class in `SIZES`, by people (records of the universe) as the earlier release has them.
        areas: of the class.
        per_number, rmse: as in `ExpectedRow`; None where the measurements do not determine a number of the areas.
        relative: the sum of the expected absolute errors in percent of the areas' people; None where there are none,
            and of sums of an amount, which are not of people.
        unit: of an amount, in which the errors of its sums are; "" for counts.
    """

    universe: str
    table: str
    level: str
    size: int
    areas: int
    per_number: float | None
    rmse: float | None
    relative: float | None
    unit: str


def size_rows(expectations: Sequence[Expectation], like: Path) -> tuple[SizeRow, ...]:
    """The errors of every published table by size of area.

    Areas have as many people as records of the universe; of an amount, as records of the release's own, which it is of.

    Args:
        expectations: of every universe, the release's own first.
        like: directory of an earlier release with the same levels; areas that it does not have are left out.

    Raises:
        InputError: it has none of the areas.
        ReleaseError: it is damaged.
    """
    earlier = open_reader(like)
    found: list[SizeRow] = []
    for expectation in expectations:
        universe = expectation.universe
        counted = universe.name if universe.measure.counts else expectations[0].universe.name
        if counted and counted not in earlier.companions:
            continue
        release = earlier.companion(counted) if counted else earlier
        planned = expectation.planned()
        for number, level in enumerate(expectation.spine.level_names):
            if level in release.levels:
                people = _people(expectation, release, level)
                for table in universe.tables:
                    if level in table.levels:
                        found += _rows(expectation, planned[number], table, level, people)
    if not found:
        raise InputError(f"--like: {earlier.name} has none of the areas whose tables are to be published")
    return tuple(found)


def _people(expectation: Expectation, release: Reader, level: str) -> np.ndarray:
    """`(n_geounits,)` people of each area in the earlier release; -1 where it has no such area."""
    published = release.histogram(level).sum(axis=1)
    there = dict(zip(release.spine.level(level).geocodes.tolist(), np.asarray(published).ravel().tolist(), strict=True))
    codes = expectation.spine.level(level).geocodes.tolist()
    return np.array([there.get(code, -1) for code in codes], dtype=np.int64)


def _rows(
    expectation: Expectation, planned: LevelCovariances, table: Table, level: str, people: np.ndarray
) -> Iterator[SizeRow]:
    """Of one table at one level, whose areas have so many people, -1 where the earlier release has no such area."""
    unit, classes = expectation.universe.measure.unit, expectation.classes[expectation.spine.index_of(level)]
    sizes = np.where(people < 0, -1, size_classes(np.maximum(people, 0)))
    variances = of_level(classes, planned).of_classes(expectation.basis, table.query)
    absolute, squared = MEAN_ABSOLUTE * np.sqrt(variances).mean(axis=1), variances.mean(axis=1)
    for size in range(len(SIZES)):
        inside = sizes == size
        if not inside.any():
            continue
        alike = classes.downward[inside]  # areas of one class have the same errors
        per_number, rmse = float(absolute[alike].mean()), float(squared[alike].mean()) ** 0.5
        known, everybody = per_number == per_number, int(people[inside].sum())
        yield SizeRow(
            universe=expectation.universe.name,
            table=table.name,
            level=level,
            size=size,
            areas=int(inside.sum()),
            per_number=per_number if known else None,
            rmse=rmse if known else None,
            relative=100 * per_number * table.query.size * int(inside.sum()) / everybody
            if known and everybody and expectation.universe.measure.counts
            else None,
            unit="" if unit is None else exact_text(unit),
        )
