"""Exact random draws from random bytes: whole numbers by rejection, events by comparing with the digits of p."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

#: As in `postprocess.arrays`, which a device does without.
IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
#: Bytes that a keyed source derives at once: of the first chunk, and of the largest.
_FIRST, _LARGEST = 1 << 7, 1 << 16
#: The largest denominator: a product of two probabilities of spec size fits.
MOST = 1 << 62


class RandomBytes(Protocol):
    """Where random bytes come from."""

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""


class SystemBytes:
    """Bytes of the operating system, for a device: `secrets`."""

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        return secrets.token_bytes(count)


class KeyedBytes:
    """A stream that a key and a context determine: for tests, simulations, and responses that must not change.

    Chunk c is SHAKE-256 of the lengths and contents of key and context, and c; it has 128 bytes doubled c times, 65,536
    at most. Streams of different keys or contexts
    cannot be told from independent ones by anybody who does not know the key.

    Args:
        key: 16 bytes at least.
        context: what the stream is for; its parts are kept apart.

    Raises:
        ValueError: the key is too short.
    """

    def __init__(self, key: bytes, context: Sequence[str] = ()) -> None:
        if len(key) < 16:
            raise ValueError(f"a key of 16 bytes at least is needed, got {len(key)}")
        parts = [key, *(part.encode() for part in context)]
        self._prefix = b"spinewise collect 1" + b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        self._chunk = 0
        self._left = b""

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        pieces = [self._left]
        have = len(self._left)
        while have < count:
            size = min(_FIRST << min(self._chunk, 16), _LARGEST)
            piece = hashlib.shake_256(self._prefix + self._chunk.to_bytes(8, "big")).digest(size)
            self._chunk += 1
            pieces.append(piece)
            have += len(piece)
        whole = b"".join(pieces)
        self._left = whole[count:]
        return whole[:count]


def uniform_below(bound: int, count: int, source: RandomBytes) -> IntArray:
    """Whole numbers from 0 to `bound` - 1, each exactly as likely as any other if the bytes are.

    Draws as many bits as `bound` - 1 has, and rejects what is too large: no remainder, no float.

    Returns:
        (count,) int64.

    Raises:
        ValueError: the bound is not between 1 and 2^62.
    """
    if not 1 <= bound <= MOST:
        raise ValueError(f"a bound between 1 and 2^62 is needed, got {bound}")
    width = (bound - 1).bit_length()
    if width == 0:
        return np.zeros(count, dtype=np.int64)
    size = next(size for size in (1, 2, 4, 8) if 8 * size >= width)
    kept: list[IntArray] = []
    missing = count
    while missing:
        words = np.frombuffer(source.take(missing * size), dtype=f">u{size}").astype(np.uint64)
        numbers = (words >> np.uint64(8 * size - width)).astype(np.int64)
        numbers = numbers[numbers < bound]
        kept.append(numbers)
        missing -= len(numbers)
    return np.concatenate(kept) if kept else np.zeros(0, dtype=np.int64)


def events(likely: BoolArray, one: Fraction, other: Fraction, source: RandomBytes) -> BoolArray:
    """Independent events, each with exactly the probability `one` where `likely`, and `other` elsewhere.

    A uniform number below 1 is less than p with probability p. Its digits to the base 256 are drawn one by one, and
    compared with those of p until they differ, which is with the first one but in one case of 256. So any fraction is
    exact, and an event costs hardly more than a byte.

    Args:
        likely: of any shape, which the result has.
        one, other: from 0 to 1.
    """
    digits = np.frombuffer(source.take(likely.size), dtype=np.uint8).reshape(likely.shape)
    (first, more), (second, rest) = divmod(one * 256, 1), divmod(other * 256, 1)
    digit_of_p = np.where(likely, np.int16(first), np.int16(second))
    happens = digits < digit_of_p
    # An equal digit decides nothing, unless p ends with it: then the number is not less.
    undecided = (digits == digit_of_p) & np.where(likely, more > 0, rest > 0)
    if undecided.any():
        happens[undecided] = events(likely[undecided], more, rest, source)
    return happens
