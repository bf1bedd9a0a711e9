"""The section `privacy.beacon`: a round of public randomness that is named before anybody knows it."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import Field, StrictInt, field_validator

from pipeline.spec.fields import Section

_CHAIN: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


class BeaconSection(Section):
    """A round of a public beacon that the noise depends on, so that it cannot be drawn until it pleases."""

    chain: str = Field(description="the chain's hash, 64 hexadecimal digits")
    round: Annotated[StrictInt, Field(ge=1)] = Field(
        description="the round, one that is published after the run has committed itself in the ledger"
    )

    @field_validator("chain")
    @classmethod
    def _is_a_hash(cls, chain: str) -> str:
        if not _CHAIN.fullmatch(chain):
            raise ValueError("the hash of a chain is 64 hexadecimal digits, in small letters")
        return chain

    @property
    def text(self) -> str:
        """Chain and round, as fingerprints hold them."""
        return f"{self.chain} {self.round}"
