"""The section [series] of a spec: releases of the same people over time that are paid for together."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr, StrictInt, model_validator
from pydantic.json_schema import SkipJsonSchema

from features.years.series import Series, SolvedTerms, StatedTerms, independent_terms
from geography.errors import InputError
from pipeline.model.series import Loss, SeriesTerms
from pipeline.spec.fields import Misfit, Name, Section
from pipeline.spec.slots import FeatureKeys


def _as_text(value: object) -> object:
    """A year may be a number in TOML, and a day a date."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.isoformat() if type(value) is date else value


PeriodName = Annotated[str, BeforeValidator(_as_text, json_schema_input_type=str | int)]


class TermsSection(Section):
    """How numbers are mixed and what that costs, as the first release found it; in published specs alone."""

    design: tuple[tuple[StrictInt, ...], ...] = Field(description="by how much each period is multiplied")
    distance: str = Field(description="how far apart two histories are, squared, exact")
    losses: tuple[tuple[StrictInt, str, bool], ...] = Field(description="spells, the part of the budget, and if exact")

    def stated(self, spells: int) -> StatedTerms:
        """The terms for people with at most so many spells; ValueError where they are none."""
        losses = {spells: Loss(Fraction(part), exact) for spells, part, exact in self.losses}
        return StatedTerms(spells, self.design, Fraction(self.distance), losses)


class SeriesSection(Section):
    """Releases of the same people over time, one of which is run at a time, with --period."""

    name: Name = Field(description="the name of the series; it is opened in the ledger once")
    first: PeriodName = Field(
        alias="from", description="the first period: 2031, 2031-Q1, 2031-01 or 2031-01-01, by the step"
    )
    last: PeriodName = Field(alias="to", description="the last period; the budget is for all of them together")
    step: Literal["year", "quarter", "month", "day"] = Field(
        default="year", description="the time from one period to the next: year, quarter, month or day"
    )
    #: Whether noise is correlated over the periods, which `spells` says; stated in published specs alone.
    noise: SkipJsonSchema[Literal["independent", "spells"]] = "independent"
    spells: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=None,
        description="in how many different answers, one after the other, a person may be: noise is correlated over the "
        "periods, so that people with at most so many spells lose no more than the budget, and changes are known "
        "better; default: each period has noise of its own",
    )
    records: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=None,
        description="in place of `spells`: in how many periods a person may have a record, such as a positive test; "
        "who has more loses more; default: in all of them",
    )
    #: The period, the hash of the release before, and how numbers are mixed; in published specs alone.
    period: SkipJsonSchema[PeriodName | None] = None
    predecessor: SkipJsonSchema[str | None] = None
    terms: SkipJsonSchema[TermsSection | None] = None

    of_runs: ClassVar[tuple[str, ...]] = ("noise", "period", "predecessor", "terms")

    @classmethod
    def stated_by_runs(cls, stated: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `Section.stated_by_runs`."""
        return {"noise": "independent" if stated.get("spells") is None else "spells"}

    @model_validator(mode="after")
    def _fits(self) -> SeriesSection:
        if self.spells is not None and self.records is not None:
            raise Misfit(("records", "not with spells, by which noise is correlated; leave one of the two out"))
        if (self.noise == "spells") != (self.spells is not None):
            raise Misfit(("noise", f"found {self.noise!r}; it is correlated where spells are stated, and only there"))
        try:
            series = self.series
            if self.period is not None:
                series.number(self.period)
            if self.terms is not None and len(self.terms.stated(self.spells or 1).design) != len(series.periods):
                raise ValueError(f"its design is not of {len(series.periods)} periods")
        except (InputError, ValueError, ZeroDivisionError) as error:
            raise Misfit(("", str(error))) from None
        if self.records is not None and self.records > len(series.periods):
            raise Misfit(("records", f"found {self.records}; the series has {len(series.periods)} periods"))
        return self

    @property
    def series(self) -> Series:
        """Its name and periods; InputError where they are none."""
        return Series(self.name, self.first, self.last, self.step)

    def terms_for(self, neighbours: Literal["change-one", "add-remove"]) -> SeriesTerms:
        """As they are stated, or else the best, which are found when they are asked for."""
        periods = len(self.series.periods)
        if self.spells is None:
            return independent_terms(periods, self.records)
        if self.terms is not None:
            return self.terms.stated(self.spells)
        return SolvedTerms(periods, self.spells, neighbours)


class SeriesPart(FeatureKeys):
    """The section [series]; `keys.SeriesKeys` says what comes with it."""

    slot: ClassVar[str] = ""
    after: ClassVar[str] = "privacy"

    series: SeriesSection | None = Field(
        default=None, description="releases of the same people over time, whose noise is paid for together"
    )
    _folder: Path | None = PrivateAttr(default=None)

    @property
    def folder(self) -> Path | None:
        """Where the releases of the series are; None where the spec was not placed in it by a run."""
        return self._folder

    def in_folder(self, series: SeriesSection, folder: Path) -> Self:
        """The keys of one release, with the others in a folder."""
        part = self.model_copy(update={"series": series})
        part._folder = folder
        return part
