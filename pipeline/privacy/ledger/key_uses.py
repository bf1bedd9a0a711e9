"""Which key a run draws its noise from, and over which records: one key is for one set of records.

Equal records, spine and spec give equal noise under equal keys, so two releases with one key would show whether any
record changed between them. The ledger therefore refuses a key that was used over other records. So it does where the
same records are read otherwise, whether that changes a count or not: else the refusal, or that there is none, would say
which. The commitments here are not the published ones, which differ from release to release.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.privacy.ledger.chain import details_text, read_details
from pipeline.privacy.ledger.disclosures import HEX

_RECORDED: Final = ("commitment", "universe", "layout", "records")
#: So many characters at the start of a use's details state the commitment: uses of one key begin alike.
COMMITTED: Final = len('{"commitment":""') + 64


@dataclass(frozen=True)
class KeyUse:
    """A key over the records of one universe.

    Attributes:
        commitment: of the key, the same in every run.
        universe: its name; another universe's streams are others.
        layout: hash of the attributes and the spine, by which the records are counted.
        records: keyed fingerprint of the counts, and how they are read; two can only be compared where layouts are the
            same.
    """

    commitment: str
    universe: str
    layout: str
    records: str

    def __post_init__(self) -> None:
        if not all(HEX.fullmatch(text) for text in (self.commitment, self.layout, self.records)):
            raise ValueError("a key's use is stated by three hashes of 64 hex digits")

    @classmethod
    def parse(cls, text: str) -> KeyUse:
        """The use that an event's details state; ValueError where they do not."""
        return cls(**read_details(text, *_RECORDED))

    @property
    def stream(self) -> str:
        """Key and universe: uses can only conflict where these are the same."""
        return f"{self.commitment} {self.universe}"

    def details(self) -> str:
        """The use as an event's details."""
        return details_text({name: getattr(self, name) for name in _RECORDED})

    @classmethod
    def read_so(cls, commitment: str, universe: str, layout: str, counts: str, reading: Sequence[object]) -> KeyUse:
        """The use over counts of records that are read so, as JSON."""
        records = hashlib.sha256(json.dumps([counts, list(reading)]).encode()).hexdigest()
        return cls(commitment, universe, layout, records)


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
