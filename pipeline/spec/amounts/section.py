"""The keys of a companion whose records count an amount each, or are counted by whether they are clipped."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, model_validator
from pydantic.json_schema import SkipJsonSchema

from pipeline.errors import SpecError
from pipeline.model.exact import parse_exact
from pipeline.model.schema import AmountAttribute, ClippedAttribute
from pipeline.spec.amounts.chosen import ENDS, ChosenSection, with_chosen
from pipeline.spec.fields import Misfit, Section


class AmountKeys(Section):
    """What makes a companion one of amounts, or of how many are clipped; none of these keys for one that counts."""

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

    @property
    def of_release(self) -> bool:
        """Whether its records are the release's own."""
        return self.amount is not None or self.count_clipped is not None

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
