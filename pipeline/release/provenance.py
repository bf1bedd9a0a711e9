"""Provenance of a release's public inputs, as its manifest states it."""

from __future__ import annotations

from typing import Literal

from pipeline.release.stated import Digest, Stated, StatedName, read_stated
from pipeline.release.status import Status
from pipeline.storage.paths import Readable

InputSource = Literal["public", "records"]


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


class CentralRelease(Stated):
    """central.json: the release whose counts are used beside reports.

    Attributes:
        release: its name, as its manifest has it.
        status: which its manifest states.
        manifest_sha256: of its manifest.json, hexadecimal.
    """

    release: StatedName
    status: Status
    manifest_sha256: Digest


def read_central_release(path: Readable) -> CentralRelease:
    """central.json; ReleaseError where it is missing or damaged."""
    return read_stated(path, CentralRelease, "does not name a central release")
