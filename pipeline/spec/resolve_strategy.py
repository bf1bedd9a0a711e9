"""The strategy of a spec: its own table, a preset, or a preset with parts replaced; and its private choices.

The sections [select.NAME] state tables whose detail is chosen privately in each geounit of a level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from pipeline.errors import InputError
from pipeline.model.exact import sum_text
from pipeline.model.query import Query
from pipeline.model.schema import Schema
from pipeline.model.selection import StatedSelection
from pipeline.model.strategy import LevelStrategy, MeasuredQuery, Strategy
from pipeline.privacy.budget import Framework, Neighbours
from pipeline.spec.preset import Preset, PresetLevel
from pipeline.spec.problems import Problems, dotted
from pipeline.spec.sections import LevelSection, QuerySection, SelectSection, StrategySection
from postprocess.marginal import refines

#: Largest threshold; losses are whole numbers of 64 bits.
MOST_PERSONS = 10**15
#: Begins the key of queries that are a preset's.
_PRESET = "preset, level "


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
    problems.note_alike(sections)
    for name, section in sections.items():
        entry_problems = problems.at(dotted([name]))
        before = len(problems.lines)
        if not name.isidentifier():
            entry_problems.add("", f"found the name {name!r}; allowed are letters, digits and _, a letter first")
        entry_problems.known_level("level", section.level, level_names)
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
        if (query := problems.query(f"versions[{number}]", text, schema)) is not None:
            versions.append(query)
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


def preset_budget(preset: Preset, framework: str, level_names: Sequence[str]) -> Fraction | None:
    """The budget at which the spec's levels get what they have in the preset: its own times their shares.

    None where the preset has none for the framework, or none of the levels.
    """
    whole = preset.rho if framework == "zcdp" else preset.epsilon
    shares = sum((level.share for level in preset.match_levels(level_names).values()), Fraction(0))
    return whole * shares or None if whole is not None else None


def resolve_strategy(
    section: StrategySection,
    preset: Preset | None,
    schema: Schema,
    level_names: Sequence[str],
    problems: Problems,
    *,
    whole: int = 1,
) -> Strategy | None:
    """The strategy that `section` states for the levels of the spine, top first.

    Levels of a preset that the spine lacks are dropped; the other shares keep their proportions. What the
    section states for a level replaces what the preset has there.

    Args:
        section: the section `strategy`.
        preset: the one that the section names.
        schema: that the strategy's queries are stated over.
        level_names: of the spine, top first.
        problems: of the section.
        whole: what the levels' shares add up to; 0 where there is no budget, and then no level need be stated.

    Returns:
        None where problems were noted.
    """
    before, unstated = len(problems.lines), LevelSection(share=None if whole else Fraction(0))
    for name in section.levels:
        problems.known_level(dotted(["levels", name]), name, level_names)
    matched: Mapping[str, PresetLevel] = {}
    if preset is not None:
        with problems.noted():
            matched = preset.match_levels(level_names)
    used = sum((level.share for level in matched.values()), Fraction(0))
    shares: dict[str, Fraction] = {}
    key_of: dict[str, str] = {}  # level that is measured: where its queries stand
    queries: dict[str, Mapping[str, QuerySection]] = {}
    for name in level_names:
        own, base = section.levels.get(name, unstated), matched.get(name)
        if own.share is None and base is None:
            problems.add(f"levels.{name}", _missing_share(name, section, preset))
            continue
        shares[name] = own.share if own.share is not None else base.share / used if base else Fraction(0)
        if shares[name]:
            key_of[name], stated = _queries_of(name, own, section, base)
            queries[key_of[name]] = stated
        elif own.queries:
            problems.add(f"levels.{name}", "has queries and the share 0; give it a share, or no queries")
    measured = {
        key: _measure(key, stated, [name for name in key_of if key_of[name] == key], schema, preset, problems)
        for key, stated in queries.items()
    }
    if len(shares) == len(level_names) and sum(shares.values()) != whole:
        problems.add("levels", f"the shares add up to {sum_text(shares)}; they must add up to {whole}")
    if len(problems.lines) > before:
        return None
    of_level = {name: measured[key_of[name]] if shares[name] else () for name in level_names}
    # Above the highest level nothing is released.
    of_level[level_names[0]] = tuple(replace(one, where_positive=False) for one in of_level[level_names[0]])
    return Strategy(tuple(LevelStrategy(name, shares[name], of_level[name]) for name in level_names))


def _missing_share(name: str, section: StrategySection, preset: Preset | None) -> str:
    if preset is not None:
        return (
            f"missing; {preset.name} has no level like {name!r} (it has "
            f'{", ".join(level.name for level in preset.levels)}), so give it a share, or "0" to measure nothing there'
        )
    if name in section.levels:
        return 'has no share; give it one, or "0" to measure nothing there'
    return 'missing; give the level a share, or "0" to measure nothing there'


def _queries_of(
    name: str, own: LevelSection, section: StrategySection, base: PresetLevel | None
) -> tuple[str, Mapping[str, QuerySection]]:
    """The queries of a level, and where they stand: its own, else the section's, else the preset's."""
    if own.queries is None and section.queries is not None:
        return "queries", section.queries
    if own.queries is None and base is not None:
        return f"{_PRESET}{base.name}", base.queries
    return f"levels.{name}.queries", own.queries or {}


def _measure(
    key: str,
    stated: Mapping[str, QuerySection],
    levels: Sequence[str],
    schema: Schema,
    preset: Preset | None,
    problems: Problems,
) -> tuple[MeasuredQuery, ...]:
    """The queries that stand at `key`, which `levels` use; problems are noted once, not once a level."""
    if not stated:
        problems.add(key, f"no queries are given; give them there or in [{problems.full_key('queries')}]")
        return ()
    if key.startswith(_PRESET) and preset is not None and (text := _lacking(preset, schema)):
        problems.add("preset", text)
        return ()
    measured: dict[tuple[str, ...], MeasuredQuery] = {}
    for text, section in stated.items():
        if (query := problems.query(key, text, schema)) is None:
            continue
        if (other := measured.get(query.terms)) is not None:
            problems.add(key, f"{other.query.name!r} and {query.name!r} are the same query; measure it once")
        else:
            measured[query.terms] = MeasuredQuery(query, section.share, section.where is not None)
    shares = {text: section.share for text, section in stated.items()}
    if sum(shares.values()) != 1:
        at = "" if len(levels) == 1 and f".{levels[0]}." in key else f" at the levels {', '.join(levels)}"
        problems.add(key, f"the shares add up to {sum_text(shares)}{at}; they must add up to 1")
    return tuple(measured.values())


def _lacking(preset: Preset, schema: Schema) -> str:
    """What the preset's queries name and the schema does not have; "" where there is nothing."""
    if missing := [name for name in preset.attributes if name not in schema.terms]:
        return (
            f"{preset.name} measures queries over {', '.join(preset.attributes)}; the schema lacks the "
            f"attribute{'s' if len(missing) > 1 else ''} {', '.join(missing)} (it has {', '.join(schema.names)})"
        )
    for recode in preset.recodes:
        if recode.name not in schema.terms:
            values = [value for _, group in recode.groups for value in group]
            return (
                f"{preset.name} measures the recode {recode.name!r}, which can be made for the values "
                f"{', '.join(values)} of {recode.attribute!r} only; found "
                f"{', '.join(schema.attribute(recode.attribute).values)}; give [schema.recodes.{recode.name}]"
            )
    return ""
