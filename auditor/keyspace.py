"""Keys that can be guessed: the audit guesses them.

Whether 32 bytes were drawn at random cannot be seen. What can be done is what an attacker would do: try every key that
a small number gives in any of the ways in which programs make keys of numbers, against the public commitment. A key
made of 16 bits, in whatever of these ways, is found in seconds.
"""

from __future__ import annotations

import hashlib
import hmac
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from auditor.findings import Found
from auditor.keys import commitment

SMALL_BITS: Final = 16
_BYTES: Final = 32
#: Distinct bytes of a random key: 12 or fewer have a probability below 1e-19.
_LEAST_DISTINCT: Final = 12


def small_keys(bits: int = SMALL_BITS) -> Iterator[bytes]:
    """Every key that a number of so many bits gives in a common way: padded, repeated, hashed, or as a seed."""
    for number in range(1 << bits):
        forms = {number.to_bytes(n, order) for n in (2, 4, 8) for order in ("big", "little")}
        for raw in (*forms, str(number).encode()):
            yield hashlib.sha256(raw).digest()
        two = number.to_bytes(2, "big")
        yield two * (_BYTES // 2)
        yield two[::-1] * (_BYTES // 2)
        yield number.to_bytes(_BYTES, "big")
        yield number.to_bytes(_BYTES, "little")
        yield random.Random(number).randbytes(_BYTES)


def pattern(secret: bytes) -> str:
    """What is not random about a key that is known, as a sentence; "" if nothing meets the eye."""
    if len(set(secret)) <= _LEAST_DISTINCT:
        return f"it has only {len(set(secret))} different bytes"
    steps = {(b - a) % 256 for a, b in pairwise(secret)}
    if len(steps) <= 2:
        return "its bytes are a progression"
    if all(32 <= byte < 127 for byte in secret):
        return "it is a text"
    return ""


def key_found(stated: str, secret: bytes | None, *, salt: str = "", insecure: bool = False) -> Found:
    """Whether the key can be guessed, from the public commitment alone; and from the key, if it is given.

    Args:
        stated: the manifest's commitment.
        secret: the key; with it the search needs no derivation and is much faster.
        salt: of the commitment, which is public; "" if it has none.
        insecure: it is a public test key, which is said elsewhere.
    """
    if insecure:
        return Found("key space", "master key", True, detail="a public test key: not searched")
    if secret is not None and (why := pattern(secret)):
        return Found("key space", "master key", False, detail=f"the key was not drawn at random: {why}")
    matches: Callable[[bytes], bool] = (
        (lambda key: commitment(key, salt) == stated)
        if secret is None
        else (lambda key: hmac.compare_digest(key, secret))
    )
    guessed = any(map(matches, small_keys()))
    detail = (
        f"the key is found by trying numbers of {SMALL_BITS} bits: anyone can remove the noise"
        if guessed
        else f"not one of the keys that numbers of {SMALL_BITS} bits give in twelve ways"
    )
    return Found("key space", "master key", not guessed, detail=detail)
