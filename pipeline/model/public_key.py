"""Keys of public randomness: what simulated runs and draws are made with, which anybody can repeat."""

from __future__ import annotations

import hashlib
import json


def public_key(purpose: str, seed: int, universe: str, *place: int) -> bytes:
    """32 bytes that follow from what they are for, the public seed, the universe, and numbers that tell them apart."""
    return hashlib.sha256(json.dumps([purpose, seed, universe, *place]).encode()).digest()
