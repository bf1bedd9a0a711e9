"""From the sections of a spec to the universe they mean; everything that does not fit is noted with its key."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import SpecError
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Recode, Schema
from pipeline.model.strategy import Strategy
from pipeline.model.universe import Bound, Table, Universe
from pipeline.privacy.budget import Framework
from pipeline.records.wide import expand_cells
from pipeline.release.layout import query_file_name
from pipeline.spec.input_section import InputSpec
from pipeline.spec.preset import Preset, load_preset
from pipeline.spec.problems import Problems, dotted, unknown
from pipeline.spec.resolve_selections import resolve_selections
from pipeline.spec.resolve_strategy import preset_rho, resolve_strategy
from pipeline.spec.sections import (
    BoundSection,
    CompanionPrivacySection,
    PrivacySection,
    SchemaSection,
    UniverseSections,
)

#: The delta of zCDP's (epsilon, delta) statement where the spec gives none.
DEFAULT_DELTA = Fraction(1, 10**10)
#: Columns of the release's files that no attribute may share.
TAKEN_COLUMNS = ("geocode", "count")
#: Cells of a schema; each needs memory for every query.
MOST_CELLS = 1 << 24


def resolve_universe(
    sections: UniverseSections,
    *,
    name: str,
    privacy: PrivacySection,
    own_privacy: PrivacySection | CompanionPrivacySection,
    passes: Sequence[str],
    passes_key: str,
    level_names: Sequence[str],
    problems: Problems,
    bypass: bool = False,
) -> Universe | None:
    """The universe that `sections` state over the given levels.

    Args:
        name: "" for the release's own, else the companion's.
        privacy: the release's framework, delta and neighbours.
        own_privacy: the budget; the same as `privacy` for the release's own universe.
        passes: the queries that are fixed first; `passes_key` is where they stand.
        bypass: whether geounits without siblings are bypassed.

    Returns:
        None where problems were noted.
    """
    before = len(problems.lines)
    prefix = f"companions.{name}." if name else ""
    preset: Preset | None = None
    if sections.strategy.preset is not None:
        with problems.noted(prefix):
            preset = load_preset(sections.strategy.preset)
    schema: Schema | None = None
    with problems.noted(prefix):
        schema = _schema(sections.schema_section, preset)
    budget = own_privacy.rho if privacy.framework == "zcdp" else own_privacy.epsilon
    if name:
        _note_other_budget(privacy.framework, own_privacy, f"{prefix}privacy", problems)
    if schema is None or (sections.strategy.preset is not None and preset is None):
        return None
    strategy = resolve_strategy(sections.strategy, preset, schema, level_names, problems, prefix)
    if budget is None and preset is not None and privacy.framework == "zcdp" and strategy is not None:
        budget = preset_rho(preset, level_names) or None
    if budget is None and (strategy is not None or preset is None):
        which, example = ("rho", "2.56") if privacy.framework == "zcdp" else ("epsilon", "1")
        problems.add(
            f"{prefix}privacy.{which}",
            f'missing; framework "{privacy.framework}" needs the total budget as text, such as {which} = "{example}"',
        )
    selections = resolve_selections(
        sections.select or {}, schema, level_names, privacy.framework, budget, privacy.neighbours, problems, prefix
    )
    invariants = _invariants(sections, schema, level_names, problems, prefix)
    zeros = _structural_zeros(sections, schema, problems, prefix)
    bounds = [
        _bound(bound, schema, level_names, problems, f"{prefix}bounds[{number}]")
        for number, bound in enumerate(sections.bounds)
    ]
    fixed = _queries(passes, schema, problems, passes_key)
    tables = _tables(sections, strategy, schema, level_names, problems, prefix)
    if sections.input is not None:
        _check_input(sections.input, schema, problems, f"{prefix}input")
    if len(problems.lines) > before or strategy is None or budget is None:
        return None
    return Universe(
        name=name,
        schema=schema,
        strategy=strategy,
        framework=privacy.framework,
        budget=budget,
        delta=Fraction(0) if privacy.framework == "pure" else privacy.delta or DEFAULT_DELTA,
        neighbours=privacy.neighbours,
        invariants=invariants,
        structural_zeros=zeros,
        bounds=tuple(bound for bound in bounds if bound is not None),
        tables=tables,
        passes=fixed,
        input=None if sections.input is None else sections.input.source(),
        preset=sections.strategy.preset or sections.strategy.derived_from or "",
        dataset=own_privacy.dataset or "",
        bypass=bypass,
        stated_selections=selections,
    )


def _schema(section: SchemaSection, preset: Preset | None) -> Schema:
    attributes = tuple(Attribute(name, values) for name, values in section.attributes.items())
    recodes = tuple(Recode(name, r.attribute, tuple(r.groups.items())) for name, r in section.recodes.items())
    for attribute in attributes:
        if attribute.name in TAKEN_COLUMNS:
            raise SpecError(
                f"schema.attributes.{attribute.name}: the release's files have a column of that name; call it otherwise"
            )
    if preset is not None:
        taken = [a.name for a in attributes] + [r.name for r in recodes]
        recodes += preset.recodes_for(attributes, taken)
    schema = Schema(attributes, recodes)
    if schema.n_cells > MOST_CELLS:
        raise SpecError(f"schema.attributes: they span {schema.n_cells:,} cells; at most {MOST_CELLS:,} are allowed")
    return schema


def _note_other_budget(
    framework: Framework, privacy: PrivacySection | CompanionPrivacySection, key: str, problems: Problems
) -> None:
    other = "epsilon" if framework == "zcdp" else "rho"
    if getattr(privacy, other) is not None:
        problems.add(f"{key}.{other}", f'not a budget of the release\'s framework "{framework}"; leave it out')


def _queries(texts: Sequence[str], schema: Schema, problems: Problems, key: str) -> tuple[Query, ...]:
    """The queries of a list; a query that is there twice is a problem."""
    found: dict[tuple[str, ...], Query] = {}
    for number, text in enumerate(texts):
        with problems.noted():
            query = Query.parse(text, schema, where=f"{key}[{number}]")
            if (other := found.setdefault(query.terms, query)) is not query:
                same = "is there twice" if other.name == query.name else f"is the same query as {other.name!r}"
                problems.add(f"{key}[{number}]", f"{text!r} {same}; name it once")
    return tuple(found.values())


def _invariants(
    sections: UniverseSections, schema: Schema, level_names: Sequence[str], problems: Problems, prefix: str
) -> tuple[tuple[str, Query], ...]:
    for level in sections.invariants:
        if level not in level_names:
            problems.add(
                f"{prefix}{dotted(['invariants', level])}", unknown("level", level, level_names, are="the levels are")
            )
    return tuple(
        (level, query)
        for level in level_names
        for query in _queries(sections.invariants.get(level, ()), schema, problems, f"{prefix}invariants.{level}")
    )


def _structural_zeros(sections: UniverseSections, schema: Schema, problems: Problems, prefix: str) -> NDArray[np.bool_]:
    """`(n_cells,)`: a cell is impossible if it fits all terms of one of the combinations."""
    before = len(problems.lines)
    impossible = np.zeros(schema.n_cells, dtype=np.bool_)
    terms = [*schema.names, *(recode.name for recode in schema.recodes)]
    for number, combination in enumerate(sections.structural_zeros):
        here = np.ones(schema.n_cells, dtype=np.bool_)
        for term, values in combination.items():
            key = f"{prefix}structural_zeros[{number}].{dotted([term])}"
            if term not in terms:
                problems.add(key, unknown("attribute or recode", term, terms))
                continue
            query = Query.parse(term, schema, where=key)
            labels = query.answer_labels()
            for value in values:
                if value not in labels:
                    problems.add(key, unknown(f"value of {term}", value, labels))
            here &= np.isin(query.cell_answer, [labels.index(value) for value in values if value in labels])
        impossible |= here
    if impossible.all() and len(problems.lines) == before:
        problems.add(f"{prefix}structural_zeros", "every cell is impossible; at least one must be possible")
    return impossible


def _bound(
    section: BoundSection, schema: Schema, level_names: Sequence[str], problems: Problems, key: str
) -> Bound | None:
    before = len(problems.lines)
    if section.level not in level_names:
        problems.add(f"{key}.level", unknown("level", section.level, level_names, are="the levels are"))
    columns: dict[int, str] = {}
    query: Query | None = None
    with problems.noted():
        query = Query.parse(section.query, schema, where=f"{key}.query")
        labels = query.answer_labels()
        for label, column in section.columns.items():
            if label in labels:
                columns[labels.index(label)] = column
            else:
                problems.add(f"{key}.{dotted(['columns', label])}", unknown(f"answer of {query.name!r}", label, labels))
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
    prefix: str,
) -> tuple[Table, ...]:
    if sections.tables is None:
        measured = strategy.distinct_queries() if strategy is not None else ()
        return tuple(Table(query_file_name(query.name), query, tuple(level_names)) for query in measured)
    tables: list[Table] = []
    names: dict[str, str] = {}
    for name, section in sections.tables.items():
        key = f"{prefix}{dotted(['tables', name])}"
        if (other := names.setdefault(name.casefold(), name)) != name:
            problems.add(key, f"differs from {other!r} in capital letters only; names must differ by more")
        levels = level_names if section.levels is None else section.levels
        if not levels:
            problems.add(f"{key}.levels", "no level is named; leave it out for all levels")
        for level in levels:
            if level not in level_names:
                problems.add(f"{key}.levels", unknown("level", level, level_names, are="the levels are"))
        with problems.noted():
            query = Query.parse(section.query, schema, where=f"{key}.query")
            tables.append(Table(name, query, tuple(level for level in level_names if level in levels)))
    return tuple(tables)


def _check_input(section: InputSpec, schema: Schema, problems: Problems, key: str) -> None:
    """Note what in [input] does not fit the schema."""
    before = len(problems.lines)
    for name in section.columns:
        if name not in schema.names:
            problems.add(f"{key}.{dotted(['columns', name])}", unknown("attribute", name, schema.names))
    for name, values in section.values.items():
        if name not in schema.names:
            problems.add(f"{key}.{dotted(['values', name])}", unknown("attribute", name, schema.names))
            continue
        allowed = schema.attribute(name).values
        for text, value in values.items():
            if value not in allowed:
                problems.add(f"{key}.{dotted(['values', name, text])}", unknown(f"value of {name}", value, allowed))
    if section.form == "wide" and len(problems.lines) == before:
        with problems.noted(key.removesuffix("input")):
            expand_cells(section.cells, schema, coded=section.coded, values=section.values)
