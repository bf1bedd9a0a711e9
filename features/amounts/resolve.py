"""What a companion of an amount, or of its clip, has from the release's own records, and what it cannot have."""

from __future__ import annotations

import json
from dataclasses import replace

from features.amounts.measure import ClippedCounts, Sums
from features.amounts.section import AmountPart
from pipeline.model.measure import COUNTS, Measure
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import SIDES, ChosenEnd, ClippedAttribute, Schema
from pipeline.spec.problems import Problems, dotted
from pipeline.spec.resolve import MeasureScope
from pipeline.spec.sections import UniverseSections

#: Keys that say something of counts, and why none of them is for amounts.
_NOT_OF_AMOUNTS = {
    "invariants": "sums of an amount are never published exactly",
    "structural_zeros": "where the release's own counts are impossible, so are the sums",
    "impossible": "where the release's own counts are impossible, so are the sums",
    "bounds": "the sums are bounded by the release's own counts",
    "select": "versions are chosen by numbers of persons",
}


#: Of counts of what is clipped.
_NOT_OF_CLIPPED = {"invariants": "how many records are clipped is confidential, and never published exactly"}
#: The attribute of what is clipped.
_CLIPPED = "clipped"


def measure_of(keys: AmountPart) -> Measure:
    """What each record of the companion adds to its cell."""
    if keys.amount is None and keys.count_clipped is None:
        return COUNTS
    chosen = None
    if keys.chosen is not None and keys.between is not None:
        chosen = ChosenEnd(keys.between[1], keys.chosen.question, keys.chosen.answer.name)
    return ClippedCounts(keys.sides(), chosen) if keys.amount is None else Sums(keys.grid(), chosen)


def with_clipped(schema: Schema, keys: AmountPart, problems: Problems) -> Schema:
    """The schema with the sides of the clip, for a companion that counts what is clipped; a wrong one is noted."""
    if keys.count_clipped is None:
        return schema
    if _CLIPPED not in schema.names or schema.attribute(_CLIPPED).values != SIDES:
        problems.add(
            dotted(["schema", "attributes", _CLIPPED]),
            f"a companion with count_clipped needs this attribute: {_CLIPPED} = {json.dumps(SIDES)}",
        )
        return schema
    sides = keys.sides()
    return Schema(tuple(sides if one.name == _CLIPPED else one for one in schema.attributes), schema.recodes)


def amount_records(keys: AmountPart, scope: MeasureScope, own: UniverseSections) -> RecordSource | None:
    """The release's own records, read with the amount or by its clip; what does not fit is noted.

    Args:
        keys: of the companion.
        scope: the companion.
        own: of the release itself.
    """
    sections, privacy, problems = scope.sections, scope.privacy, scope.problems
    of_what, column_key = "an amount", "amount"
    if keys.count_clipped is not None:
        of_what, column_key = "what is clipped", "count_clipped"
    for key, why in (_NOT_OF_AMOUNTS if keys.amount is not None else _NOT_OF_CLIPPED).items():
        if getattr(sections, key):
            problems.add(key, f"not for a companion of {of_what}: {why}; leave it out")
    if sections.input is not None:
        problems.add("input", f"not for a companion of {of_what}: its records are the release's own; leave it out")
    if scope.own_privacy.dataset != privacy.dataset:
        found, release = (repr(one or "none") for one in (scope.own_privacy.dataset, privacy.dataset))
        problems.add(
            "privacy.dataset",
            f"found {found}, and {release} of the release itself; the records are the same, so one ledger counts both",
        )
    _note_units(keys, scope, of_what)
    if (chosen := keys.chosen) is not None and chosen.dataset != privacy.dataset:
        problems.add(
            "between",
            f"found the answer {chosen.answer.name!r} of the dataset {chosen.dataset!r}, and "
            f"{privacy.dataset or 'none'!r} of the release; a clip is chosen from the release's own records",
        )
    if sections.records_per_person != own.records_per_person:
        problems.add(
            "records_per_person",
            f"found {sections.records_per_person}, and {own.records_per_person} of the release itself; the records are "
            "the same, so state the same number",
        )
    if own.input is None:
        return None
    if own.input.form != "microdata":
        problems.add(
            column_key,
            f'only for records of the form "microdata", a row each; that of the release is {own.input.form!r}',
        )
    if (own.input.decimal or ".") != ".":
        problems.add(column_key, f"the records have the decimal mark {own.input.decimal!r}; amounts are read with '.'")
    source = own.input.source()
    if keys.count_clipped is None:
        source = measure_of(keys).reading(source)
        return replace(source, unit=privacy.unit, at_most=privacy.at_most)
    values = {name: texts for name, texts in source.values.items() if name != _CLIPPED}
    return replace(source, columns={**source.columns, _CLIPPED: keys.count_clipped}, values=values)


def _note_units(keys: AmountPart, scope: MeasureScope, of_what: str) -> None:
    """Note what does not fit the release's units with several records, or their lack."""
    privacy, problems = scope.privacy, scope.problems
    if scope.own_privacy.unit is not None:
        problems.add("privacy.unit", f"not for a companion of {of_what}: its units are the release's own; leave it out")
    if keys.ends == "total" and privacy.unit is None:
        problems.add(
            "ends",
            "found 'total', and no units: say in [privacy] which column has them (unit), and how many records of each "
            "are counted (at_most)",
        )
    if keys.count_clipped is not None and privacy.unit is not None:
        problems.add(
            "count_clipped", "what is clipped of units with several records (privacy.unit) cannot be counted yet"
        )


def note_amount_schema(schema: Schema, own: UniverseSections, problems: Problems) -> None:
    """Note attributes that are not the release's own, with the same values: sums are beside counts in every cell."""
    stated = own.schema_section.attributes
    attributes = [one for one in schema.attributes if not isinstance(one, ClippedAttribute)]
    names = [one.name for one in attributes]
    if names != [name for name in stated if name in names] and set(names) <= set(stated):
        problems.add(
            "schema.attributes",
            f"found {', '.join(names)}; the release itself has them in another order: {', '.join(stated)}",
        )
    for attribute in attributes:
        if stated.get(attribute.name) != attribute.values:
            found = "has no such attribute" if attribute.name not in stated else "has other values of it"
            problems.add(
                dotted(["schema", "attributes", attribute.name]),
                f"the release itself {found}; a companion of an amount has some of the release's attributes, each with "
                "the same values in the same order",
            )
