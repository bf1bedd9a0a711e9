"""From the sections of a spec to the universe they mean; everything that does not fit is noted with its key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypedDict

import numpy as np

from pipeline.errors import SpecError
from pipeline.model.measure import COUNTS, Measure, ProtectedUnit
from pipeline.model.query import Query
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import Attribute, Recode, Schema
from pipeline.model.selection import StatedSelection
from pipeline.model.source import OWN_NOISE, Source
from pipeline.model.strategy import Strategy
from pipeline.model.universe import Bound, PublicFact, Table, Universe
from pipeline.privacy.accounting.neighbours import vacuous
from pipeline.privacy.budget import budget_of_one
from pipeline.release.layout import query_file_name
from pipeline.spec.edit_rules import combinations_of, values_of
from pipeline.spec.input_section import check_input
from pipeline.spec.preset import Preset, load_preset
from pipeline.spec.privacy_section import CompanionPrivacySection, PrivacySection
from pipeline.spec.problems import Problems, dotted, unknown
from pipeline.spec.resolve_strategy import preset_budget, resolve_selections, resolve_strategy
from pipeline.spec.sections import BoundSection, RecodeSection, SchemaSection, UniverseSections
from pipeline.spec.slots import FeatureKeys, keys_of
from pipeline.spec.update import UpdateSection, resolve_added
from pipeline.spec.value_ranges import expand_values
from postprocess.arrays import BoolArray

#: The delta of zCDP's (epsilon, delta) statement where the spec gives none.
DEFAULT_DELTA = Fraction(1, 10**10)
#: Columns of the release's files that no attribute may share.
TAKEN_COLUMNS = ("geocode", "count")
#: Cells of a schema; each needs memory for every query.
MOST_CELLS = 1 << 24


@dataclass(frozen=True)
class SourceScope:
    """What is known of a universe when it is resolved where its noisy numbers are from.

    Attributes:
        sections: of the universe.
        schema: its own.
        strategy: its own; None where problems were noted.
        level_names: of the spine, top first.
        problems: of the universe.
    """

    sections: UniverseSections
    schema: Schema
    strategy: Strategy | None
    level_names: Sequence[str]
    problems: Problems


@dataclass(frozen=True)
class MeasureScope:
    """What is known of a universe when it is resolved what its records add to their cells.

    Attributes:
        sections: of the universe.
        own: of the release itself, where the universe is a companion; None of the release's own.
        privacy: of the release itself.
        own_privacy: the universe's budget; the same as `privacy` for the release's own.
        problems: of the universe.
    """

    sections: UniverseSections
    own: UniverseSections | None
    privacy: PrivacySection
    own_privacy: PrivacySection | CompanionPrivacySection
    problems: Problems


@dataclass(frozen=True)
class UniverseContext:
    """What a universe has from the rest of the spec.

    Attributes:
        name: "" for the release's own, else the companion's.
        privacy: the release's framework, delta and neighbours.
        own_privacy: the budget; the same as `privacy` for the release's own universe.
        passes: the queries that are fixed first.
        passes_key: where they stand, below the universe's part of the spec.
        level_names: of the spine, top first.
        bypass: whether geounits without siblings are bypassed.
        parts: slot -> what is stated of features that may say something of the universe.
        own: the sections of the release itself, where this is a companion.
        update: the answers that a version of the release was made with.
        receiving: keys by which others published all numbers of the release; None of most.
    """

    name: str
    privacy: PrivacySection
    own_privacy: PrivacySection | CompanionPrivacySection
    passes: Sequence[str]
    passes_key: str
    level_names: Sequence[str]
    bypass: bool
    parts: Mapping[str, Sequence[FeatureKeys]] = field(default_factory=dict)
    own: UniverseSections | None = None
    update: UpdateSection | None = None
    receiving: FeatureKeys | None = None


class UniverseResolver:
    """Resolves the sections of one universe; what does not fit is noted in the problems of its part of the spec."""

    def __init__(self, sections: UniverseSections, context: UniverseContext, problems: Problems) -> None:
        self.sections = sections
        self.context = context
        self.problems = problems

    def universe(self) -> Universe | None:
        """The universe that the sections state; None where problems were noted."""
        before = len(self.problems.lines)
        sections, context = self.sections, self.context
        preset = self._preset()
        schema = self._schema(preset)
        self._note_other_budget()
        if schema is None or (sections.strategy.preset is not None and preset is None):
            return None
        if (measuring := self._measuring) is not None:
            schema = measuring[0].measured(schema, measuring[1])
        noted, whole = self.problems.at("strategy"), 0 if context.receiving and not context.name else 1
        strategy = resolve_strategy(sections.strategy, preset, schema, context.level_names, noted, whole=whole)
        source = _source(context, SourceScope(sections, schema, strategy, context.level_names, self.problems))
        budget = self._budget(preset, strategy, source)
        stated_values = self._stated(schema, strategy, budget)
        records = self._records()
        privacy = context.privacy
        n_records, update = self._unit.records, self.problems.at("update")
        added = resolve_added(context.update, schema, context.level_names, privacy, n_records, update)
        if len(self.problems.lines) > before or strategy is None or budget is None:
            return None
        zcdp = "zcdp" in (privacy.framework, *(release.framework for release in source.releases))
        universe = Universe(
            name=context.name,
            schema=schema,
            strategy=strategy,
            framework=privacy.framework,
            budget=budget + sum((answer.cost for answer in added), Fraction(0)),
            delta=privacy.delta or DEFAULT_DELTA if zcdp else Fraction(0),
            neighbours=privacy.neighbours,
            input=records,
            preset=sections.strategy.preset or sections.strategy.derived_from or "",
            dataset=context.own_privacy.dataset or "",
            bypass=context.bypass,
            population=privacy.population,
            source=source,
            measure=self._measure,
            unit=self._unit,
            added=added,
            **stated_values,
        )
        if universe.neighbours == "add-remove" and (reason := vacuous(universe)):
            self.problems.add("invariants", f'{reason}; leave them out, or let privacy.neighbours be "change-one"')
            return None
        for slot, stated in context.parts.items():
            for part in stated:
                universe = part.placed(universe, sections, self.problems.at(slot))
        return universe if len(self.problems.lines) == before else None

    @property
    def _measuring(self) -> tuple[FeatureKeys, MeasureScope] | None:
        """What states the universe's measure, and what it is asked with; None where records count one each."""
        context, stated = self.context, self.sections.parts
        found = next((part for part in stated if part.named_by), None)
        if found is None:
            return None
        return found, MeasureScope(self.sections, context.own, context.privacy, context.own_privacy, self.problems)

    @property
    def _measure(self) -> Measure:
        """What each record adds to its cell."""
        measuring = self._measuring
        return COUNTS if measuring is None else measuring[0].measure()

    @property
    def _unit(self) -> ProtectedUnit:
        """Whose change is protected; what is measured of the release's own records has its units."""
        measure = self._measure
        at_most = (self.context.privacy if measure.own_records else self.context.own_privacy).at_most
        records = 1 if measure.total else at_most or self.sections.records_per_person
        return ProtectedUnit(records, at_most is not None)

    def _records(self) -> RecordSource | None:
        """The records with their units; what does not fit is noted."""
        section, own = self.sections.input, self.context.own_privacy
        if (measuring := self._measuring) is not None:
            return measuring[0].records(measuring[1])
        if own.unit is not None and self.sections.records_per_person not in (1, own.at_most):
            self.problems.add(
                "records_per_person",
                f"found {self.sections.records_per_person}, and privacy.at_most = {own.at_most}; a unit alters as many "
                "records as are counted of it: leave this out",
            )
        if section is None:
            return None
        if own.unit is not None and section.form != "microdata":
            self.problems.add(
                "privacy.unit", f'only for records of the form "microdata", a row each; the form is {section.form!r}'
            )
        return replace(section.source(), unit=own.unit, at_most=own.at_most)

    def _stated(self, schema: Schema, strategy: Strategy | None, budget: Fraction | None) -> _Stated:
        """All that the schema and the levels are enough for; whatever of it does not fit is noted."""
        sections, context, problems = self.sections, self.context, self.problems
        privacy, level_names = context.privacy, context.level_names
        selections = resolve_selections(
            sections.select or {},
            schema,
            level_names,
            privacy.framework,
            None if budget is None else budget_of_one(privacy.framework, budget, self._unit.records),
            privacy.neighbours,
            problems.at("select"),
        )
        invariants = _invariants(sections, schema, level_names, problems)
        zeros = _structural_zeros(sections, schema, problems)
        bounds = [
            _bound(bound, schema, level_names, problems.at(f"bounds[{number}]"))
            for number, bound in enumerate(sections.bounds)
        ]
        passes = _queries(context.passes, schema, problems.at(context.passes_key))
        tables = _tables(sections, strategy, schema, level_names, problems)
        if sections.input is not None:
            check_input(sections.input, schema, problems)
        return {
            "invariants": invariants,
            "structural_zeros": zeros,
            "bounds": tuple(bound for bound in bounds if bound is not None),
            "tables": tables,
            "passes": passes,
            "stated_selections": selections,
            "facts": _facts(context.parts, schema, level_names, problems),
        }

    def _preset(self) -> Preset | None:
        preset: Preset | None = None
        if self.sections.strategy.preset is not None:
            with self.problems.noted(below=True):
                preset = load_preset(self.sections.strategy.preset)
        return preset

    def _schema(self, preset: Preset | None) -> Schema | None:
        schema: Schema | None = None
        with self.problems.noted(below=True):
            schema = _schema(self.sections.schema_section, preset)
        return schema  # noqa: RET504 - None where a problem was noted

    def _budget(self, preset: Preset | None, strategy: Strategy | None, source: Source) -> Fraction | None:
        """The budget that is stated, or the preset's; of reports, their epsilon; of what was received, nothing.

        None where there is none, which is noted.
        """
        framework, own = self.context.privacy.framework, self.context.own_privacy
        if self.context.receiving is not None:
            return Fraction(0)
        if framework == "local":
            return None if source.mechanism is None else Fraction(source.mechanism.epsilon)
        budget = own.rho if framework == "zcdp" else own.epsilon
        if budget is None and preset is not None and strategy is not None:
            budget = preset_budget(preset, framework, self.context.level_names)
        if budget is None and (strategy is not None or preset is None):
            parameter, example = ("rho", "2.56") if framework == "zcdp" else ("epsilon", "1")
            self.problems.add(
                f"privacy.{parameter}",
                f'missing; framework "{framework}" needs the total budget as text, such as {parameter} = "{example}"',
            )
        return budget

    def _note_other_budget(self) -> None:
        """Of a companion; the release's own section was checked when it was read."""
        framework = self.context.privacy.framework
        other = "epsilon" if framework == "zcdp" else "rho"
        if self.context.name and getattr(self.context.own_privacy, other) is not None:
            self.problems.add(
                f"privacy.{other}", f'not a budget of the release\'s framework "{framework}"; leave it out'
            )


