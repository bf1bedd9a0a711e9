"""From the sections of a spec to the universe they mean; everything that does not fit is noted with its key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from pipeline.errors import SpecError
from pipeline.model.measure import ProtectedUnit
from pipeline.model.query import Query
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import Attribute, Recode, Schema
from pipeline.model.source import OWN_NOISE, Source
from pipeline.model.strategy import Strategy
from pipeline.model.universe import Bound, Table, Universe
from pipeline.privacy.accounting.neighbours import vacuous
from pipeline.privacy.budget import budget_of_one
from pipeline.release.layout import query_file_name
from pipeline.spec.edit_rules import combinations_of
from pipeline.spec.input_section import check_input
from pipeline.spec.kind import Kind
from pipeline.spec.preset import Preset, load_preset
from pipeline.spec.privacy_section import CompanionPrivacySection, PrivacySection
from pipeline.spec.problems import Problems, dotted
from pipeline.spec.resolve_strategy import preset_budget, resolve_selections, resolve_strategy
from pipeline.spec.sections import BoundSection, RecodeSection, SchemaSection, UniverseSections
from pipeline.spec.slots import FeatureKeys, keys_of
from pipeline.spec.update import UpdateSection, resolve_added
from pipeline.spec.value_ranges import expand_values
from postprocess.arrays import BoolArray

ReleaseSpec: TypeAlias = Any  #: of `pipeline.spec.release_spec`, a module above this one

#: The delta of zCDP's (epsilon, delta) statement where the spec gives none.
DEFAULT_DELTA = Fraction(1, 10**10)
#: Columns of the release's files that no attribute may share.
TAKEN_COLUMNS = ("geocode", "count")
#: Cells of a schema; each needs memory for every query.
MOST_CELLS = 1 << 24


class UniverseResolver:
    """Resolves the sections of one universe; what does not fit is noted in the problems of its part of the spec.

    Kinds that have a say in it are asked with the resolver itself.

    Attributes:
        name: "" for the release's own universe, else the companion's.
        sections: of the universe.
        own: those of the release itself, where the universe is a companion; None of the release's own.
        privacy: the release's framework, delta and neighbours.
        own_privacy: the universe's budget; the same as `privacy` for the release's own.
        level_names: of the spine, top first.
        problems: of the universe.
        schema: as records are read, once it is resolved.
        strategy: once it is resolved; None where problems were noted.
    """

    schema: Schema
    strategy: Strategy | None

    def __init__(self, spec: ReleaseSpec, name: str, problems: Problems) -> None:
        stated = spec.companions[name] if name else spec
        self.name, self.problems = name, problems
        self.sections: UniverseSections = stated
        self.own: UniverseSections | None = spec if name else None
        self.privacy: PrivacySection = spec.privacy
        self.own_privacy: CompanionPrivacySection = stated.privacy
        self.level_names: tuple[str, ...] = spec.geography.level_names
        self._bypass = bool(spec.geography.bypass)
        self._passes: tuple[Sequence[str], str] = (
            (stated.passes, "passes") if name else (spec.postprocess.passes, "postprocess.passes")
        )
        self._update: UpdateSection | None = None if name else spec.update
        #: What may say something of the universe, with the problems of its place.
        self._parts: list[tuple[FeatureKeys, Problems]] = [
            (part, problems.at(section.slot))
            for section in (spec, spec.postprocess)
            for part in section.parts
            if not name
        ]
        #: Keys by which others published all numbers of the release; None of most.
        self._receiving: FeatureKeys | None = next((part for part in spec.parts if part.receives), None)
        #: What states what each record adds; where nothing does, records count one each.
        self._measuring: Kind = next((part for part in stated.parts if part.named_by), Kind())

    def universe(self) -> Universe | None:
        """The universe that the sections state; None where problems were noted."""
        problems, before = self.problems, len(self.problems.lines)
        sections, privacy = self.sections, self.privacy
        preset = self._preset()
        schema = self._schema(preset)
        self._note_other_budget()
        if schema is None or (sections.strategy.preset is not None and preset is None):
            return None
        self.schema = schema = self._measuring.measured(schema, self)
        levels, whole = self.level_names, 0 if self._receiving and not self.name else 1
        strategy = resolve_strategy(sections.strategy, preset, schema, levels, problems.at("strategy"), whole=whole)
        self.strategy = strategy
        source = self._source()
        budget = self._budget(preset, source)
        unit = self._unit
        selections = resolve_selections(
            sections.select or {},
            schema,
            levels,
            privacy.framework,
            None if budget is None else budget_of_one(privacy.framework, budget, unit.records),
            privacy.neighbours,
            problems.at("select"),
        )
        invariants, zeros = self._invariants(), self._structural_zeros()
        bounds = [self._bound(bound, problems.at(f"bounds[{n}]")) for n, bound in enumerate(sections.bounds)]
        texts, key = self._passes
        passes, tables = self._queries(texts, problems.at(key)), self._tables()
        if sections.input is not None:
            check_input(sections.input, schema, problems)
        facts = [fact for part, noted in self._parts for fact in part.facts(schema, levels, noted)]
        records = self._records()
        added = resolve_added(self._update, schema, levels, privacy, unit.records, problems.at("update"))
        if len(problems.lines) > before or strategy is None or budget is None:
            return None
        zcdp = "zcdp" in (privacy.framework, *(release.framework for release in source.releases))
        universe = Universe(
            name=self.name,
            schema=schema,
            strategy=strategy,
            framework=privacy.framework,
            budget=budget + sum((answer.cost for answer in added), Fraction(0)),
            delta=privacy.delta or DEFAULT_DELTA if zcdp else Fraction(0),
            neighbours=privacy.neighbours,
            invariants=invariants,
            structural_zeros=zeros,
            bounds=tuple(bound for bound in bounds if bound is not None),
            tables=tables,
            passes=passes,
            input=records,
            preset=sections.strategy.preset or sections.strategy.derived_from or "",
            dataset=self.own_privacy.dataset or "",
            bypass=self._bypass,
            stated_selections=selections,
            population=privacy.population,
            facts=tuple(facts),
            source=source,
            measure=self._measuring.measure(),
            unit=unit,
            added=added,
        )
        if universe.neighbours == "add-remove" and (reason := vacuous(universe)):
            problems.add("invariants", f'{reason}; leave them out, or let privacy.neighbours be "change-one"')
            return None
        for part, noted in self._parts:
            universe = part.placed(universe, sections, noted)
        return universe if len(problems.lines) == before else None

    @property
    def _unit(self) -> ProtectedUnit:
        """Whose change is protected; what is measured of the release's own records has its units."""
        measure = self._measuring.measure()
        at_most = (self.privacy if measure.own_records else self.own_privacy).at_most
        records = 1 if measure.total else at_most or self.sections.records_per_person
        return ProtectedUnit(records, at_most is not None)

    def _records(self) -> RecordSource | None:
        """The records with their units; what does not fit is noted."""
        section, own = self.sections.input, self.own_privacy
        if self._measuring.named_by:
            return self._measuring.records(self)
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

    def _budget(self, preset: Preset | None, source: Source) -> Fraction | None:
        """The budget that is stated, or the preset's; of reports, their epsilon; of what was received, nothing.

        None where there is none, which is noted.
        """
        framework, own = self.privacy.framework, self.own_privacy
        if self._receiving is not None:
            return Fraction(0)
        if framework == "local":
            return None if source.mechanism is None else Fraction(source.mechanism.epsilon)
        budget = own.rho if framework == "zcdp" else own.epsilon
        if budget is None and preset is not None and self.strategy is not None:
            budget = preset_budget(preset, framework, self.level_names)
        if budget is None and (self.strategy is not None or preset is None):
            parameter, example = ("rho", "2.56") if framework == "zcdp" else ("epsilon", "1")
            self.problems.add(
                f"privacy.{parameter}",
                f'missing; framework "{framework}" needs the total budget as text, such as {parameter} = "{example}"',
            )
        return budget

    def _note_other_budget(self) -> None:
        """Of a companion; the release's own section was checked when it was read."""
        framework = self.privacy.framework
        other = "epsilon" if framework == "zcdp" else "rho"
        if self.name and getattr(self.own_privacy, other) is not None:
            self.problems.add(
                f"privacy.{other}", f'not a budget of the release\'s framework "{framework}"; leave it out'
            )

    def _source(self) -> Source:
        """Where the noisy numbers are from: what a feature says, of others or with "local"; else the run draws them."""
        if self._receiving is not None:
            return self._received(self._receiving)
        framework, given = self.privacy.framework, self.sections.input
        local = framework == "local"
        if local and self.name:
            return OWN_NOISE  # which is noted for the whole spec
        stated = [part for part, _ in self._parts if part.states_source]
        if local and not stated:
            self.problems.add("collect", 'missing; with privacy.framework = "local", say how answers were randomised')
        elif stated and not local:
            self.problems.add(
                "privacy.framework",
                f'found "{framework}"; with [collect] it is "local": the reports are protected already',
            )
        if given is not None and (given.form == "reports") != local:
            needed = '"reports"' if local else '"microdata", "long" or "wide"'
            self.problems.add("input.form", f'found "{given.form}"; with framework "{framework}" it is {needed}')
        found = (part.source(self) for part in stated if local)
        return next((one for one in found if one is not None), OWN_NOISE)

    def _received(self, part: FeatureKeys) -> Source:
        """Numbers that others published; what needs a budget or records, or has a promise, is noted."""
        sections, name = self.sections, keys_of(type(part))[0]
        stated: dict[str, object] = {
            "privacy": self.own_privacy.model_fields_set,
            "input": sections.input,
            "strategy.preset": sections.strategy.preset,
            "invariants": sections.invariants,
            "select": sections.select,
            "geography.bypass": self._bypass,
        }
        if self.name:
            stated = {"": self.name}
        for key, found in stated.items():
            if found:
                self.problems.add(
                    key,
                    f"not with [{name}]: its numbers were published by others, and there are no records and no promise",
                )
        return (None if self.name else part.source(self)) or OWN_NOISE

    def _queries(self, texts: Sequence[str], problems: Problems) -> tuple[Query, ...]:
        """The queries of a list; a query that occurs twice is a problem."""
        queries: dict[tuple[str, ...], Query] = {}
        for number, text in enumerate(texts):
            query = problems.query(f"[{number}]", text, self.schema)
            if query is not None and (other := queries.setdefault(query.terms, query)) is not query:
                same = "occurs twice" if other.name == query.name else f"is the same query as {other.name!r}"
                problems.add(f"[{number}]", f"{text!r} {same}; name it once")
        return tuple(queries.values())

    def _invariants(self) -> tuple[tuple[str, Query], ...]:
        stated = self.sections.invariants
        for level in stated:
            self.problems.known_level(dotted(["invariants", level]), level, self.level_names)
        return tuple(
            (level, query)
            for level in self.level_names
            for query in self._queries(stated.get(level, ()), self.problems.at(f"invariants.{level}"))
        )

    def _structural_zeros(self) -> BoolArray:
        """`(n_cells,)`: a cell is impossible if it fits all terms of one of the combinations."""
        problems, before = self.problems, len(self.problems.lines)
        impossible = np.zeros(self.schema.n_cells, dtype=np.bool_)
        known = self.schema.terms
        for entry, combination in combinations_of(self.sections.structural_zeros, known, problems):
            cells = np.ones(self.schema.n_cells, dtype=np.bool_)
            for term, values in combination.items():
                key = f"{entry}.{dotted([term])}"
                if problems.known(key, "attribute or recode", term, known):
                    labels = known[term]
                    told = [labels.index(one) for one in values if problems.known(key, f"value of {term}", one, labels)]
                    cells &= np.isin(Query.parse(term, self.schema).cell_answer, told)
            impossible |= cells
        if impossible.all() and len(problems.lines) == before:
            problems.add("structural_zeros", "every cell is impossible; at least one must be possible")
        return impossible

    def _bound(self, section: BoundSection, problems: Problems) -> Bound | None:
        before = len(problems.lines)
        problems.known_level("level", section.level, self.level_names)
        query = problems.query("query", section.query, self.schema)
        if query is None:
            return None
        labels, what = query.answer_labels(), f"answer of {query.name!r}"
        columns = {
            labels.index(label): column
            for label, column in section.columns.items()
            if problems.known(dotted(["columns", label]), what, label, labels)
        }
        if len(problems.lines) > before:
            return None
        return Bound(
            section.name, section.level, section.file, section.geocode, query, section.lower, section.upper, columns
        )

    def _tables(self) -> tuple[Table, ...]:
        stated, level_names = self.sections.tables, self.level_names
        if stated is None:
            measured = self.strategy.distinct_queries() if self.strategy is not None else ()
            return tuple(Table(query_file_name(query.name), query, level_names) for query in measured)
        tables: list[Table] = []
        self.problems.at("tables").note_alike(stated)
        for name, section in stated.items():
            problems = self.problems.at(dotted(["tables", name]))
            levels = level_names if section.levels is None else section.levels
            if not levels:
                problems.add("levels", "no level is named; leave it out for all levels")
            for level in levels:
                problems.known_level("levels", level, level_names)
            if (query := problems.query("query", section.query, self.schema)) is None:
                continue
            if section.median and sum(size > 1 for size in query.sizes) != 1:
                needed = "a query of one attribute with several values is needed"
                problems.add("median", f"found {query.name!r}; {needed}")
            within = tuple(level for level in level_names if level in levels)
            facts = (part.of_table(query, self.schema, problems) for part in section.parts)
            kept = tuple(fact for fact in facts if fact is not None)
            tables.append(Table(name, query, within, section.median, kept))
        return tuple(tables)


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
