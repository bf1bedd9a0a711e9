"""Cumulative numbers on the page: of each table that has some, the areas of levels with few."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from features.cumulative.cumulated import Cumulated, cumulated_in
from pipeline.model.universe import Table, Universe
from pipeline.pages.facts import ReleaseFacts
from pipeline.release.tables import ReleasedTable, read_table

#: Areas of one level that are listed one by one.
_MOST_LISTED = 60
#: Numbers of an area that are listed.
_MOST_ANSWERS = 24


@dataclass(frozen=True)
class CumulativeNumber:
    """A cumulative number with its interval; None where that is not known, or not published."""

    count: int
    low: int | None
    high: int | None

    @property
    def exact(self) -> bool:
        """Whether it is certain."""
        return self.low == self.high is not None


@dataclass(frozen=True)
class CumulativeLevel:
    """The areas of a level: the name of each, and a number for each heading."""

    level: str
    areas: tuple[tuple[str, tuple[CumulativeNumber, ...]], ...]


@dataclass(frozen=True)
class CumulativeTable:
    """A table that is published cumulatively.

    Attributes:
        title, attribute: for people.
        headings: of its numbers.
        levels: those with few areas; none where an area has many numbers.
        folder: of its files, below public/.
    """

    title: str
    attribute: str
    headings: tuple[str, ...]
    levels: tuple[CumulativeLevel, ...]
    folder: str


@dataclass(frozen=True)
class CumulativeView:
    """All such tables; margins: whether intervals are published."""

    tables: tuple[CumulativeTable, ...]
    margins: bool


def cumulative_view(facts: ReleaseFacts) -> CumulativeView | None:
    """The section; None where no table is cumulated. ReleaseError where a file is damaged."""
    tables = tuple(
        _table(facts, universe, table, fact)
        for universe in facts.universes
        for table in universe.tables
        if (fact := cumulated_in(table)) is not None
    )
    return CumulativeView(tables, facts.spec.publish.margins) if tables else None


def _table(facts: ReleaseFacts, universe: Universe, table: Table, fact: Cumulated) -> CumulativeTable:
    labels, words = facts.spec.labels(universe.name), facts.words(universe.name)
    titles = fact.titles(table, labels, facts.texts)
    values = [
        titles if term == fact.term else [labels.value(term, one) for one in stated]
        for term, stated in zip(table.query.terms, filter(None, table.query.labels), strict=True)
    ]
    files = facts.run.universe(universe.name)
    return CumulativeTable(
        words.table(table.name),
        labels.attribute(fact.term),
        tuple(" * ".join(one) for one in product(*values)),
        tuple(_levels(facts, universe, table, fact)) if table.query.size <= _MOST_ANSWERS else (),
        facts.run.name_of(fact.file(files, table, "LEVEL")),
    )


def _levels(facts: ReleaseFacts, universe: Universe, table: Table, fact: Cumulated) -> Iterator[CumulativeLevel]:
    files, language = facts.run.universe(universe.name), facts.spec.report.language or ""
    for level in facts.spine.levels:
        if level.name in table.levels and len(level) <= _MOST_LISTED:
            found = read_table(facts.readable(fact.file(files, table, level.name)), geocodes=level.geocodes)
            named = facts.names.get(level.name)
            names = level.geocodes.tolist() if named is None else named.in_language(language)
            yield CumulativeLevel(level.name, tuple(zip(names, _rows(found), strict=True)))


def _rows(found: ReleasedTable) -> Iterator[tuple[CumulativeNumber, ...]]:
    ends = [np.full(found.counts.shape, np.nan) if end is None else end for end in (found.lows, found.highs)]
    for counts, lows, highs in zip(found.counts.tolist(), *(end.tolist() for end in ends), strict=True):
        yield tuple(
            CumulativeNumber(count, *(None if end != end else round(end) for end in (low, high)))
            for count, low, high in zip(counts, lows, highs, strict=True)
        )
