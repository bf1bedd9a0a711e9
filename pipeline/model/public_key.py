"""Keys of public randomness: what simulated runs and draws are made with, which anybody can repeat."""

from __future__ import annotations

from pipeline.model.content import content_sha256


def public_key(purpose: str, seed: int, universe: str, *place: int) -> bytes:
    """32 bytes that follow from what they are for, the public seed, the universe, and numbers that tell them apart."""
    return bytes.fromhex(content_sha256([purpose, seed, universe, *place]))
