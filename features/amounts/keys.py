"""The keys of a companion of an amount or of its clip: what they mean, what does not fit, and what comes with them."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema

from features.amounts.measure import AmountSums, ClippedCounts
from pipeline.errors import SpecError
from pipeline.model.exact import parse_exact
from pipeline.model.measure import COUNTS, Measure
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import SIDES, AmountAttribute, ChosenEnd, ClippedAttribute, Schema
from pipeline.questions.text import QuestionError, parse
from pipeline.spec.fields import Misfit, describe, expanded, folder_of, is_public
from pipeline.spec.problems import Problems, dotted
from pipeline.spec.resolve import UniverseResolver
from pipeline.spec.sections import UniverseSections
from pipeline.spec.slots import FeatureKeys
from pipeline.spec.update import ChosenSection

if TYPE_CHECKING:
    from pipeline.metadata.products import Product
    from pipeline.pages.templates import ReleaseFacts

#: As `pipeline.release.layout` has them.
_MANIFEST, _ANSWER = "answer.json", "answer.csv"
_NAMED = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
#: The two ends of an amount as a spec file may state them.
ENDS = WithJsonSchema({"type": "array", "minItems": 2, "maxItems": 2, "items": {"anyOf": [{"type": "string"}, _NAMED]}})
_SHAPE = '["0", { answer = "answers/NAME" }]'
#: Keys that say something of counts, and why none of them is for amounts.
_NOT_OF_AMOUNTS = {
    "invariants": "sums of an amount are never published exactly",
    "structural_zeros": "where the release's own counts are impossible, so are the sums",
    "bounds": "the sums are bounded by the release's own counts",
    "select": "versions are chosen by numbers of persons",
}
#: Of counts of what is clipped.
_NOT_OF_CLIPPED = {"invariants": "how many records are clipped is confidential, and never published exactly"}
#: The attribute of what is clipped.
_CLIPPED = "clipped"


def with_chosen(stated: object, info: ValidationInfo) -> object:
    """The keys of an amount with the end that an answer has in place of the answer, and `chosen` beside.

    Raises:
        Misfit: the answer cannot be read, or is none of a clip; the ends are those of a unit's total; or a user's spec
            has `chosen`.
    """
    if not isinstance(stated, Mapping) or is_public(info):
        return stated
    if "chosen" in stated:
        raise Misfit(("chosen", f"stands in published specs alone; name the answer in between = {_SHAPE}"))
    between = stated.get("between")
    if not isinstance(between, list | tuple) or not any(isinstance(end, Mapping) for end in between):
        return stated
    if len(between) != 2 or not isinstance(between[1], Mapping) or isinstance(between[0], Mapping):
        raise Misfit(("between", f"an answer can be the upper end alone: {_SHAPE}"))
    if list(between[1]) != ["answer"] or not isinstance(between[1]["answer"], str):
        raise Misfit(("between", f"found {describe(between[1])} with {', '.join(between[1])}; allowed is {_SHAPE}"))
    if stated.get("ends") == "total":
        why = "between has an end that a question chose for the amount of each record, and none is chosen for a total"
        raise Misfit(("ends", f"found 'total', and {why}: state both ends in between, or leave ends out"))
    folder = folder_of(info)
    try:
        place = expanded(between[1]["answer"])
    except ValueError as error:
        raise Misfit(("between", str(error))) from None
    value, chosen = _read(place if folder is None else (folder / place).resolve())
    return {**stated, "between": [between[0], value], "chosen": chosen}


def _read(folder: Path) -> tuple[str, dict[str, Any]]:
    """The end that was chosen, and what is stated of the answer."""
    path = folder / "public" / _MANIFEST
    try:
        content, table = path.read_bytes(), (folder / "public" / _ANSWER).read_bytes()
    except OSError as error:
        why = "a clip is chosen first: `spinewise ask` a spec without this companion"
        raise Misfit(("between", f"{path}: cannot be read ({error.strerror}); {why}")) from None
    try:
        manifest = json.loads(content)
        question, dataset = (str(manifest[key]) for key in ("question", "dataset"))
        asked = parse(question)
        if asked.statistic != "clip":
            raise Misfit(("between", f"{path}: found the answer of a {asked.statistic}; that of a clip is needed"))
        if manifest["files"][_ANSWER] != hashlib.sha256(table).hexdigest():
            raise Misfit(("between", f"{path}: {_ANSWER} beside it was changed: it has not the hash that is stated"))
        header, row = csv.reader(io.StringIO(table.decode(), newline=""))
        (ledger,) = {str(one["ledger"]) for one in manifest["receipts"] if one["dataset"] == dataset}
        value = parse_exact(row[header.index("clip")])
        if value not in asked.among:
            raise ValueError("the end is none of those that are listed")
    except Misfit:
        raise
    except (QuestionError, ValueError, KeyError, TypeError, IndexError) as error:
        raise Misfit(("between", f"{path}: is no answer of a clip, or damaged: {error}")) from None
    sha256 = hashlib.sha256(content).hexdigest()
    charged = {"question": question, "dataset": dataset, "ledger": ledger}
    return str(value), {"answer": str(folder), "sha256": sha256, **charged}


class AmountKeys(FeatureKeys):
    """The keys `amount` and `count_clipped` of a companion, with those that go with them."""

    slot: ClassVar[str] = "companions"
    after: ClassVar[str] = ""
    section: ClassVar[tuple[str, str]] = ("features.amounts", "amounts.html.j2")

    amount: str | None = Field(
        default=None,
        min_length=1,
        description="the column of the release's own records with an amount, such as income: the companion holds the "
        "sums of it, not counts; with `between` and `unit`",
    )
    between: Annotated[tuple[str, ...], Field(min_length=2, max_length=2), ENDS] | None = Field(
        default=None,
        description="of `amount` or `count_clipped`: the public ends to which each is clipped, as exact text, such as "
        '["0", "60000"]; the lower may be below 0. The upper one may be what a question has chosen: '
        '["0", { answer = "answers/NAME" }]',
    )
    unit: str | None = Field(
        default=None,
        description="of `amount`: what each is rounded to (halves up), as exact text; both ends are multiples of it",
    )
    missing: str | None = Field(
        default=None,
        description="of `amount` or `count_clipped`: that of a record without one, as exact text; default: refused",
    )
    count_clipped: str | None = Field(
        default=None,
        min_length=1,
        description="the column of the release's own records with an amount: the companion counts the records by "
        'whether it is below, within or above `between`, as its attribute `clipped = ["below", "within", "above"]`',
    )

    #: Of published specs alone: which answer the upper end is from.
    chosen: SkipJsonSchema[ChosenSection | None] = None

    @model_validator(mode="before")
    @classmethod
    def _answered(cls, stated: object, info: ValidationInfo) -> object:
        return with_chosen(stated, info)

    ends: Literal["record", "total"] | None = Field(
        default=None,
        description='of `amount`, where the records have units: whether `between` is of each record, "record", or of '
        'all that are counted of a unit together, "total"; default: "record"',
    )

    @model_validator(mode="after")
    def _together(self) -> AmountKeys:
        if self.count_clipped is not None:
            return self._clip_alone()
        if self.amount is None:
            if extra := next(
                (key for key in ("between", "unit", "missing", "ends", "chosen") if getattr(self, key) is not None),
                None,
            ):
                raise Misfit((extra, "only for a companion of an amount; name its column: amount"))
            return self
        for key in ("between", "unit"):
            if getattr(self, key) is None:
                raise Misfit((key, "missing; an amount needs public ends and a unit: between and unit"))
        try:
            self.grid()
        except (ValueError, SpecError) as error:
            raise Misfit(("between", str(error))) from None
        return self

    def _clip_alone(self) -> AmountKeys:
        for key in ("amount", "unit", "ends"):
            if getattr(self, key) is not None:
                raise Misfit((key, "not with count_clipped, which counts records; a sum is a companion of its own"))
        if self.between is None:
            raise Misfit(("between", "missing; count_clipped needs the public ends beyond which records are counted"))
        try:
            self.sides()
        except (ValueError, SpecError) as error:
            raise Misfit(("between", str(error))) from None
        return self

    def sides(self) -> ClippedAttribute:
        """The attribute of what is clipped; ValueError or SpecError where the ends do not fit."""
        low, high = (parse_exact(text) for text in self.between or ())
        missing = None if self.missing is None else parse_exact(self.missing)
        return ClippedAttribute.of("clipped", low, high, missing, column=self.count_clipped or "")

    def grid(self) -> AmountAttribute:
        """The amount with its grid, named as its column; ValueError or SpecError where ends and unit do not fit."""
        low, high = (parse_exact(text) for text in self.between or ())
        missing = None if self.missing is None else parse_exact(self.missing)
        unit, total = parse_exact(self.unit or ""), self.ends == "total"
        return AmountAttribute.of(self.amount or "amount", low, high, unit, missing, total=total)

    @property
    def named_by(self) -> str:
        """See `Kind.named_by`."""
        return next((key for key in ("amount", "count_clipped") if getattr(self, key) is not None), "")

    def chosen_end(self) -> ChosenSection | None:
        """See `Kind.chosen_end`."""
        return self.chosen

    def measure(self) -> Measure:
        """What each record of the companion adds to its cell."""
        if self.amount is None and self.count_clipped is None:
            return COUNTS
        chosen = None
        if self.chosen is not None and self.between is not None:
            chosen = ChosenEnd(self.between[1], self.chosen.question, self.chosen.answer.name)
        return ClippedCounts(self.sides(), chosen) if self.amount is None else AmountSums(self.grid(), chosen)

    def measured(self, schema: Schema, scope: UniverseResolver) -> Schema:
        """See `Kind.measured`."""
        found = with_clipped(schema, self, scope.problems)
        if scope.own is not None:
            note_amount_schema(found, scope.own, scope.problems)
        return found

    def records(self, scope: UniverseResolver) -> RecordSource | None:
        """See `Kind.records`."""
        return None if scope.own is None else amount_records(self, scope, scope.own)

    @classmethod
    def products(cls) -> tuple[Product, ...]:
        """See `Kind.products`."""
        from features.amounts.means import AMOUNTS

        return (AMOUNTS,)

    def shown(self, facts: ReleaseFacts) -> dict[str, Any] | None:
        """See `Kind.shown`."""
        from features.amounts.means import amounts_view

        return amounts_view(facts)


def with_clipped(schema: Schema, keys: AmountKeys, problems: Problems) -> Schema:
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


def amount_records(keys: AmountKeys, scope: UniverseResolver, own: UniverseSections) -> RecordSource | None:
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
    source = own.input.source()
    if keys.count_clipped is None:
        source = keys.measure().reading(source)
        return replace(source, unit=privacy.unit, at_most=privacy.at_most)
    values = {name: texts for name, texts in source.values.items() if name != _CLIPPED}
    return replace(source, columns={**source.columns, _CLIPPED: keys.count_clipped}, values=values)


def _note_units(keys: AmountKeys, scope: UniverseResolver, of_what: str) -> None:
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
