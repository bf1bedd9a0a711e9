"""The sections [select.NAME] of a spec: tables whose detail is chosen privately in each geounit of a level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

from pipeline.errors import InputError
from pipeline.model.query import Query
from pipeline.model.schema import Schema
from pipeline.model.selection import StatedSelection
from pipeline.privacy.budget import Framework, Neighbours
from pipeline.spec.problems import Problems, dotted, unknown
from pipeline.spec.sections import SelectSection
from postprocess.marginal import refines

#: Largest threshold; losses are whole numbers of 64 bits.
MOST_PERSONS = 10**15


def resolve_selections(
    sections: Mapping[str, SelectSection],
    schema: Schema,
    level_names: Sequence[str],
    framework: Framework,
    budget: Fraction | None,
    neighbours: Neighbours,
    problems: Problems,
) -> tuple[StatedSelection, ...]:
    """The selections that a universe's sections state; everything that does not fit is noted with its key.

    Args:
        sections: the section `select`, by name of the selection.
        schema: that the versions are queries of.
        level_names: of the spine, top first.
        framework: of the universe.
        budget: what one of the universe's records costs; None where it is not known, which is noted already.
        neighbours: of the universe.
        problems: of the section `select`.
    """
    selections = []
    names: dict[str, str] = {}
    for name, section in sections.items():
        entry_problems = problems.at(dotted([name]))
        before = len(problems.lines)
        if not name.isidentifier():
            entry_problems.add("", f"found the name {name!r}; allowed are letters, digits and _, a letter first")
        if (other := names.setdefault(name.casefold(), name)) != name:
            entry_problems.add("", f"differs from {other!r} in capital letters only; names must differ by more")
        if section.level not in level_names:
            entry_problems.add("level", unknown("level", section.level, level_names, are="the levels are"))
        versions = _versions(section, schema, entry_problems)
        _check_thresholds(section, entry_problems)
        if budget is None or len(problems.lines) > before:
            continue
        selection = StatedSelection(
            name, section.level, tuple(versions), section.thresholds, section.share, section.choice_share
        )
        try:
            selection.bought(framework, budget, neighbours)
        except InputError as error:
            entry_problems.add("", str(error))
        selections.append(selection)
    total = sum((section.share for section in sections.values()), Fraction(0))
    if total >= 1:
        shares = ", ".join(f"{name} {section.share}" for name, section in sections.items())
        problems.add(
            "",
            f"the shares add up to {total} ({shares}); it must be less than 1: the strategy has the rest",
        )
    return tuple(selections)


def _versions(section: SelectSection, schema: Schema, problems: Problems) -> list[Query]:
    versions: list[Query] = []
    for number, text in enumerate(section.versions):
        with problems.noted():
            versions.append(Query.parse(text, schema, where=problems.full_key(f"versions[{number}]")))
    if len(versions) < len(section.versions):
        return versions
    for number, (coarse, fine) in enumerate(pairwise(versions), start=1):
        if not refines(fine, coarse) or fine.size == coarse.size:
            problems.add(
                f"versions[{number}]",
                f"{fine.name!r} does not divide the answers of {coarse.name!r} before it; the versions go from coarse "
                "to fine, and each refines the one before",
            )
    return versions


def _check_thresholds(section: SelectSection, problems: Problems) -> None:
    if len(section.thresholds) != len(section.versions):
        problems.add(
            "thresholds",
            f"found {len(section.thresholds)} for {len(section.versions)} versions; each version needs one",
        )
    elif section.thresholds[0] != 0 or any(a >= b for a, b in pairwise(section.thresholds)):
        problems.add(
            "thresholds",
            f"found {', '.join(map(str, section.thresholds))}; the first is 0, since there must be a version for "
            "everybody, and they rise",
        )
    elif section.thresholds[-1] > MOST_PERSONS:
        problems.add("thresholds", f"found {section.thresholds[-1]}; at most {MOST_PERSONS:,} is allowed")
