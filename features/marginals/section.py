"""The section [marginals] of a release spec."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictBool
from pydantic.json_schema import SkipJsonSchema

from pipeline.spec.fields import Section

#: Names of attributes.
Names = Annotated[tuple[str, ...], Field(min_length=1)]


class MarginalsSection(Section):
    """Which attributes are measured together, where the table of all of them has too many cells."""

    cliques: Annotated[tuple[Names, ...], Field(min_length=1)] = Field(
        description="the tables that are measured in every area, as lists of attributes; each has the same part of the "
        "budget. Together they form a tree, see `fill`"
    )
    fill: StrictBool = Field(
        default=False,
        description="where they form no tree: estimate the wider tables, too, that one needs; default: refused, and "
        "these tables named",
    )
    alike: StrictBool = Field(
        default=True, description="whether the parts of an area are expected to be alike, as far as they are measured"
    )
    #: Of published specs alone: all attributes in their order, which the universes have in parts.
    attributes: SkipJsonSchema[tuple[str, ...] | None] = None
