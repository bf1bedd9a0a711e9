"""Persons and households on the page: average household sizes with their intervals, and tables by households."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.joins.files import sizes_file
from features.joins.link import size_sources
from features.joins.sizes import HouseholdSizes, read_household_sizes
from pipeline.model.links.link import LinkedTable, tables_of
from pipeline.pages.facts import ReleaseFacts
from pipeline.release.tables import decimals_of
from postprocess.statistics import quantile_of

#: Areas of one level that are listed one by one.
MOST_LISTED = 60


@dataclass(frozen=True)
class AreaSize:
    """The average household size of one area; no average where there are no households."""

    geocode: str
    persons: int
    households: int
    average: float | None
    low: float | None
    high: float | None

    @property
    def decimals(self) -> int:
        """With which the average and its interval are shown."""
        return decimals_of(self.low, self.high)


@dataclass(frozen=True)
class LevelSizes:
    """The average household sizes of a level.

    Attributes:
        areas, empty: how many areas, and how many of them without households.
        low, median, high: 10 %, 50 % and 90 % of the averages are at most this; None where there are none.
        margin: half of the margins of error are at most this; None where there are none.
        listed: all areas; none where they are many.
    """

    companion: str
    level: str
    areas: int
    empty: int
    low: float | None
    median: float | None
    high: float | None
    margin: float | None
    listed: tuple[AreaSize, ...]


@dataclass(frozen=True)
class HouseholdsView:
    """What the section on persons and households shows.

    Attributes:
        sizes: average household sizes of levels.
        tables: of persons by their households.
        margins: whether the release has any.
    """

    sizes: tuple[LevelSizes, ...]
    tables: tuple[LinkedTable, ...]
    margins: bool


def households_view(facts: ReleaseFacts) -> HouseholdsView | None:
    """The section; None where nothing of it is published. Errors as `read_household_sizes`."""
    view = HouseholdsView(level_sizes(facts), tables_of(facts.links), facts.spec.publish.margins)
    return view if view.sizes or view.tables else None


def level_sizes(facts: ReleaseFacts) -> tuple[LevelSizes, ...]:
    """Of every companion and level of which they are published; errors as `read_household_sizes`."""
    return tuple(
        _of_level(
            read_household_sizes(
                facts.readable(sizes_file(facts.run, source.residents.companion, level.name)), len(level)
            )
        )
        for level in facts.spine.levels
        for source in size_sources(facts.links, level.name)
    )


def _of_level(sizes: HouseholdSizes) -> LevelSizes:
    values, lows, highs = sizes.averages.values, sizes.averages.lows, sizes.averages.highs
    margins = (
        np.full(len(values), np.nan) if lows is None or highs is None else np.maximum(values - lows, highs - values)
    )
    ends = [quantile_of(values, percent) for percent in (10, 50, 90)]
    return LevelSizes(
        companion=sizes.companion,
        level=sizes.level,
        areas=len(values),
        empty=int((sizes.households == 0).sum()),
        low=ends[0],
        median=ends[1],
        high=ends[2],
        margin=quantile_of(margins, 50),
        listed=tuple(_areas(sizes)) if len(values) <= MOST_LISTED else (),
    )


def _areas(sizes: HouseholdSizes) -> Iterator[AreaSize]:
    averages = sizes.averages
    for row, code in enumerate(sizes.geocodes.tolist()):
        ends = [_known(column, row) for column in (averages.values, averages.lows, averages.highs)]
        yield AreaSize(code, int(sizes.persons[row]), int(sizes.households[row]), *ends)


def _known(column: NDArray[np.float64] | None, row: int) -> float | None:
    return None if column is None or np.isnan(column[row]) else float(column[row])
