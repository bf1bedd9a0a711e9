"""The sections [[join]] of a spec, resolved and checked together, before any record is read.

The joins with one companion must be such that every release can keep them in every geounit.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from features.joins.forms import JoinForms, StatedJoin
from features.joins.household_table import HouseholdTable
from features.joins.join import HOUSEHOLD, MEMBERS, Join, household_column, joined_companions
from features.joins.kinds import JoinKinds, Unfit
from features.joins.link import answer_with, residents_of
from features.joins.linked import LinkedHouseholds, links_with_households
from features.joins.section import HouseholdTableSection, JoinSection
from pipeline.model.query import Query
from pipeline.model.universe import Table, Universe
from pipeline.release.layout import query_file_name
from pipeline.spec.problems import Problems, dotted, unknown
from postprocess.marginal import refines

if TYPE_CHECKING:
    from pipeline.spec.release_spec import ReleaseSpec

#: Groups of persons that the joins with one companion may tell apart: bounds on all 2^10 sets of them are computed.
MOST_GROUPS = 10
#: Kinds of households reported one by one.
_SHOWN = 5


@dataclass(frozen=True, eq=False)
class StatedJoins:
    """See `pipeline.model.links.link.StatedLinks`.

    Attributes:
        universes: with the tables that average household sizes are made of, where the spec states none.
        joins: what households imply for the persons in them, in the spec's order.
        tables: of persons by their households, in the spec's order.
    """

    universes: tuple[Universe, ...]
    joins: tuple[Join, ...]
    tables: tuple[HouseholdTable, ...]

    def links(self, universes: Sequence[Universe]) -> tuple[LinkedHouseholds, ...]:
        """See `StatedLinks.links`."""
        return links_with_households(universes, self.joins, self.tables)


def stated_joins(spec: ReleaseSpec) -> StatedJoins:
    """What a spec states of joins; nothing where it states none. Errors as `ReleaseSpec.universes`."""
    stated = (one for one in spec.stated_links() if isinstance(one, StatedJoins))
    return next(stated, StatedJoins((), (), ()))


def resolve(
    sections: Sequence[JoinSection],
    table_sections: Mapping[str, HouseholdTableSection],
    spec: ReleaseSpec,
    universes: Sequence[Universe],
    problems: Problems,
) -> StatedJoins:
    """What the sections of a spec state of its universes; everything that does not fit is noted with its key."""
    levels = spec.geography.level_names
    joins = resolve_joins(sections, universes, tuple(spec.companions), levels, problems)
    if joins:
        unstated = {name for name, part in (("", spec), *spec.companions.items()) if part.tables is None}
        universes = [with_size_tables(one, joins, levels) if one.name in unstated else one for one in universes]
    joined = tuple(dict.fromkeys(section.companion for section in sections))
    tables = resolve_household_tables(table_sections, universes, joined, levels, problems)
    return StatedJoins(tuple(universes), joins, tables)


def encode_household_table(table: HouseholdTable) -> list[Any]:
    """A table of persons by their households as a published spec has it: its name, and what it says."""
    queries = {"persons": table.persons.name, "households": table.households.name}
    return [table.name, {**queries, "companion": table.companion, "levels": list(table.levels)}]


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
        if (other := titles.setdefault(section.title, number)) != number:
            part.add("name", f"join[{other}] is called {section.title!r}, too; names must differ")
        if section.companion not in companions:
            part.add("companion", unknown("companion", section.companion, companions, are="the companions are"))
        elif section.companion in known and not known[section.companion].measure.counts:
            part.add("companion", f"{section.companion!r} holds sums of an amount; its records are no households")
        elif "" in known and section.companion in known:
            schemas = known[""].schema, known[section.companion].schema
            if (join := JoinForms(section, *schemas, part).stated()) is not None:
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
            if level not in level_names:
                part.add("levels", unknown("level", level, level_names, are="the levels are"))
        if len(problems.lines) == before and "" in known and companion in known:
            with problems.noted():
                persons = Query.parse(section.persons, known[""].schema, where=part.full_key("persons"))
                homes = Query.parse(section.households, known[companion].schema, where=part.full_key("households"))
                ordered = tuple(level for level in level_names if level in levels)
                found.append(HouseholdTable(name, len(found), companion, persons, homes, ordered))
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
    inside = np.zeros(query.size, dtype=np.bool_)
    for stated in joins:
        inside |= stated.join.inside[query.answers_in(stated.join.persons)]
    if (groups := int(inside.sum())) > MOST_GROUPS:
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
