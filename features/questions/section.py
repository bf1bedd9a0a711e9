"""The section [questions] of a spec: columns of the records beyond the schema that questions may name."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from pipeline.errors import SpecError
from pipeline.model.exact import parse_exact
from pipeline.model.schema import AmountAttribute
from pipeline.spec.fields import Misfit, Name, NamedTable, Section, Value
from pipeline.spec.slots import FeatureKeys


class QuestionColumnSection(Section):
    """A column of the records with its public domain: categories by `values`, or an amount by `between` and `unit`."""

    column: str | None = Field(
        default=None, min_length=1, description="the records' column, if its name is not that of the table"
    )
    values: Annotated[tuple[Value, ...], Field(min_length=1)] | None = Field(
        default=None, description="of categories: all possible values"
    )
    between: Annotated[tuple[str, ...], Field(min_length=2, max_length=2)] | None = Field(
        default=None,
        description='of an amount: the ends to which it is clipped, as exact text, such as ["0", "60000"]',
    )
    unit: str | None = Field(
        default=None, description="of an amount: what it is rounded to, as exact text; both ends are multiples of it"
    )
    ends: Literal["record", "total"] | None = Field(
        default=None,
        description='of an amount, where the records have units: whether `between` is of each record, "record", or of '
        'all of a unit together, "total"; default: "record"',
    )
    missing: str | None = Field(
        default=None, description="what a record without one has: a value, or an amount; default: refused"
    )

    @model_validator(mode="after")
    def _one_kind(self) -> QuestionColumnSection:
        if (self.values is None) == (self.between is None):
            found = "neither" if self.values is None else "both"
            raise Misfit(("values", f"found {found} of values and between; one of the two is needed"))
        if (self.between is None) != (self.unit is None):
            raise Misfit(("unit", "between and unit are needed together"))
        if self.values is not None:
            if self.ends is not None:
                raise Misfit(("ends", "only for an amount"))
            if len(set(self.values)) < len(self.values):
                raise Misfit(("values", "a value stands twice; each once is allowed"))
            if self.missing is not None and self.missing not in self.values:
                raise Misfit(("missing", f"found {self.missing!r}; it must be one of the values"))
        else:
            try:
                self.amount("amount")
            except (ValueError, SpecError) as error:
                raise Misfit(("between", str(error))) from None
        return self

    def amount(self, name: str) -> AmountAttribute:
        """The amount, where it is one; ValueError or SpecError where its ends and unit do not fit."""
        low, high = (parse_exact(text) for text in self.between or ())
        missing = None if self.missing is None else parse_exact(self.missing)
        return AmountAttribute.of(name, low, high, parse_exact(self.unit or ""), missing, total=self.ends == "total")


class QuestionsPart(FeatureKeys):
    """The section [questions]; `keys.QuestionsKeys` says what comes with it."""

    slot: ClassVar[str] = ""
    after: ClassVar[str] = "provenance"
    is_published: ClassVar[bool] = False

    questions: NamedTable[Name, QuestionColumnSection] | None = Field(
        default=None,
        description="columns of the records that `spinewise ask` may name beyond the attributes, by the name that "
        "questions use; no release depends on it",
    )
