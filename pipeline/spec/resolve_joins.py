"""The sections [[join]] of a spec, resolved and checked together, before any record is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pipeline.model.join import Join
from pipeline.model.universe import Universe
from pipeline.spec.join_checks import check_together
from pipeline.spec.join_forms import JoinForms, StatedJoin
from pipeline.spec.join_section import JoinSection
from pipeline.spec.problems import Problems, unknown


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
        elif "" in known and section.companion in known:
            schemas = known[""].schema, known[section.companion].schema
            if (join := JoinForms(section, *schemas, part).stated()) is not None:
                stated[section.companion].append(join)
    if len(problems.lines) == before and "" in known:
        for name, joins in stated.items():
            check_together(joins, known[""], known[name], level_names, problems)
    in_order = sorted((join for joins in stated.values() for join in joins), key=lambda join: titles[join.join.name])
    return tuple(join.join for join in in_order)
