"""The section [collect] of a spec: how respondents randomised their answers before they sent them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, StrictInt

from pipeline.spec.collect.central import CentralSection
from pipeline.spec.fields import Section, Table


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


def with_measured(content: Any) -> Any:
    """A spec's tables with what [collect] implies: the reports of leaves are what is measured, their number is exact.

    A spec that states its strategy or its invariants itself is left as it is, and is checked when it is resolved.
    """
    if not isinstance(content, Mapping) or "collect" not in content:
        return content
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
