"""The sections of a spec on the privacy-loss budget: of the release, and of a companion."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, StrictInt, field_validator, model_validator

from pipeline.spec.fields import Budget, Delta, Misfit, Section

#: Why framework "local" has no such key.
_LOCAL = 'not with framework "local": each report has spent its own epsilon when it was sent; leave it out'
_TEST_KEY = re.compile(r"insecure-test:[0-9]{1,18}", re.ASCII)


class CompanionPrivacySection(Section):
    """A companion's own budget; framework, delta and neighbours are the release's."""

    rho: Budget | None = Field(
        default=None,
        description='the total budget of framework zcdp as exact text, such as "2.56"; default: the preset\'s',
    )
    epsilon: Budget | None = Field(
        default=None,
        description='the total budget of framework pure as exact text, such as "1"; default: a preset\'s that has one',
    )
    unit: str | None = Field(
        default=None,
        min_length=1,
        description="the records' column of units that are protected as a whole and may have several records, such as "
        "patients with visits; with at_most",
    )
    at_most: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=None,
        description="how many records of a unit are counted; a keyed choice leaves out the others",
    )
    dataset: str | None = Field(
        default=None, description="the ledger's name for what the records are about; the run is charged to it"
    )

    @model_validator(mode="after")
    def _both_of_units(self) -> Self:
        if self.unit is not None and self.at_most is None:
            raise Misfit(("at_most", "missing; a unit may have several records: say how many of these are counted"))
        if self.unit is None and self.at_most is not None:
            raise Misfit(("unit", "missing; at_most is given: name the column of the units"))
        return self


class PrivacySection(CompanionPrivacySection):
    """The whole privacy-loss budget, and what it promises."""

    framework: Literal["zcdp", "pure", "local"] = Field(
        default="zcdp",
        description='"zcdp" (discrete Gaussian noise, budget rho), "pure" (discrete Laplace, budget epsilon) or '
        '"local" (reports that were randomised by their senders, see [collect]; no budget)',
    )
    delta: Delta | None = Field(
        default=None, description='the delta of the (epsilon, delta) statement of framework zcdp; default "1e-10"'
    )
    population: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=None,
        description="the approximate number of records, if that is public: delta must be below 1 / population",
    )
    neighbours: Literal["change-one", "add-remove"] = Field(
        default="change-one",
        description="what one person can change: one record's values, or whether the record is there",
    )
    key: str | None = Field(
        default=None,
        description='only "insecure-test:<number>", for tests; leave it out for a release: a key is drawn then',
    )

    @field_validator("key")
    @classmethod
    def _only_test_keys(cls, key: str | None) -> str | None:
        if key is not None and not _TEST_KEY.fullmatch(key):
            raise ValueError(
                'only "insecure-test:<number>" is allowed here; a real key never stands in a spec '
                "(if this was one, do not use it again)"
            )
        return key

    @model_validator(mode="after")
    def _one_budget(self) -> PrivacySection:
        if self.framework == "zcdp" and self.epsilon is not None:
            raise Misfit(("epsilon", 'the budget of framework "zcdp" is rho; allowed with framework "pure"'))
        if self.framework == "pure" and self.rho is not None:
            raise Misfit(("rho", 'the budget of framework "pure" is epsilon; allowed with framework "zcdp"'))
        if self.framework == "pure" and self.delta is not None:
            raise Misfit(("delta", 'framework "pure" has no delta; leave it out'))
        if self.framework == "local":
            _check_local(self)
        return self


def _check_local(section: PrivacySection) -> None:
    """Raises Misfit where something is stated that only a budget of the release's own has."""
    names = ("rho", "epsilon", "delta", "population", "dataset", "unit")
    found = [(name, _LOCAL) for name in names if getattr(section, name) is not None]
    if section.neighbours != "change-one":
        found.append(("neighbours", 'with framework "local" it is "change-one": that one took part is not hidden'))
    if found:
        raise Misfit(*found)
