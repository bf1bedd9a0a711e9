"""The birth certificate of a release's public inputs, as its manifest states it."""

from __future__ import annotations

from pipeline.model.input_source import InputSource
from pipeline.release.stated import Stated


class InputProvenance(Stated):
    """Where a public input is from.

    Attributes:
        name: as the spec's [provenance] calls it.
        source: "public", or "records" if it was made from the records.
        origin: where from, in the operator's words.
        accepted: the operator accepted an input made from the records.
        sha256: of the input as it is published, hexadecimal: of its file, or of the hashes of its files.
    """

    name: str
    source: InputSource
    origin: str
    accepted: bool
    sha256: str
