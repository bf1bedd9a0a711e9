"""The master key of a run, and what is derived from it, as docs/mathematics.md states the keyed stream.

Nothing but HMAC-SHA256 (RFC 2104, 5869) of the standard library and the AES of this folder.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from auditor.aes import Aes256

_SALT: Final = b"spinewise keys 1"
_SECRET: Final = re.compile(r"spinewise-master-key-1 ([0-9a-f]{64})")
_TEST: Final = re.compile(r"insecure-test:(0|[1-9][0-9]{0,17})")
#: 64-bit words of the second stream that belong to one draw.
_FURTHER: Final = 2**65


def encoded(*members: str | bytes) -> bytes:
    """How many members, and each after its length, all as 8 bytes, big end first."""
    data = [member.encode() if isinstance(member, str) else member for member in members]
    return len(data).to_bytes(8, "big") + b"".join(len(each).to_bytes(8, "big") + each for each in data)


def derived(secret: bytes, *members: str | bytes) -> bytes:
    """32 bytes: HKDF-SHA256 with the salt of this version; the members are the info."""
    extracted = hmac.digest(_SALT, secret, "sha256")
    return hmac.digest(extracted, encoded(*members) + b"\x01", "sha256")


class NoKeyError(ValueError):
    """There is no key at the place given; its content is not shown."""


def read_key(path: Path) -> tuple[bytes, bool]:
    """The 32 bytes of a key file, and whether it is a public test key.

    Raises:
        NoKeyError: the file cannot be read or holds no key.
    """
    try:
        text = path.read_bytes()[:1024].strip().decode("ascii", "replace")
    except OSError as error:
        raise NoKeyError(f"{path}: cannot be read ({error.strerror})") from None
    if _TEST.fullmatch(text):
        return hashlib.sha256(encoded("insecure test key", text)).digest(), True
    match = _SECRET.fullmatch(text)
    if match is None:
        raise NoKeyError(f"{path}: is not a key file")
    return bytes.fromhex(match[1]), False


def commitment(secret: bytes, salt: str = "") -> str:
    """What a manifest publishes of its key, with the salt that it states, if it states one; a ledger has it without."""
    return derived(secret, "commitment", *([salt] if salt else [])).hex()


def keyed_hash(secret: bytes, label: str, data: bytes) -> str:
    """What a manifest publishes of its records, `data` being a plain hash of their counts."""
    return hmac.digest(derived(secret, "keyed hash", label), data, "sha256").hex()


def published_fingerprint(secret: bytes, salt: str, universe: str, fingerprint: str) -> str:
    """What a manifest publishes of the keyed fingerprint of a universe's records."""
    return keyed_hash(secret, f"published input/{salt}/{universe}", fingerprint.encode()) if salt else fingerprint


class KeyedStream:
    """The uniform words of one query at one level.

    Args:
        secret: the master key.
        context: keyed fingerprint of the records, fingerprints of the spine and of the privacy-relevant spec.
        level, query: which query; for a choice "select NAME", for what was chosen "selected NAME".
    """

    def __init__(self, secret: bytes, context: Sequence[str], level: str, query: str) -> None:
        key = derived(secret, "stream", *context, level, query)
        self._first, self._further = Aes256(derived(key, "draws")), Aes256(derived(key, "refinement"))

    def words(self, position: int) -> Iterator[int]:
        """The 64-bit words of the draw at a position: one of the first stream, then those of the second."""
        yield _word(self._first, position)
        number = position * _FURTHER
        while True:
            yield _word(self._further, number)
            number += 1


def _word(cipher: Aes256, number: int) -> int:
    """Word `number` of the keystream in counter mode: half of block `number` // 2, little end first."""
    block = _block(cipher, number // 2)
    return int.from_bytes(block[8 * (number % 2) :][:8], "little")


@lru_cache(maxsize=64)
def _block(cipher: Aes256, number: int) -> bytes:
    return cipher.block(number.to_bytes(16, "big"))