class _Stated(TypedDict):
    invariants: tuple[tuple[str, Query], ...]
    structural_zeros: BoolArray
    bounds: tuple[Bound, ...]
    tables: tuple[Table, ...]
    passes: tuple[Query, ...]
    stated_selections: tuple[StatedSelection, ...]
    facts: tuple[PublicFact, ...]


def _source(context: UniverseContext, scope: SourceScope) -> Source:
    """Where the noisy numbers are from: what a feature says, of others or with "local"; else the run draws them."""
    if context.receiving is not None:
        return _received(context.receiving, context, scope)
    framework, given, problems = context.privacy.framework, scope.sections.input, scope.problems
    local = framework == "local"
    if local and context.name:
        return OWN_NOISE  # which is noted for the whole spec
    stated = [part for parts in context.parts.values() for part in parts if part.states_source]
    if local and not stated:
        problems.add("collect", 'missing; with privacy.framework = "local", say how answers were randomised')
    elif stated and not local:
        problems.add(
            "privacy.framework", f'found "{framework}"; with [collect] it is "local": the reports are protected already'
        )
    if given is not None and (given.form == "reports") != local:
        needed = '"reports"' if local else '"microdata", "long" or "wide"'
        problems.add("input.form", f'found "{given.form}"; with framework "{framework}" it is {needed}')
    found = (part.source(scope) for part in stated if local)
    return next((one for one in found if one is not None), OWN_NOISE)


