"""The section [collect] of a spec: how respondents randomised their answers before they sent them.

Its part [collect.central] has counts that a central release has measured of those who sent reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StrictInt, model_validator
from pydantic.json_schema import SkipJsonSchema

from pipeline.model.exact import sum_text
from pipeline.spec.fields import Budget, File, Misfit, QueryShare, Section, Table


class CentralSection(Section):
    """A release of the true answers of the same persons, whose measurements are used above the leaves."""

    release: File = Field(
        description="the directory of the release, relative to the spec; a plan does not need it yet. It has to be "
        "charged to a ledger, with no companions and nothing exact but totals, and of the very persons who sent reports"
    )
    #: That of the release, which its budget says; stated in published specs alone.
    framework: SkipJsonSchema[Literal["zcdp", "pure"]] = "zcdp"
    rho: Budget | None = Field(default=None, description="the release's whole budget, where its framework is zcdp")
    epsilon: Budget | None = Field(default=None, description="the same, where its framework is pure")
    levels: Table[QueryShare] = Field(
        description="each level whose measurement of all attributes together is used, and its share of the budget: the "
        "level's share times the query's"
    )

    of_runs: ClassVar[tuple[str, ...]] = ("framework",)

    @classmethod
    def stated_by_runs(cls, stated: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `Section.stated_by_runs`."""
        return {"framework": "zcdp" if "rho" in stated else "pure"}

    @model_validator(mode="after")
    def _one_budget(self) -> CentralSection:
        if (self.rho is None) == (self.epsilon is None):
            found = "neither" if self.rho is None else "both"
            raise Misfit(("rho", f"found {found} of rho and epsilon; the release's whole budget is one of the two"))
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


def with_measured(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """A spec's tables with what [collect] implies: the reports of leaves are what is measured, their number is exact.

    A spec that states its strategy or its invariants itself is left as it is, and is checked when it is resolved.
    """
    levels = _names(content.get("geography"), "levels")
    attributes = _names(content.get("schema"), "attributes")
    if not levels or not attributes:
        return content
    *above, leaves = levels
    measured = {
        "levels": {**dict.fromkeys(above, "0"), leaves: {"share": "1", "queries": {" * ".join(attributes): "1"}}}
    }
    return {"strategy": measured, "invariants": {leaves: ["total"]}, **content}


def _names(section: object, key: str) -> list[str]:
    """The names in a table, or a list, of a section; none where it is neither."""
    found = section.get(key) if isinstance(section, Mapping) else None
    names = list(found) if isinstance(found, Mapping | list | tuple) else []
    return names if all(isinstance(name, str) for name in names) else []
