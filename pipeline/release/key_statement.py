"""What a manifest states of the key and the records of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class KeyStatement:
    """What a manifest states of key and records; empty where another program drew the noise.

    Attributes:
        salt: of the release.
        commitment: to the key, with the salt.
        fingerprints: universe -> of its records, keyed, with the salt.
    """

    salt: str = ""
    commitment: str = ""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
