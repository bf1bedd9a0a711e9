"""The section "update" of a published spec: which release a version replaces, and with which answers it was made.

No spec file has it. `spinewise update` writes it into the spec of the manifest, from which everything is computed.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictInt

from pipeline.privacy.budget import Mechanism
from pipeline.spec.fields import Budget, FilledTable, FilledValues, Name, NamedTable, Section, Value

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class TermSection(Section):
    """One of the terms that an answer tells apart: an attribute, or groups of its values as they were asked for."""

    attribute: Name = Field(description="of the schema")
    groups: FilledTable[FilledValues] = Field(description="label of each group: its values; others do not count")


class AddedSection(Section):
    """An answer whose counts are used beside the measurements of the release."""

    name: Name = Field(description="of the answer")
    sha256: Hash = Field(description="of its answer.json")
    question: str = Field(description="canonical text")
    level: Name = Field(description="whose areas it counts")
    by: NamedTable[Value, TermSection] = Field(description="the terms that it tells apart, in the schema's order")
    where: NamedTable[Name, FilledValues] = Field(description="of attributes that it does not tell apart: what counts")
    mechanism: Mechanism = Field(description="of the noise on each count")
    scale: Budget = Field(description="sigma^2 or b, exact")


class UpdateSection(Section):
    """Which version of a release this is, and with which answers it was made."""

    version: Annotated[StrictInt, Field(ge=2)] = Field(description="the first release is version 1")
    replaces: Hash = Field(description="SHA-256 of the manifest of the version before")
    answers: Annotated[tuple[AddedSection, ...], Field(min_length=1)] = Field(
        description="all that were added, those of earlier versions first"
    )
