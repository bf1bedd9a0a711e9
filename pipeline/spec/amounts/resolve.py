"""What a companion of an amount has from the release's own records, and what it cannot have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.model.beside import counted_in
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import AmountAttribute, Schema
from pipeline.spec.privacy_section import PrivacySection
from pipeline.spec.problems import Problems, dotted
from pipeline.spec.sections import CompanionSection, UniverseSections

if TYPE_CHECKING:
    from pipeline.model.universe import Universe

#: Keys that say something of counts, and why none of them is for amounts.
_NOT_OF_AMOUNTS = {
    "invariants": "sums of an amount are never published exactly",
    "structural_zeros": "where the release's own counts are impossible, so are the sums",
    "bounds": "the sums are bounded by the release's own counts",
    "select": "versions are chosen by numbers of persons",
}


def amount_of(sections: UniverseSections) -> AmountAttribute | None:
    """The amount of a companion; None where its records count one each."""
    return sections.grid() if isinstance(sections, CompanionSection) and sections.amount is not None else None


def amount_records(
    sections: CompanionSection, own: UniverseSections, privacy: PrivacySection, problems: Problems
) -> RecordSource | None:
    """The release's own records, read with the amount; what does not fit an amount is noted.

    Args:
        sections: of the companion.
        own: of the release itself.
        privacy: of the release itself.
        problems: of the companion's part of the spec.
    """
    for key, why in _NOT_OF_AMOUNTS.items():
        if getattr(sections, key):
            problems.add(key, f"not for a companion of an amount: {why}; leave it out")
    if sections.input is not None:
        problems.add("input", "not for a companion of an amount: its records are the release's own; leave it out")
    if sections.privacy.dataset != privacy.dataset:
        found, release = (repr(one or "none") for one in (sections.privacy.dataset, privacy.dataset))
        problems.add(
            "privacy.dataset",
            f"found {found}, and {release} of the release itself; the records are the same, so one ledger counts both",
        )
    if sections.privacy.unit is not None:
        problems.add("privacy.unit", "not for a companion of an amount: its units are the release's own; leave it out")
    if sections.ends == "total" and privacy.unit is None:
        problems.add(
            "ends",
            "found 'total', and no units: say in [privacy] which column has them (unit), and how many records of each "
            "are counted (at_most)",
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
            "amount",
            f'only for records of the form "microdata", a row each; that of the release is {own.input.form!r}',
        )
    if (own.input.decimal or ".") != ".":
        problems.add("amount", f"the records have the decimal mark {own.input.decimal!r}; amounts are read with '.'")
    return replace(own.input.source(), amount=amount_of(sections), unit=privacy.unit, at_most=privacy.at_most)


def note_amount_schema(schema: Schema, own: UniverseSections, problems: Problems) -> None:
    """Note attributes that are not the release's own, with the same values: sums are beside counts in every cell."""
    stated = own.schema_section.attributes
    if list(schema.names) != [name for name in stated if name in schema.names] and set(schema.names) <= set(stated):
        problems.add(
            "schema.attributes",
            f"found {', '.join(schema.names)}; the release itself has them in another order: {', '.join(stated)}",
        )
    for attribute in schema.attributes:
        if stated.get(attribute.name) != attribute.values:
            found = "has no such attribute" if attribute.name not in stated else "has other values of it"
            problems.add(
                dotted(["schema", "attributes", attribute.name]),
                f"the release itself {found}; a companion of an amount has some of the release's attributes, each with "
                "the same values in the same order",
            )


def note_uncounted(universes: Sequence[Universe], margins: bool, problems: Problems) -> None:
    """Note tables of sums that may be below 0 for which the release does not publish the number of records.

    Args:
        universes: of the spec, its own first.
        margins: whether intervals are published, which need these numbers.
        problems: of the whole spec.
    """
    for universe in (one for one in universes if one.signed and margins):
        for table in universe.tables:
            if missing := [level for level in table.levels if counted_in(table, universe, universes[0], level) is None]:
                problems.add(
                    universe.key(dotted(["tables", table.name])),
                    "sums that may be below 0 have intervals only where the release itself has a table of the same "
                    f"answers; it has none at level {', '.join(missing)}",
                )
