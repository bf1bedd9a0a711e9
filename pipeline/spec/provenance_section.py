"""The section of a spec that says where its public inputs come from."""

from __future__ import annotations

from pydantic import Field

from pipeline.release.provenance import InputSource
from pipeline.spec.fields import Section, Table


class OriginSection(Section):
    """Where one input comes from."""

    source: InputSource = Field(description='"public", or "records" if it was made from the records')
    origin: str = Field(default="", alias="from", max_length=500, description="its origin, in words; this is published")


class ProvenanceSection(Section):
    """Where the public inputs come from."""

    inputs: Table[OriginSection] = Field(
        default={},
        description='where inputs are from, by name: "geography", "names", "schema", "labels", "bounds", "shares", '
        '"polygons", "regroup", and "companions.NAME.schema"; one that is not named is public, by the word of '
        "whoever wrote the spec",
    )
    accept: tuple[str, ...] = Field(
        default=(), description="inputs made from the records that the release uses all the same, by name"
    )
