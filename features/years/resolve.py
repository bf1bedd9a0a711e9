"""From the section [series] to the place of a release in its series; what is not tried with series is refused."""

from __future__ import annotations

from features.years.best import LONGEST
from features.years.section import SeriesSection
from features.years.terms import Stated, problems
from pipeline.model.series import FIRST, SeriesPeriod
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.neighbours import record_change
from pipeline.privacy.budget import Neighbours
from pipeline.spec.problems import Problems
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.spec.sections import UniverseSections

__all__ = ["refuse_untried", "series_of", "stated_problems"]


def series_of(section: SeriesSection, neighbours: Neighbours) -> SeriesPeriod:
    """The place of a release; of a spec without a period, that of the first one."""
    series = section.series
    number = 0 if section.period is None else series.number(section.period)
    predecessor = section.predecessor or FIRST
    return SeriesPeriod(series.name, series.periods, number, predecessor, section.terms_for(neighbours))


def refuse_untried(section: SeriesSection, universe: Universe, sections: UniverseSections, problems: Problems) -> None:
    """Note what a spec has that no series was tried with."""
    spec = sections if isinstance(sections, ReleaseSpec) else None
    change = record_change(universe)
    untried = {
        f'framework "{universe.framework}": only "zcdp" has a budget over time': universe.framework != "zcdp",
        "[select]: the detail of tables cannot be chosen in a series": bool(universe.stated_selections),
        "geography.bypass: every geounit is measured in a series": universe.bypass,
        "companions: a series is of one histogram": spec is not None and bool(spec.companions),
        "[privacy] unit, records_per_person: a person has one record in each period": universe.unit.records > 1,
        "answers: a release of a series is not made again with them": bool(universe.added),
        "invariants that let no record change alone": change is None or change.records != 1,
    }
    for text, found in untried.items():
        if found:
            problems.add("", f"not with {text}")
    if section.change is not None and spec is not None:
        below = spec.geography.level_names[1:]
        for level in section.change.levels or ():
            if level not in below:
                problems.add("change.levels", f"found {level!r}; allowed are levels below the top: {', '.join(below)}")
    if section.spells is not None and len(section.series.periods) > LONGEST:
        problems.add("to", f"found {len(section.series.periods)} periods; at most {LONGEST} can be mixed")


def stated_problems(section: SeriesSection, neighbours: Neighbours) -> list[str]:
    """What a published section states and its design does not give, a sentence each."""
    if section.period is None or (section.series.number(section.period) == 0) != (section.predecessor == FIRST):
        return ["series: states no period, or a predecessor that the period cannot have"]
    if section.spells is None:
        return [] if section.terms is None else ["series: states a design, and its periods are independent"]
    if section.terms is None:
        return ["series: states no design"]
    terms = section.terms.stated(section.spells)
    assert isinstance(terms, Stated)
    return [f"series: {one}" for one in problems(terms, neighbours)]
