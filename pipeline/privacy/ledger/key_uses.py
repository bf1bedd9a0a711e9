"""Which key a run draws its noise from, and over which records: one key is for one set of records.

Equal records, spine and spec give equal noise under equal keys, so two releases with one key would show whether any
record changed between them. The ledger therefore refuses a key that was used over other records. The commitments here
are not the published ones, which differ from release to release.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Final

from pipeline.privacy.ledger.details import details_text, read_details

__all__ = ["KeyUse", "conflicting"]

_HEX: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True)
class KeyUse:
    """A key over the records of one universe.

    Attributes:
        commitment: of the key, the same in every run.
        universe: its name; another universe's streams are others.
        layout: hash of the attributes and the spine, by which the records are counted.
        records: keyed fingerprint of the counts; two can only be compared where the layout is the same.
    """

    commitment: str
    universe: str
    layout: str
    records: str

    def __post_init__(self) -> None:
        if not all(_HEX.fullmatch(text) for text in (self.commitment, self.layout, self.records)):
            raise ValueError("a key's use is stated by three hashes of 64 hex digits")

    @classmethod
    def parse(cls, text: str) -> KeyUse:
        """The use that an event's details state; ValueError where they do not."""
        return cls(**read_details(text, *(field.name for field in fields(cls))))

    def details(self) -> str:
        """The use as an event's details."""
        return details_text(asdict(self))


def conflicting(dataset: str, use: KeyUse, before: Iterable[tuple[str, KeyUse]]) -> str:
    """The dataset over whose other records the key was used before; "" where it was not.

    Args:
        dataset: that the use is charged to.
        use: what a run is going to do.
        before: dataset and use, of all runs so far.
    """
    for name, other in before:
        if (other.commitment, other.universe) != (use.commitment, use.universe):
            continue
        if name != dataset or (other.layout == use.layout and other.records != use.records):
            return name
    return ""
