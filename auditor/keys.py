"""The master key of a run, what is derived from it as docs/mathematics.md states the keyed stream, and keys to guess.

Nothing but HMAC-SHA256 (RFC 2104, 5869) of the standard library and AES-256 in plain Python (FIPS 197), one block at a
time: slow, and shared with nothing else. The program encrypts with a library; here the S-box is computed from the field
GF(2^8), so that neither the library nor its use is taken on trust.

Whether 32 bytes were drawn at random cannot be seen. What can be done is what an attacker would do: try every key that
a small number gives in any of the ways in which programs make keys of numbers, against the public commitment. A key
made of 16 bits, in whatever of these ways, is found in seconds.
"""

from __future__ import annotations

import hashlib
import hmac
import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from auditor.reading.findings import Found

KEY_BYTES: Final = 32
_ROUNDS: Final = 14


def _doubled(a: int) -> int:
    """2 a in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1."""
    return (a << 1) ^ (0x11B if a & 0x80 else 0)


def _substitution() -> bytes:
    """The S-box: the inverse in GF(2^8), then an affine map."""
    powers = [1]
    for _ in range(254):
        powers.append(_doubled(powers[-1]) ^ powers[-1])  # of the generator 3
    inverse = {powers[i]: powers[-i % 255] for i in range(255)}
    box = []
    for value in range(256):
        x = inverse.get(value, 0)
        for turn in range(1, 5):
            b = inverse.get(value, 0)
            x ^= (b << turn | b >> (8 - turn)) & 0xFF
        box.append(x ^ 0x63)
    return bytes(box)


_S: Final = _substitution()
#: What one byte of the state adds to its column: SubBytes and MixColumns at once.
_T: Final = [[_doubled(s) << 24 | s << 16 | s << 8 | _doubled(s) ^ s for s in _S]]
for _ in range(3):
    _T.append([t >> 8 | (t & 0xFF) << 24 for t in _T[-1]])


def _sub_word(word: int) -> int:
    return _S[word >> 24] << 24 | _S[word >> 16 & 255] << 16 | _S[word >> 8 & 255] << 8 | _S[word & 255]


class Aes256:
    """The block cipher under one key.

    >>> Aes256(bytes(range(32))).block(bytes.fromhex("00112233445566778899aabbccddeeff")).hex()
    '8ea2b7ca516745bfeafc49904b496089'
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"AES-256: found a key of {len(key)} bytes; {KEY_BYTES} are needed")
        words = [int.from_bytes(key[i : i + 4], "big") for i in range(0, KEY_BYTES, 4)]
        constant = 1
        for i in range(8, 4 * (_ROUNDS + 1)):
            last = words[-1]
            if i % 8 == 0:
                last = _sub_word((last << 8 | last >> 24) & 0xFFFFFFFF) ^ constant << 24
                constant = _doubled(constant)
            elif i % 8 == 4:
                last = _sub_word(last)
            words.append(words[i - 8] ^ last)
        self._round_keys = words

    def block(self, plain: bytes) -> bytes:
        """The encryption of 16 bytes."""
        keys = self._round_keys
        state = [int.from_bytes(plain[4 * i : 4 * i + 4], "big") ^ keys[i] for i in range(4)]
        for first in range(4, 4 * _ROUNDS, 4):
            state = [
                _T[0][state[i] >> 24]
                ^ _T[1][state[(i + 1) % 4] >> 16 & 255]
                ^ _T[2][state[(i + 2) % 4] >> 8 & 255]
                ^ _T[3][state[(i + 3) % 4] & 255]
                ^ keys[first + i]
                for i in range(4)
            ]
        shifted = (
            _S[state[i] >> 24] << 24
            | _S[state[(i + 1) % 4] >> 16 & 255] << 16
            | _S[state[(i + 2) % 4] >> 8 & 255] << 8
            | _S[state[(i + 3) % 4] & 255]
            for i in range(4)
        )
        return b"".join((word ^ keys[4 * _ROUNDS + i]).to_bytes(4, "big") for i, word in enumerate(shifted))


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
