"""From [[join]] and [household_tables.NAME] to the links of persons with households, and what comes with them.

The joins with one companion must be such that every release can keep them in every geounit.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from features.joins.link import (
    HOUSEHOLD,
    MEMBERS,
    Households,
    HouseholdTable,
    Join,
    answer_with,
    household_column,
    joined_companions,
    residents_of,
)
from features.joins.mathematics.membership import MOST_GROUPS, NO_MOST
from features.joins.section import HouseholdTableSection, JoinForms, JoinSection, StatedJoin
from pipeline.model.area_names import Areas
from pipeline.model.link import StatedLinks
from pipeline.model.query import Query
from pipeline.model.universe import Table, Universe
from pipeline.release.layout import query_file_name
from pipeline.spec.fields import NamedTable, TableName
from pipeline.spec.problems import Problems, dotted, unknown
from pipeline.spec.public import encode
from pipeline.spec.slots import FeatureKeys
from postprocess.arrays import BoolArray, IntArray
from postprocess.marginal import refines

if TYPE_CHECKING:
    import pandas as pd
    import scipy.sparse as sp

    from features.joins.knowledge import BoundedByHouseholds, ExpectedMembers
    from pipeline.estimation.constraints import Results
    from pipeline.estimation.expectation import Expectation
    from pipeline.execution.job import Job
    from pipeline.execution.steps import Step
    from pipeline.metadata.products import Product
    from pipeline.pages.templates import ReleaseFacts
    from pipeline.published import PublishedRelease
    from pipeline.reading.reader import Reader
    from pipeline.spec.release_spec import ReleaseSpec


class LinkedHouseholds(Households):
    """The link with what is made of it; modules that bring libraries are imported when they are needed."""

    def knowledge_after(self, job: Job) -> BoundedByHouseholds:
        """See `Link.knowledge_after`."""
        from features.joins.knowledge import BoundedByHouseholds  # brings the solvers

        return BoundedByHouseholds(job, self)

    def knowledge_first(self, job: Job, results: Callable[[], Results]) -> ExpectedMembers:
        """See `Link.knowledge_first`."""
        from features.joins.knowledge import ExpectedMembers

        return ExpectedMembers(job, self, results)

    def checks(self) -> tuple[Callable[[], object], ...]:
        """See `Link.checks`: what the joins say of persons can be stated by bounds."""
        from features.joins.knowledge import distinguished

        return (partial(distinguished, self),)

    def steps(self, job: Job, level: int) -> list[Step]:
        """See `Link.steps`."""
        from features.joins.publishing import size_steps

        return size_steps(job, self, level)

    @staticmethod
    def write_records(job: Job, links: Sequence[Households], counts: sp.csr_array) -> None:
        """See `Link.write_records`."""
        from features.joins.publishing import publish_joined_records

        publish_joined_records(job, links, counts)

    def sizes_at(self, release: PublishedRelease, of: Reader, level: str) -> pd.DataFrame:
        """See `Link.sizes_at`."""
        from features.joins.reading import SizesOfHouseholds  # brings pandas

        return SizesOfHouseholds(release, self, of).at(level)

    def sizes_over(self, release: PublishedRelease, of: Reader, by: Reader, areas: Areas) -> pd.DataFrame:
        """See `Link.sizes_over`."""
        from features.joins.reading import SizesOfHouseholds

        return SizesOfHouseholds(release, self, of).over(areas, by)


@dataclass(frozen=True, eq=False)
class Unfit:
    """A kind of household that no members fit.

    Attributes:
        kind: its number.
        join: whose limits cannot be kept, with those of joins on queries that refine its own.
        answer: of the join's query on persons.
        least, most: what the joins demand of a household's members with this answer; most is the lower.
    """

    kind: int
    join: Join
    answer: int
    least: int
    most: int


@dataclass(frozen=True, eq=False)
class JoinKinds:
    """The kinds of households of one companion, by the answers to all its joins' queries.

    Attributes:
        joins: all with the same companion; of any two persons' queries one refines the other.
        answers: `(n_kinds, n_joins)` the answer to each join's query on households.
        empty: `(n_cells,)` persons' cells that are structural zeros.
    """

    joins: tuple[Join, ...]
    answers: IntArray
    empty: BoolArray

    @classmethod
    def of(cls, joins: Sequence[Join], empty: BoolArray, no_household: BoolArray) -> JoinKinds:
        """Those that some possible cell of households falls in.

        Args:
            joins: with one companion.
            empty: `(n_cells,)` structural zeros of persons.
            no_household: `(n_cells,)` structural zeros of households.
        """
        number = np.zeros(len(no_household), dtype=np.int64)
        for join in joins:  # renumbered each time, so that numbers stay below those of cells
            number = np.unique(number * join.households.size + join.households.cell_answer, return_inverse=True)[1]
        cells = np.flatnonzero(~no_household)
        first = cells[np.unique(number[cells], return_index=True)[1]]
        return cls(tuple(joins), np.stack([j.households.cell_answer[first] for j in joins], axis=1), empty)

    @cached_property
    def labels(self) -> Mapping[str, NDArray[np.str_]]:
        """Attribute or recode of households -> its label for each kind, `(n_kinds,)`."""
        return {
            term: join.households.labels_of(term)[self.answers[:, number]]
            for number, join in enumerate(self.joins)
            for term in join.households.terms
        }

    def unfit(self) -> tuple[Unfit, ...]:
        """The kinds that no members fit, each with the first limits found that contradict each other.

        The answers of nested queries lie within each other like the nodes of a tree, so whole numbers that keep all
        limits exist where the sums of the lower and upper ones, from the finest answers up, leave a range at each node.
        """
        chain = sorted(range(len(self.joins)), key=lambda number: -self.joins[number].persons.size)
        query = self.joins[chain[0]].persons
        groups = np.flatnonzero(_inside(self.joins, query))
        possible = np.bincount(query.cell_answer[~self.empty], minlength=query.size) > 0
        n = len(self.answers)
        least = np.zeros((n, len(groups)), dtype=np.int64)
        most = np.tile(np.where(possible[groups], NO_MOST, 0), (n, 1))
        found: dict[int, Unfit] = {}
        for number in chain:
            join = self.joins[number]
            if join.persons is not query:
                above = query.answers_in(join.persons)[groups]
                query, (groups, part) = join.persons, np.unique(above, return_inverse=True)
                least, most = _summed(least, part, len(groups)), np.minimum(_summed(most, part, len(groups)), NO_MOST)
            kind = self.answers[:, number]
            stated = join.inside[groups]
            least[:, stated] = np.maximum(least[:, stated], join.least[groups[stated]][:, kind].T)
            most[:, stated] = np.minimum(most[:, stated], join.most[groups[stated]][:, kind].T)
            for row, column in np.argwhere(least > most):
                limits = int(least[row, column]), int(most[row, column])
                found.setdefault(int(row), Unfit(int(row), join, int(groups[column]), *limits))
            least = np.minimum(least, most)
        return tuple(found[kind] for kind in sorted(found))

    def boxes(self, kinds: Sequence[int]) -> Iterator[tuple[dict[str, tuple[str, ...]], int]]:
        """Products of labels that together hold these kinds and no others, each with the number of a kind in it.

        A term whose labels make no difference is left out.
        """
        wanted = np.zeros(len(self.answers), dtype=np.bool_)
        wanted[list(kinds)] = True
        left = wanted.copy()
        while left.any():
            first = int(np.flatnonzero(left)[0])
            box = {term: {str(labels[first])} for term, labels in self.labels.items()}
            for term, labels in self.labels.items():
                others = self._in_box({t: chosen for t, chosen in box.items() if t != term})
                fits = {str(x) for x in labels[others]} - {str(x) for x in labels[others & ~wanted]}
                box[term] |= fits
                if not (others & ~wanted).any():
                    del box[term]
            left &= ~self._in_box(box)
            yield {term: self._ordered(term, chosen) for term, chosen in box.items()}, first

    def _ordered(self, term: str, chosen: set[str]) -> tuple[str, ...]:
        """Labels of a term, in their order."""
        query = next(join.households for join in self.joins if term in join.households.terms)
        return tuple(label for label in dict.fromkeys(map(str, query.labels_of(term))) if label in chosen)

    def _in_box(self, box: Mapping[str, set[str]]) -> BoolArray:
        inside = np.ones(len(self.answers), dtype=np.bool_)
        for term, labels in box.items():
            inside &= np.isin(self.labels[term], sorted(labels))
        return inside


def _inside(joins: Sequence[Join], finest: Query) -> BoolArray:
    """`(finest.size,)`: the answers of which some join says something."""
    return np.logical_or.reduce([join.inside[finest.answers_in(join.persons)] for join in joins])


def _summed(values: IntArray, part: NDArray[np.intp], n: int) -> IntArray:
    """Columns `(rows, m)` added up within each part, `(rows, n)`."""
    out = np.zeros((len(values), n), dtype=np.int64)
    np.add.at(out.T, part, values.T)
    return out


#: Kinds of households reported one by one.
_SHOWN = 5


@dataclass(frozen=True, eq=False)
class StatedJoins(StatedLinks):
    """The joins of a spec; its universes have the tables that average household sizes are made of.

    Attributes:
        joins: what households imply for the persons in them, in the spec's order.
        tables: of persons by their households, in the spec's order.
    """

    joins: tuple[Join, ...]
    tables: tuple[HouseholdTable, ...]

    def links(self, universes: Sequence[Universe]) -> tuple[LinkedHouseholds, ...]:
        """See `StatedLinks.links`: one for each companion that is joined, in the order of the joins."""
        by_name = {universe.name: universe for universe in universes}
        companions = joined_companions(self.joins)
        return tuple(
            LinkedHouseholds(
                persons=by_name[""],
                households=by_name[companion],
                joins=tuple(join for join in self.joins if join.companion == companion),
                column=household_column(companion, companions),
                tables=tuple(table for table in self.tables if table.companion == companion),
            )
            for companion in companions
            if "" in by_name and companion in by_name
        )


def stated_joins(spec: ReleaseSpec) -> StatedJoins:
    """What a spec states of joins; nothing where it states none. Errors as `ReleaseSpec.universes`."""
    stated = (one for one in spec.stated_links() if isinstance(one, StatedJoins))
    return next(stated, StatedJoins((), (), ()))


def resolve_joins(
    sections: Sequence[JoinSection],
    universes: Sequence[Universe],
    companions: Sequence[str],
    level_names: Sequence[str],
    problems: Problems,
) -> tuple[Join, ...]:
    """The joins that the sections state; everything that does not fit is noted with its key.

    Args:
        sections: `join` of the spec.
        universes: those that could be resolved; joins with others are left out, whose problems are noted already.
        companions: names of all that the spec has.
        level_names: of the spine, top first.
        problems: of the spec.
    """
    known = {universe.name: universe for universe in universes}
    stated: dict[str, list[StatedJoin]] = defaultdict(list)
    titles: dict[str, int] = {}
    before = len(problems.lines)
    for number, section in enumerate(sections):
        part = problems.at(f"join[{number}]")
        title = section.title if section.title not in titles else f"{section.title} (join[{number}])"
        titles[title] = number
        if section.companion not in companions:
            part.add("companion", unknown("companion", section.companion, companions, are="the companions are"))
        elif section.companion in known and not known[section.companion].measure.counts:
            part.add("companion", f"{section.companion!r} holds sums of an amount; its records are no households")
        elif "" in known and section.companion in known:
            schemas = known[""].schema, known[section.companion].schema
            if (join := JoinForms(section, *schemas, part, title).stated()) is not None:
                stated[section.companion].append(join)
    if len(problems.lines) == before and "" in known:
        for name, joins in stated.items():
            _check_together(joins, known[""], known[name], level_names, problems)
            _check_columns(known[""], {household_column(name, tuple(stated))}, problems)
            _check_columns(known[name], {HOUSEHOLD, MEMBERS}, problems)
    in_order = sorted((join for joins in stated.values() for join in joins), key=lambda join: titles[join.join.name])
    return tuple(join.join for join in in_order)


def with_size_tables(universe: Universe, joins: Sequence[Join], level_names: Sequence[str]) -> Universe:
    """The universe with tables of what average household sizes are made of, where it has none with these numbers.

    Args:
        universe: the release's own, or a companion, whose tables the spec does not state.
        joins: of the release.
        level_names: of the spine, top first.
    """
    tables = list(universe.tables)
    for companion in joined_companions(joins):
        residents = residents_of(joins, companion)
        if residents is None or universe.name not in ("", companion):
            continue
        cells = np.ones_like(universe.structural_zeros) if universe.name else residents.cells
        own = [join.persons for join in joins if join.companion == companion]
        offered = [Query.parse("total", universe.schema)] if universe.name else own
        for query in sorted(offered, key=lambda each: each.size):
            known = any(answer_with(table.query, cells, universe.structural_zeros) is not None for table in tables)
            name = query_file_name(query.name)
            if not known and answer_with(query, cells, universe.structural_zeros) is not None:
                tables += [Table(name, query, tuple(level_names))] if name not in {t.name for t in tables} else []
    return replace(universe, tables=tuple(tables))


def resolve_household_tables(
    sections: Mapping[str, HouseholdTableSection],
    universes: Sequence[Universe],
    joined: Sequence[str],
    level_names: Sequence[str],
    problems: Problems,
) -> tuple[HouseholdTable, ...]:
    """The tables of persons by their households that the sections state; what does not fit is noted with its key.

    Args:
        sections: `household_tables` of the spec.
        universes: those that could be resolved; tables of others are left out, whose problems are noted already.
        joined: the companions that joins name.
        level_names: of the spine, top first.
        problems: of the spec.
    """
    known = {universe.name: universe for universe in universes}
    names = {
        table.name.casefold(): universe.key(f"tables.{table.name}")
        for universe in reversed(universes)
        for table in universe.tables
    }
    found: list[HouseholdTable] = []
    for name, section in sections.items():
        key = dotted(["household_tables", name])
        part, before = problems.at(key), len(problems.lines)
        if (other := names.setdefault(name.casefold(), key)) != key:
            part.add("", f"{other} has this name, but for capital letters; names of tables must differ by more")
        if section.companion is None and len(joined) != 1:
            part.add("companion", f"missing; it needs one of the joined companions, {', '.join(joined) or 'none'}")
        companion = section.companion or next(iter(joined), "")
        if section.companion is not None and companion not in joined:
            part.add("companion", unknown("joined companion", companion, joined, are="those with a [[join]] are"))
        levels = level_names if section.levels is None else section.levels
        if not levels:
            part.add("levels", "no level is named; leave it out for all levels")
        for level in levels:
            part.known_level("levels", level, level_names)
        if len(problems.lines) == before and "" in known and companion in known:
            with problems.noted():
                persons = Query.parse(section.persons, known[""].schema, where=part.full_key("persons"))
                homes = Query.parse(section.households, known[companion].schema, where=part.full_key("households"))
                ordered = tuple(level for level in level_names if level in levels)
                found.append(HouseholdTable(name, len(found), ordered, companion, persons, homes))
    return tuple(found)


def _check_columns(universe: Universe, columns: Collection[str], problems: Problems) -> None:
    """Note attributes that are called like columns which the microdata of joined universes have beside them."""
    for attribute in universe.schema.names:
        if attribute in columns:
            key = dotted(["schema", "attributes", attribute])
            problems.add(
                universe.key(key),
                "with [[join]] the microdata have a column of that name, for the number of the household or of its "
                "members; call it otherwise",
            )


def _check_together(
    joins: Sequence[StatedJoin], persons: Universe, households: Universe, level_names: Sequence[str], problems: Problems
) -> None:
    """Note where joins cross, contradict each other, or meet invariants and bounds that households may not allow.

    Args:
        joins: all with the same companion.
        persons: the release's own universe.
        households: the companion.
        level_names: of the spine, top first.
        problems: of the spec.
    """
    before = len(problems.lines)
    for first, second in combinations(joins, 2):
        _check_pair(first, second, problems)
    if len(problems.lines) == before:
        _check_groups(joins, problems)
    _check_exact(joins, persons, level_names, problems)
    if len(problems.lines) == before:
        _check_kinds(joins, persons, households, problems)


def _check_pair(first: StatedJoin, second: StatedJoin, problems: Problems) -> None:
    a, b = first.join.persons, second.join.persons
    if first.join.others != second.join.others:
        problems.add(
            f"{second.key}.others",
            f"found {str(second.join.others).lower()}, and {str(first.join.others).lower()} in {first.key}; all joins "
            "with one companion are about the same persons, so it must be the same",
        )
    both = (first.people & second.people).any()
    if both and (first.people & ~second.people).any() and (second.people & ~first.people).any():
        problems.add(
            second.key,
            f"is about other persons than {first.key}: some live in households by the one and not by the other, and "
            "the reverse; let both have the same `where`, or one of them a part of the other's",
        )
    elif not refines(a, b) and not refines(b, a):
        problems.add(
            second.key,
            f"its query on persons, {b.name!r}, and that of {first.key}, {a.name!r}, cross: neither divides the "
            "answers of the other. State one of them on a query that refines both, or let both name groups of one "
            "recode: [schema.recodes.NAME] with a group for each, and one for the rest",
        )


def _check_groups(joins: Sequence[StatedJoin], problems: Problems) -> None:
    finest = max(joins, key=lambda stated: stated.join.persons.size)
    query = finest.join.persons
    if (groups := int(_inside([stated.join for stated in joins], query).sum())) > MOST_GROUPS:
        problems.add(
            finest.key,
            f"its query on persons, {query.name!r}, divides those in households into {groups:,} groups; at most "
            f"{MOST_GROUPS} are allowed, so use recodes with fewer",
        )


def _check_exact(
    joins: Sequence[StatedJoin], persons: Universe, level_names: Sequence[str], problems: Problems
) -> None:
    """Below the top nothing may fix or bound the persons in households: their households are released before."""
    members = np.logical_or.reduce([stated.people for stated in joins]) & ~persons.structural_zeros
    name = joins[0].join.companion
    why = (
        f"its households ([companions.{name}], {joins[0].key}) are released first, and may imply more or fewer persons "
        "than this allows"
    )
    for level, query in persons.invariants:
        if level != level_names[0] and members.any():
            problems.add(
                dotted(["invariants", level]),
                f"{query.name!r} is exact in every {level}; {why}; keep it at the top level, {level_names[0]}",
            )
    for number, bound in enumerate(persons.bounds):
        if bound.level != level_names[0] and (members & np.isin(bound.query.cell_answer, list(bound.columns))).any():
            problems.add(
                f"bounds[{number}]",
                f"bounds persons in households in every {bound.level}; {why}; bound persons outside of households only",
            )


def _check_kinds(joins: Sequence[StatedJoin], persons: Universe, households: Universe, problems: Problems) -> None:
    kinds = JoinKinds.of([stated.join for stated in joins], persons.structural_zeros, households.structural_zeros)
    unfit = {found.kind: found for found in kinds.unfit()}
    keys = {stated.join.name: stated.key for stated in joins}
    boxes = list(kinds.boxes(list(unfit)))
    for box, kind in boxes[:_SHOWN]:
        found = unfit[kind]
        problems.add(
            keys[found.join.name],
            f"a household{_described(box)} {_contradiction(found)}; there can be none, so declare it in "
            f"companions.{households.name}.structural_zeros: {_as_toml(box)}",
        )
    if len(boxes) > _SHOWN:
        rest = ", ".join(_as_toml(box) for box, _ in boxes[_SHOWN:])
        problems.add("join", f"likewise, declare in companions.{households.name}.structural_zeros: {rest}")


def _contradiction(found: Unfit) -> str:
    label = found.join.persons.answer_labels()[found.answer]
    of = "" if label == "total" else f" in {label!r}"
    return f"would need {found.least:,} member{'s' * (found.least != 1)}{of}, where at most {found.most:,} can be"


def _described(box: Mapping[str, Sequence[str]]) -> str:
    terms = [f"{term} = {' or '.join(values)}" for term, values in box.items()]
    return f" with {' and '.join(terms)}" if terms else ""


def _as_toml(box: Mapping[str, Sequence[str]]) -> str:
    """An entry of structural_zeros; empty where all households are meant."""
    terms = (f"{term} = {json.dumps(list(v) if len(v) > 1 else v[0], ensure_ascii=False)}" for term, v in box.items())
    return "{ " + ", ".join(terms) + " }"


class JoinsKeys(FeatureKeys):
    """The sections [[join]] and [household_tables.NAME]."""

    slot: ClassVar[str] = ""
    after: ClassVar[str] = "companions"
    states_links: ClassVar[bool] = True
    section: ClassVar[tuple[str, str]] = ("features.joins", "households.html.j2")

    join: tuple[JoinSection, ...] = Field(
        default=(), description="what a household of each kind, a companion's record, implies for the persons in it"
    )
    household_tables: NamedTable[TableName, HouseholdTableSection] = Field(
        default={}, description="tables of the persons in households by what these are, by name; needs a `[[join]]`"
    )

    def stated_links(self, spec: ReleaseSpec, universes: Sequence[Universe], problems: Problems) -> StatedJoins:
        """See `Kind.stated_links`; everything that does not fit is noted with its key."""
        levels = spec.geography.level_names
        joins = resolve_joins(self.join, universes, tuple(spec.companions), levels, problems)
        if joins:
            unstated = {name for name, part in (("", spec), *spec.companions.items()) if part.tables is None}
            universes = [with_size_tables(one, joins, levels) if one.name in unstated else one for one in universes]
        joined = tuple(dict.fromkeys(section.companion for section in self.join))
        tables = resolve_household_tables(self.household_tables, universes, joined, levels, problems)
        return StatedJoins(tuple(universes), joins, tables)

    def published(self, spec: ReleaseSpec) -> Mapping[str, Any]:
        """See `Kind.published`: tables with their companion and levels."""
        tables = [
            [
                table.name,
                {
                    "persons": table.persons.name,
                    "households": table.households.name,
                    "companion": table.companion,
                    "levels": list(table.levels),
                },
            ]
            for table in stated_joins(spec).tables
        ]
        stated = {"join": encode(self.join), "household_tables": tables}
        return {key: content for key, content in stated.items() if content}

    @classmethod
    def products(cls) -> tuple[Product, ...]:
        """See `Kind.products`."""
        from features.joins.files import HOUSEHOLD_SIZES, HOUSEHOLD_TABLES

        return HOUSEHOLD_SIZES, HOUSEHOLD_TABLES

    def shown(self, facts: ReleaseFacts) -> object | None:
        """See `Kind.shown`."""
        from features.joins.files import households_view

        return households_view(facts)

    def joined_words(self) -> tuple[str, ...]:
        """See `Kind.joined_words`."""
        return tuple(section.words for section in self.join)

    def joined_rows(self, spec: ReleaseSpec, expectations: Sequence[Expectation]) -> tuple[dict[str, Any], ...]:
        """See `Kind.joined_rows`."""
        from features.joins.forecast import joined_rows

        return joined_rows(self.join, stated_joins(spec).joins, expectations)
