"""The section [collect] of a spec: how respondents randomised their answers before they sent them.

Its part [collect.central] has counts that a central release has measured of those who sent reports.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictInt, model_validator

from pipeline.model.exact import sum_text
from pipeline.spec.fields import Budget, File, Misfit, QueryShare, Section, Table


class CentralSection(Section):
    """A release of the true answers of the same persons, whose measurements are used above the leaves."""

    release: File = Field(
        description="the directory of the release, relative to the spec; a plan does not need it yet. It has to be "
        "charged to a ledger, with no companions and nothing exact but totals, and of the very persons who sent reports"
    )
    framework: Literal["zcdp", "pure"] = Field(default="zcdp", description="that of the release")
    rho: Budget | None = Field(default=None, description="the release's whole budget, with framework zcdp")
    epsilon: Budget | None = Field(default=None, description="the release's whole budget, with framework pure")
    levels: Table[QueryShare] = Field(
        description="each level whose measurement of all attributes together is used, and its share of the budget: the "
        "level's share times the query's"
    )

    @model_validator(mode="after")
    def _one_budget(self) -> CentralSection:
        needed, other = ("rho", "epsilon") if self.framework == "zcdp" else ("epsilon", "rho")
        if getattr(self, other) is not None:
            raise Misfit((other, f'the budget of framework "{self.framework}" is {needed}'))
        if getattr(self, needed) is None:
            raise Misfit((needed, f'missing; the whole budget of the release, with framework "{self.framework}"'))
        if not self.levels:
            raise Misfit(("levels", "is empty; name the levels whose measurements are used"))
        if sum(self.levels.values()) > 1:
            raise Misfit(("levels", f"the shares add up to {sum_text(self.levels)}; at most 1 is allowed"))
        return self


class CollectSection(Section):
    """The mechanism by which every respondent randomised the answer; its values are the cells of the schema.

    Of RAPPOR they are the words that are counted, and last any other word.
    """

    mechanism: str = Field(
        description='"randomised_response" (of two), "direct_encoding", "unary_encoding", or "rappor" (of words: the '
        "values of the one attribute, of which the last is any other word), as in `spinewise.collect`"
    )
    parameters: Table[str] = Field(
        description='of the mechanism, exact, as text: epsilon = "1"; or p = "3/4", or q of unary_encoding; and '
        'memoised = "yes" where a device draws one response to a question and repeats it for ever; bits, hashes, '
        "cohorts, f, p and q of rappor"
    )
    central: CentralSection | None = Field(
        default=None, description="a mixed design: counts of a central release of the same persons, above the leaves"
    )
    respondents: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=None, description="how many are expected in a leaf; for `spinewise plan` alone"
    )
