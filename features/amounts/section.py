"""The keys of a companion whose records count an amount each, or are counted by whether they are clipped."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema

from pipeline.errors import SpecError
from pipeline.model.exact import parse_exact
from pipeline.model.schema import AmountAttribute, ClippedAttribute
from pipeline.spec.fields import Misfit, describe, expanded, folder_of, is_public
from pipeline.spec.slots import FeatureKeys
from pipeline.spec.update import ChosenSection

#: As `pipeline.release.layout` has them.
_MANIFEST, _ANSWER = "answer.json", "answer.csv"
_NAMED = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
#: The two ends of an amount as a spec file may state them.
ENDS = WithJsonSchema({"type": "array", "minItems": 2, "maxItems": 2, "items": {"anyOf": [{"type": "string"}, _NAMED]}})
_SHAPE = '["0", { answer = "answers/NAME" }]'


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
        statistic, question, dataset = (str(manifest[key]) for key in ("statistic", "question", "dataset"))
        if statistic != "clip":
            raise Misfit(("between", f"{path}: found the answer of a {statistic}; that of a clip is needed"))
        if manifest["files"][_ANSWER] != hashlib.sha256(table).hexdigest():
            raise Misfit(("between", f"{path}: {_ANSWER} beside it was changed: it has not the hash that is stated"))
        header, row = csv.reader(io.StringIO(table.decode(), newline=""))
        (ledger,) = {str(one["ledger"]) for one in manifest["receipts"] if one["dataset"] == dataset}
        value = parse_exact(row[header.index("clip")])
        if str(value) not in manifest["ends"]["listed"]:
            raise ValueError("the end is none of those that are listed")
    except Misfit:
        raise
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise Misfit(("between", f"{path}: is no answer of a clip, or damaged: {error}")) from None
    sha256 = hashlib.sha256(content).hexdigest()
    charged = {"question": question, "dataset": dataset, "ledger": ledger}
    return str(value), {"answer": str(folder), "sha256": sha256, **charged}


class AmountPart(FeatureKeys):
    """What makes a companion one of amounts, or of how many are clipped; `keys.AmountKeys` says what comes with it."""

    slot: ClassVar[str] = "companions"
    after: ClassVar[str] = ""

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
    def _together(self) -> AmountPart:
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

    def _clip_alone(self) -> AmountPart:
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
