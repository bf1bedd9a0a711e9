"""The link of persons and the households that they live in: joins, residents, and which tables count them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from features.joins.mathematics.membership import NO_MOST, Membership
from pipeline.model.link import Link, LinkedTable, links_of_kind
from pipeline.model.query import Query
from pipeline.model.schema import NumberColumn
from pipeline.model.texts.message import marked
from pipeline.release.layout import file_name
from postprocess.arrays import BoolArray

if TYPE_CHECKING:
    from pipeline.model.universe import Table, Universe

#: Columns of the microdata of joined universes: number of the household, and how many persons have it.
HOUSEHOLD, MEMBERS = "household", "members"


@dataclass(frozen=True, eq=False)
class Join(Membership):
    """A membership with names: its queries are those of the spec, on two universes.

    Attributes:
        persons: on the release's own universe.
        households: on the companion.
        companion: the universe of households.
    """

    persons: Query
    households: Query
    _: KW_ONLY
    companion: str


def joined_companions(joins: Sequence[Join]) -> tuple[str, ...]:
    """The companions that are joined, in the order of the joins."""
    return tuple(dict.fromkeys(join.companion for join in joins))


def household_column(companion: str, companions: Sequence[str]) -> str:
    """The column of the persons' microdata with the number of their household among those of a companion.

    Args:
        companion: one of `companions`.
        companions: all that are joined.
    """
    return HOUSEHOLD if len(companions) == 1 else f"{HOUSEHOLD}_{companion}"


def largest_household(joins: Sequence[Join], companion: str, otherwise: int) -> int:
    """The most members that a household of a companion can have.

    A join that all members are counted by limits them, and so do several together that count each of them at least
    once. Where nothing does, the number is `otherwise`, or the least of the largest kind if that is more.

    Args:
        joins: of the release.
        companion: that is joined.
        otherwise: members where joins allow any number.
    """
    own = [join for join in joins if join.companion == companion]
    counted = [join.inside[join.persons.cell_answer] for join in own]
    members = np.logical_or.reduce(counted)
    most = [int(join.most[join.inside].sum(axis=0).max()) for join in own]
    limits = [limit for limit, some in zip(most, counted, strict=True) if limit < NO_MOST and (some == members).all()]
    limited = [number for number, limit in enumerate(most) if limit < NO_MOST]
    if limited and (np.logical_or.reduce([counted[number] for number in limited]) == members).all():
        limits.append(sum(most[number] for number in limited))
    least = max(int(join.least[join.inside].sum(axis=0).max()) for join in own)
    return min(limits) if limits else max(otherwise, least)


#: What is said wherever such a table is shown; it has no margins of error.
NO_MARGINS = marked(
    "Which person lives in which household was drawn: these numbers follow from the joins, the published counts of "
    "persons and of households, and chance. Their error is not known, so they have no margin; none of them is exact."
)


@dataclass(frozen=True, eq=False)
class HouseholdTable(LinkedTable):
    """Persons who live in households of a companion, by their own answers and those of their households.

    Attributes:
        companion: whose records are the households.
        persons: a query on the release's own universe.
        households: a query on the companion.
    """

    companion: str
    persons: Query
    households: Query

    @property
    def note(self) -> str:
        """Why it has no margins."""
        return NO_MARGINS

    def file(self, public: Path, level: str) -> Path:
        """Where it is at a level, in the form of a table without margins of error."""
        return public / "household_tables" / file_name("table", self.name) / f"{file_name('level', level)}.parquet"

    @property
    def size(self) -> int:
        """The number of columns of counts."""
        return self.persons.size * self.households.size

    @property
    def query(self) -> str:
        """The two queries as one text."""
        return f"{self.persons.name} of persons by {self.households.name} of {self.companion}"

    @property
    def labels(self) -> tuple[str, ...]:
        """Of its columns, see `columns`."""
        return self.columns(self.persons.answer_labels(), self.households.answer_labels())

    def columns(self, own: Sequence[str], theirs: Sequence[str]) -> tuple[str, ...]:
        """Names of its columns, from those of answers: of persons, then of households; those alone where all count."""
        if not self.persons.terms:
            return tuple(theirs)
        return tuple(f"{one} * {home}" for one in own for home in theirs) if self.households.terms else tuple(own)


@dataclass(frozen=True, eq=False)
class Residents:
    """The persons who live in the households of a companion, told apart from all others by the joins.

    Attributes:
        cells: `(n_cells,)` of the release's own schema, True for residents.
        least, most: members that one household has at least and at most.
    """

    companion: str
    cells: BoolArray
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


@dataclass(frozen=True, eq=False)
class Households(Link):
    """The link of the release's own universe with a companion, whose records are the households of its persons.

    Attributes:
        persons: the release's own universe.
        households: the companion.
        joins: what its households imply, one or more.
        column: of the persons' microdata, with the number of their household.
        tables: of persons by what these households are.
    """

    members: ClassVar[bool] = True
    records_step: ClassVar[str] = "household tables"

    persons: Universe
    households: Universe
    joins: tuple[Join, ...]
    column: str
    tables: tuple[HouseholdTable, ...] = ()

    @property
    def of(self) -> str:
        """See `Link.of`."""
        return self.persons.name

    @property
    def by(self) -> str:
        """See `Link.by`."""
        return self.households.name

    def together(self, otherwise: int) -> int | None:
        """The most members that a household can have; see `Link.together`."""
        return largest_household(self.joins, self.by, otherwise)

    def queries(self, universe: str) -> tuple[Query, ...]:
        """The queries of the joins on the persons or on the households; none on other universes."""
        return tuple(
            join.households if universe == self.by else join.persons
            for join in self.joins
            if universe in (self.of, self.by)
        )

    def numbers(self, universe: str) -> tuple[NumberColumn, ...]:
        """See `Link.numbers`: the number of the household, and of households how many members they have."""
        if universe == self.by:
            return (
                NumberColumn(HOUSEHOLD, marked("Number of the household"), is_key=True),
                NumberColumn(MEMBERS, marked("Persons in the household")),
            )
        column = NumberColumn(self.column, marked("Number among {what}"), self.by, filled=False)
        return (column,) if universe == self.of else ()

    @property
    def moves_top(self) -> bool:
        """See `Link.moves_top`."""
        return True

    @cached_property
    def residents(self) -> Residents | None:
        """See `residents_of`."""
        return residents_of(self.joins, self.by)

    def average_size(self, level: str) -> SizeSource | None:
        """What the average household size of a level is made of; None where its two counts are not published."""
        residents = self.residents
        if residents is None:
            return None
        persons = _published(self.persons, residents.cells, level)
        households = _published(self.households, np.ones_like(self.households.structural_zeros), level)
        return None if persons is None or households is None else SizeSource(residents, persons, households)


def size_sources(links: Iterable[Link], level: str) -> tuple[SizeSource, ...]:
    """Of each companion whose average household size is published at a level."""
    found = (link.average_size(level) for link in links_of_kind(links, Households))
    return tuple(source for source in found if source is not None)


def _published(universe: Universe, cells: BoolArray, level: str) -> tuple[Table, int] | None:
    """The first table of a level that has these cells as one answer, and its number; impossible cells do not count."""
    for table in universe.tables:
        if level in table.levels:
            answer = answer_with(table.query, cells, universe.structural_zeros)
            if answer is not None:
                return table, answer
    return None


def answer_with(query: Query, cells: BoolArray, empty: BoolArray) -> int | None:
    """The number of the answer that counts just these cells, apart from empty ones; None where there is none."""
    answers = np.unique(query.cell_answer[cells & ~empty])
    if len(answers) != 1:
        return None
    same = query.cell_answer == answers[0]
    return int(answers[0]) if not ((same != cells) & ~empty).any() else None
