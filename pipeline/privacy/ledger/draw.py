"""What a release commits itself to before it draws: its runs, and a round of public randomness that nobody knows yet.

A run's fingerprint is over the key, the records and the privacy spec, so the noise follows from it and the round.
Whoever names both first can draw once only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pipeline.privacy.ledger.details import details_text, read_details

__all__ = ["Draw"]

_HEX: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_BEACON: Final = re.compile(r"[0-9a-f]{64} [1-9][0-9]{0,18}", re.ASCII)


@dataclass(frozen=True)
class Draw:
    """What determines the noise of a release, as far as one dataset is charged for it.

    Attributes:
        runs: fingerprints of the runs, one a universe, in order.
        beacon: chain and round, as `BeaconSection.text` writes them; "" of an attempt that names none.
    """

    runs: tuple[str, ...]
    beacon: str

    def __post_init__(self) -> None:
        named = self.beacon == "" or _BEACON.fullmatch(self.beacon)
        if not named or not self.runs or list(self.runs) != sorted(map(str, self.runs)):
            raise ValueError("a draw is stated by fingerprints in order, and the chain and round of a beacon")
        if not all(_HEX.fullmatch(run) for run in self.runs):
            raise ValueError("a run is stated by 64 hex digits")

    @classmethod
    def parse(cls, text: str) -> Draw:
        """The draw that an event's details state; ValueError where they do not."""
        stated = read_details(text, "runs", "beacon")
        if not isinstance(stated["runs"], list) or not isinstance(stated["beacon"], str):
            raise ValueError("a draw is stated by a list of fingerprints and a text")
        return cls(tuple(stated["runs"]), stated["beacon"])

    def details(self) -> str:
        """The draw as an event's details."""
        return details_text({"runs": list(self.runs), "beacon": self.beacon})

    def __str__(self) -> str:
        chain, _, number = self.beacon.partition(" ")
        return f"draw at round {number} of the beacon {chain[:12]}" if self.beacon else "draw without a beacon"
