"""From the section [collect] to the mechanism it means; whatever does not go with it is noted with its key."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from features.local.collect.listed import ListedMechanism
from features.local.collect.rappor import Rappor
from features.local.collect.respondent import PARAMETERS, mechanism_of
from features.local.collected import Collected, CollectedAnswers, CollectedWords
from features.local.section import CentralSection, CollectSection
from features.local.survey import Survey
from pipeline.errors import InputError
from pipeline.model.schema import Schema
from pipeline.model.strategy import Central, Strategy
from pipeline.spec.problems import Problems, unknown
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.spec.resolve import UniverseResolver
from pipeline.spec.sections import UniverseSections
from pipeline.spec.slots import stated_in

_ALONE = "not with [collect]: "


def resolve_survey(section: CollectSection, scope: UniverseResolver) -> Survey | None:
    """The reports that the section means; None where problems with the mechanism were noted.

    Args:
        section: of the release's own universe.
        scope: the universe; the cells of its schema are the mechanism's values.
    """
    sections, schema, problems = scope.sections, scope.schema, scope.problems
    _note_others(sections, problems)
    collected = _collected(section, schema, problems.at("collect"))
    if collected is None:
        return None
    if collected.mechanism.n_cohorts == 1 and sections.input is not None and "cohort" in sections.input.columns:
        problems.add("input.columns.cohort", f"{collected.mechanism.name} has no cohorts; leave it out")
    if scope.strategy is not None:
        _check_measured(scope.strategy, sections, schema, problems)
    central = None
    if section.central is not None:
        central = _resolve_central(section.central, scope.level_names, problems.at("collect.central"))
    return Survey(collected, central, section.parameters)


def _collected(section: CollectSection, schema: Schema, problems: Problems) -> Collected | None:
    """How reports are counted; None where problems were noted."""
    if section.mechanism not in PARAMETERS:
        problems.add("mechanism", unknown("mechanism", section.mechanism, list(PARAMETERS)))
        return None
    parameters = dict(section.parameters)
    if "values" in PARAMETERS[section.mechanism]:
        parameters.setdefault("values", str(schema.n_cells))
    try:
        mechanism = mechanism_of(section.mechanism, parameters)
    except InputError as error:
        problems.lines.append(problems.full_key(f"parameters.{error}"))
        return None
    if isinstance(mechanism, Rappor):
        return _words(section, mechanism, schema, problems)
    assert isinstance(mechanism, ListedMechanism)
    if mechanism.values == schema.n_cells:
        return CollectedAnswers(mechanism, section.respondents)
    problems.add(
        "mechanism", f"found {section.mechanism}, for {mechanism.values} values; the schema has {schema.n_cells} cells"
    )
    return None


def _words(section: CollectSection, mechanism: Rappor, schema: Schema, problems: Problems) -> CollectedWords | None:
    """The words are the values of the one attribute, but for the last, which is any other word."""
    if section.central is not None:
        problems.add("central", "not with rappor: counts of words are made from reports alone")
    if len(schema.attributes) != 1:
        problems.add(
            "mechanism",
            f"found rappor, and {len(schema.attributes)} attributes; its words are the values of one attribute, and "
            "the last value is any other word",
        )
        return None
    *words, _ = schema.attributes[0].values
    try:
        return CollectedWords(mechanism, tuple(words), section.respondents)
    except InputError as error:
        problems.add("mechanism", str(error))
        return None


def _resolve_central(section: CentralSection, level_names: Sequence[str], problems: Problems) -> Central | None:
    """What the section means; None where problems were noted."""
    *above, leaves = level_names
    for level in section.levels:
        if level == leaves:
            problems.add(f"levels.{level}", "the leaves have reports; only levels above them may have central counts")
        elif level not in above:
            problems.add("levels", unknown("level above the leaves", level, above))
    if not section.levels.keys() <= set(above):
        return None
    budget = section.rho if section.framework == "zcdp" else section.epsilon
    central = Central(section.release, section.framework, budget or Fraction(0), dict(section.levels))
    try:
        for level in section.levels:
            central.noise(level)
    except InputError as error:
        problems.add("levels", str(error))
        return None
    return central


def _note_others(sections: UniverseSections, problems: Problems) -> None:
    """Whatever needs true counts."""
    for key, why in (
        ("bounds", "nothing is known of the true answers by which a bound could be checked"),
        ("select", "a private choice is made by true counts"),
        ("structural_zeros", "a respondent whose answer is impossible would be found in no cell"),
    ):
        if getattr(sections, key):
            problems.add(key, f"{_ALONE}{why}")
    if sections.records_per_person != 1:
        problems.add("records_per_person", f"{_ALONE}the promise is about each report")


def note_apart(spec: ReleaseSpec, problems: Problems) -> None:
    """Note what of a release of reports stands outside its own universe, and needs true counts."""
    linking = [part for part in spec.parts if part.states_links]
    linked = [key for part in linking for key, stated in stated_in(part).items() if stated]
    for key in (*(["companions"] if spec.companions else []), *linked):
        problems.add(key, f"{_ALONE}a release from reports has one histogram")
    if spec.geography.bypass:
        problems.add("geography.bypass", f"{_ALONE}only leaves have reports")
    if spec.postprocess.estimator != "full":
        problems.add(
            "postprocess.estimator", f'{_ALONE}levels above the leaves have no reports of their own; use "full"'
        )


def _check_measured(strategy: Strategy, sections: UniverseSections, schema: Schema, problems: Problems) -> None:
    """Note where the strategy or the invariants are not those of reports: see `LocalKeys.implied`."""
    *above, leaves = strategy.levels
    stated = [(measured.query.name, measured.share) for measured in leaves.queries]
    if any(level.queries for level in above) or stated != [(" * ".join(schema.names), Fraction(1))]:
        problems.add("strategy", f"{_ALONE}the reports of the leaves are what is measured; leave it out")
    if [(level, tuple(queries)) for level, queries in sections.invariants.items()] != [(leaves.level, ("total",))]:
        problems.add(
            "invariants", f"{_ALONE}the number of reports of each leaf is what is exact, and nothing else; leave it out"
        )