def _received(part: FeatureKeys, context: UniverseContext, scope: SourceScope) -> Source:
    """Numbers that others published; what needs a budget or records, or has a promise, is noted."""
    sections, name = scope.sections, keys_of(type(part))[0]
    stated: dict[str, object] = {
        "privacy": context.own_privacy.model_fields_set,
        "input": sections.input,
        "strategy.preset": sections.strategy.preset,
        "invariants": sections.invariants,
        "select": sections.select,
        "geography.bypass": context.bypass,
    }
    if context.name:
        stated = {"": context.name}
    for key, found in stated.items():
        if found:
            scope.problems.add(
                key, f"not with [{name}]: its numbers were published by others, and there are no records and no promise"
            )
    return (None if context.name else part.source(scope)) or OWN_NOISE


def _facts(
    parts: Mapping[str, Sequence[FeatureKeys]], schema: Schema, level_names: Sequence[str], problems: Problems
) -> tuple[PublicFact, ...]:
    return tuple(
        fact
        for slot, stated in parts.items()
        for part in stated
        for fact in part.facts(schema, level_names, problems.at(slot))
    )


def _schema(section: SchemaSection, preset: Preset | None) -> Schema:
    attributes = tuple(Attribute(name, values) for name, values in section.attributes.items())
    values_of = dict(section.attributes)
    recodes = tuple(
        Recode(name, r.attribute, _groups(name, r, values_of.get(r.attribute))) for name, r in section.recodes.items()
    )
    for attribute in attributes:
        if attribute.name in TAKEN_COLUMNS:
            raise SpecError(
                f"schema.attributes.{attribute.name}: the release's files have a column of that name; call it otherwise"
            )
    if preset is not None:
        names_in_use = [a.name for a in attributes] + [r.name for r in recodes]
        recodes += preset.recodes_for(attributes, names_in_use)
    schema = Schema(attributes, recodes)
    if schema.n_cells > MOST_CELLS:
        raise SpecError(f"schema.attributes: they span {schema.n_cells:,} cells; at most {MOST_CELLS:,} are allowed")
    return schema


