"""Who lives in the households of a companion, where joins say so; and which published tables count them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.model.join import Join, joined_companions
from pipeline.model.query import Query
from postprocess.membership import NO_MOST

if TYPE_CHECKING:
    from pipeline.model.universe import Table, Universe


@dataclass(frozen=True, eq=False)
class Residents:
    """The persons who live in the households of a companion, told apart from all others by the joins.

    Attributes:
        cells: `(n_cells,)` of the release's own schema, True for residents.
        least, most: members that one household has at least and at most.
    """

    companion: str
    cells: NDArray[np.bool_]
    least: int
    most: int


@dataclass(frozen=True, eq=False)
class SizeSource:
    """The published numbers that the average household size of a level is made of.

    Attributes:
        residents: the persons in the numerator.
        persons, households: a published table of either universe, and the number of its answer that counts them all.
    """

    residents: Residents
    persons: tuple[Table, int]
    households: tuple[Table, int]


def residents_of(joins: Sequence[Join], companion: str) -> Residents | None:
    """Of a companion; None where its joins do not tell its residents apart, or not how many a household has.

    They do where a join (of the form `size`, or a table) limits all members of every household, other persons are not
    counted in the same answers, and households differ in their size.
    """
    own = [join for join in joins if join.companion == companion]
    if not own or any(join.others for join in own):
        return None
    cells = np.logical_or.reduce([join.inside[join.persons.cell_answer] for join in own])
    whole = [join for join in own if (join.inside[join.persons.cell_answer] == cells).all()]
    limits = [(join.least[join.inside].sum(axis=0), join.most[join.inside].sum(axis=0)) for join in whole]
    limits = [(least, most) for least, most in limits if most.max() < NO_MOST]
    if not limits:
        return None
    lowest, highest = max(int(least.min()) for least, _ in limits), min(int(most.max()) for _, most in limits)
    return Residents(companion, cells, lowest, highest) if lowest < highest else None


def size_sources(universes: Sequence[Universe], joins: Sequence[Join], level: str) -> tuple[SizeSource, ...]:
    """Of each companion whose average household size is published at a level: whose two counts are.

    Args:
        universes: of the release, its own first.
        joins: of the release.
        level: of the tables.
    """
    found = []
    for companion in joined_companions(joins):
        residents = residents_of(joins, companion)
        homes = next(universe for universe in universes if universe.name == companion)
        if residents is not None:
            persons = _published(universes[0], residents.cells, level)
            households = _published(homes, np.ones_like(homes.structural_zeros), level)
            if persons is not None and households is not None:
                found.append(SizeSource(residents, persons, households))
    return tuple(found)


def _published(universe: Universe, cells: NDArray[np.bool_], level: str) -> tuple[Table, int] | None:
    """The first table of a level that has these cells as one answer, and its number; impossible cells do not count."""
    for table in universe.tables:
        if level in table.levels:
            answer = answer_with(table.query, cells, universe.structural_zeros)
            if answer is not None:
                return table, answer
    return None


def answer_with(query: Query, cells: NDArray[np.bool_], empty: NDArray[np.bool_]) -> int | None:
    """The number of the answer that counts just these cells, apart from empty ones; None where there is none."""
    answers = np.unique(query.cell_answer[cells & ~empty])
    if len(answers) != 1:
        return None
    same = query.cell_answer == answers[0]
    return int(answers[0]) if not ((same != cells) & ~empty).any() else None
