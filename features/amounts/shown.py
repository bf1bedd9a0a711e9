"""Amounts on the page: the clip, and sums and means of each area with their intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.amounts.link import SumsOfCounts
from features.amounts.means import Means, path_of, read_means
from pipeline.model.links.link import links_of_kind
from pipeline.model.schema import ChosenEnd
from pipeline.model.universe import Table, Universe
from pipeline.pages.facts import ReleaseFacts
from postprocess.statistics import Averages

#: Areas of one level that are listed one by one.
_MOST_LISTED = 60
#: Answers of the table that is shown, at most.
_MOST_ANSWERS = 6


@dataclass(frozen=True)
class Known:
    """A number with its interval; None where it, or the interval, is not known."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class AmountOfArea:
    """The sum of one answer in one area, the records that it is of, and the mean."""

    geocode: str
    label: str
    sum: Known
    count: int | None
    mean: Known | None


@dataclass(frozen=True)
class LevelAmounts:
    """One level: every area and answer of one table."""

    level: str
    table: str
    rows: tuple[AmountOfArea, ...]


@dataclass(frozen=True)
class AmountView:
    """One companion of an amount.

    Attributes:
        low, high, unit: of the clip, as exact texts.
        signed: whether sums may be below 0.
        chosen: where the upper end is from; None where no question chose it.
        levels: those with few areas, of the table with the fewest answers.
    """

    name: str
    column: str
    low: str
    high: str
    unit: str
    signed: bool
    chosen: ChosenEnd | None
    levels: tuple[LevelAmounts, ...]


@dataclass(frozen=True)
class AmountsView:
    """All companions of an amount; margins: whether intervals are published."""

    amounts: tuple[AmountView, ...]
    margins: bool


def amounts_view(sources: ReleaseFacts) -> AmountsView | None:
    """Of a release; None where it has no companion of an amount. Errors as `read_means`."""
    found = tuple(_view(sources, link) for link in links_of_kind(sources.links, SumsOfCounts))
    return AmountsView(found, sources.spec.publish.margins) if found else None


def _view(sources: ReleaseFacts, link: SumsOfCounts) -> AmountView:
    universe, amount = link.sums, link.amount
    few = [table for table in universe.tables if table.query.size <= _MOST_ANSWERS]
    table = min(few, key=lambda one: one.query.size, default=None)
    levels = () if table is None else tuple(_levels(sources, universe, table))
    low, high, unit = (str(end) for end in (amount.low, amount.high, amount.unit))
    chosen = universe.measure.chosen
    return AmountView(universe.name, amount.name, low, high, unit, link.signed, chosen, levels)


def _levels(sources: ReleaseFacts, universe: Universe, table: Table) -> Iterator[LevelAmounts]:
    for level in sources.spine.levels:
        if level.name in table.levels and len(level) <= _MOST_LISTED:
            means = read_means(
                sources.readable(path_of(sources.run, universe.name, table.name, level.name)), len(level)
            )
            yield LevelAmounts(level.name, table.name, tuple(_rows(means)))


def _rows(means: Means) -> Iterator[AmountOfArea]:
    for row, code in enumerate(means.geocodes.tolist()):
        for number, label in enumerate(means.labels):
            count = None if means.counts is None else int(means.counts[row, number])
            mean = None if means.means is None else _known(means.means, row, number)
            yield AmountOfArea(code, label, _known(means.sums, row, number), count, mean)


def _known(of: Averages, row: int, number: int) -> Known:
    return Known(*(_number(column, row, number) for column in (of.values, of.lows, of.highs)))


def _number(column: NDArray[np.float64] | None, row: int, number: int) -> float | None:
    return None if column is None or np.isnan(column[row, number]) else float(column[row, number])