def _groups(name: str, recode: RecodeSection, values: Sequence[str] | None) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The groups, with ranges written out; an unknown attribute is reported elsewhere."""
    if values is None:
        return tuple(recode.groups.items())
    key = dotted(["schema", "recodes", name, "groups"])
    return tuple((label, expand_values(members, values, f"{key}.{label}")) for label, members in recode.groups.items())


def _queries(texts: Sequence[str], schema: Schema, problems: Problems) -> tuple[Query, ...]:
    """The queries of a list; a query that occurs twice is a problem."""
    queries: dict[tuple[str, ...], Query] = {}
    for number, text in enumerate(texts):
        with problems.noted():
            query = Query.parse(text, schema, where=problems.full_key(f"[{number}]"))
            if (other := queries.setdefault(query.terms, query)) is not query:
                same = "occurs twice" if other.name == query.name else f"is the same query as {other.name!r}"
                problems.add(f"[{number}]", f"{text!r} {same}; name it once")
    return tuple(queries.values())


def _invariants(
    sections: UniverseSections, schema: Schema, level_names: Sequence[str], problems: Problems
) -> tuple[tuple[str, Query], ...]:
    for level in sections.invariants:
        if level not in level_names:
            problems.add(dotted(["invariants", level]), unknown("level", level, level_names, are="the levels are"))
    return tuple(
        (level, query)
        for level in level_names
        for query in _queries(sections.invariants.get(level, ()), schema, problems.at(f"invariants.{level}"))
    )


def _structural_zeros(sections: UniverseSections, schema: Schema, problems: Problems) -> BoolArray:
    """`(n_cells,)`: a cell is impossible if it fits all terms of one of the combinations."""
    before = len(problems.lines)
    impossible = np.zeros(schema.n_cells, dtype=np.bool_)
    terms = [*schema.names, *(recode.name for recode in schema.recodes)]
    for entry, combination in combinations_of(sections.structural_zeros, values_of(schema), problems):
        cells = np.ones(schema.n_cells, dtype=np.bool_)
        for term, values in combination.items():
            key = f"{entry}.{dotted([term])}"
            if term not in terms:
                problems.add(key, unknown("attribute or recode", term, terms))
                continue
            query = Query.parse(term, schema, where=problems.full_key(key))
            labels = query.answer_labels()
            for value in values:
                if value not in labels:
                    problems.add(key, unknown(f"value of {term}", value, labels))
            cells &= np.isin(query.cell_answer, [labels.index(value) for value in values if value in labels])
        impossible |= cells
    if impossible.all() and len(problems.lines) == before:
        problems.add("structural_zeros", "every cell is impossible; at least one must be possible")
    return impossible


def _bound(section: BoundSection, schema: Schema, level_names: Sequence[str], problems: Problems) -> Bound | None:
    before = len(problems.lines)
    if section.level not in level_names:
        problems.add("level", unknown("level", section.level, level_names, are="the levels are"))
    columns: dict[int, str] = {}
    query: Query | None = None
    with problems.noted():
        query = Query.parse(section.query, schema, where=problems.full_key("query"))
        labels = query.answer_labels()
        for label, column in section.columns.items():
            if label in labels:
                columns[labels.index(label)] = column
            else:
                problems.add(dotted(["columns", label]), unknown(f"answer of {query.name!r}", label, labels))
    if query is None or len(problems.lines) > before:
        return None
    return Bound(
        section.name, section.level, section.file, section.geocode, query, section.lower, section.upper, columns
    )


def _tables(
    sections: UniverseSections,
    strategy: Strategy | None,
    schema: Schema,
    level_names: Sequence[str],
    problems: Problems,
) -> tuple[Table, ...]:
    if sections.tables is None:
        measured = strategy.distinct_queries() if strategy is not None else ()
        return tuple(Table(query_file_name(query.name), query, tuple(level_names)) for query in measured)
    tables: list[Table] = []
    names: dict[str, str] = {}
    for name, section in sections.tables.items():
        table_problems = problems.at(dotted(["tables", name]))
        if (other := names.setdefault(name.casefold(), name)) != name:
            table_problems.add("", f"differs from {other!r} in capital letters only; names must differ by more")
        levels = level_names if section.levels is None else section.levels
        if not levels:
            table_problems.add("levels", "no level is named; leave it out for all levels")
        for level in levels:
            if level not in level_names:
                table_problems.add("levels", unknown("level", level, level_names, are="the levels are"))
        with problems.noted():
            query = Query.parse(section.query, schema, where=table_problems.full_key("query"))
            if section.median and sum(size > 1 for size in query.sizes) != 1:
                needed = "a query of one attribute with several values is needed"
                table_problems.add("median", f"found {query.name!r}; {needed}")
            within = tuple(level for level in level_names if level in levels)
            stated = (part.of_table(query, schema, table_problems) for part in section.parts)
            facts = tuple(fact for fact in stated if fact is not None)
            tables.append(Table(name, query, within, section.median, facts))
    return tuple(tables)
