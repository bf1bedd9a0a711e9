"""What exact draws are made of: keyed streams of uniform words, and rigorous enclosures of real numbers.

A stream of 64-bit words can be entered at any position.

A number x in [0, 1] is enclosed at `bits` bits by a pair of ints `lower <= 2^bits x <= upper`. Lower ends are rounded
down and upper ends up at every step, so that an enclosure holds whatever the number of steps; Python's ints do not
overflow.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import count as count_from
from typing import Final, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from pipeline.privacy.keys import refinement_key

STREAM_WORDS: Final = 2**129  # 2^128 blocks of two words
_REFINEMENT_WORDS: Final = 2**65  # of one position: its words never run into the next position's
_PIECE: Final = 1 << 15
_ZEROS: Final = bytes(8 * _PIECE)


#: Of AES-256.
_KEY_BYTES = 32


class Stream:
    """The AES-256-CTR keystream of one key (NIST SP 800-38A, 6.5), counter from 0, as little-endian 64-bit words.

    Word i is in block i // 2, so that any stretch can be computed without those before it. The 128-bit blocks of a
    keystream are all different, which truly random ones need not be; over n blocks this can be noticed with probability
    at most n^2 / 2^129, 2^-63 for the noise of ten billion counts.
    """

    __slots__ = ("_algorithm",)

    def __init__(self, key: bytes) -> None:
        if len(key) != _KEY_BYTES:
            raise ValueError(f"a stream's key must be {_KEY_BYTES} bytes, got {len(key)}")
        self._algorithm = algorithms.AES(key)

    def words(self, start: int, count: int) -> NDArray[np.uint64]:
        """Words `start` to `start + count`, `(count,)` uint64.

        Raises:
            ValueError: the stretch is not within 0 and `STREAM_WORDS`.
        """
        if count < 0:
            raise ValueError(f"stream: found count = {count}; it must not be negative")
        out = np.empty(count, dtype=np.uint64)
        self.fill(start, out)
        return out

    def words_at(self, positions: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The words at some positions from 0 on, in any order, `(n,)` uint64: each block is encrypted by itself.

        Raises:
            ValueError: a position is negative.
        """
        if positions.size and int(positions.min()) < 0:
            raise ValueError(f"stream: found the position {int(positions.min())}; allowed are those from 0 on")
        counters = np.zeros((positions.size, 2), dtype=">u8")
        counters[:, 1] = positions >> 1
        encrypted = Cipher(self._algorithm, modes.ECB()).encryptor().update(counters.tobytes())
        words = np.frombuffer(encrypted, dtype="<u8").reshape(-1, 2)
        return words[np.arange(positions.size), positions & 1].astype(np.uint64)

    def fill(self, start: int, out: NDArray[np.uint64]) -> None:
        """Write the words from `start` on into the contiguous `out`, `(n,)` uint64.

        Raises:
            ValueError: the stretch is not within 0 and `STREAM_WORDS`.
        """
        if start < 0 or start + out.size > STREAM_WORDS:
            raise ValueError(f"stream: found words {start} to {start + out.size}; allowed are 0 to 2^129")
        if out.size == 0:
            return
        block, skipped = divmod(start, 2)
        encryptor = Cipher(self._algorithm, modes.CTR(block.to_bytes(16, "big"))).encryptor()
        encryptor.update(_ZEROS[: 8 * skipped])
        for first in range(0, out.size, _PIECE):
            piece = out[first : first + _PIECE]
            encryptor.update_into(_ZEROS[: 8 * piece.size], piece.data.cast("B"))
        if not np.little_endian:
            out.byteswap(inplace=True)

    def __repr__(self) -> str:
        return "Stream(hidden)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Stream is not pickled: it holds a key")


def further_words(stream_key: bytes, position: int) -> Iterator[int]:
    """The words that decide a draw where the first one, at this position of the stream key's draws, does not."""
    stream = Stream(refinement_key(stream_key))
    for number in count_from(position * _REFINEMENT_WORDS):
        yield int(stream.words(number, 1)[0])


Enclosure = tuple[int, int]


def exp_minus(x: Fraction, bits: int) -> Enclosure:
    """Enclosure of e^-x for x >= 0.

    The Taylor series of e^-y at y = x / 2^halvings < 2^-8, whose terms alternate and fall, so that what is left out is
    between 0 and the first term left out; then squared `halvings` times.
    """
    if x < 0:
        raise ValueError(f"exp_minus: found x = {x}; it must not be negative")
    if x >= bits:
        return 0, 1  # e^-x < 2^-x <= 2^-bits
    halvings = max(0, (x.numerator // x.denominator).bit_length() + 8)
    working = bits + halvings + 16
    one = 1 << working
    y_lower = (x.numerator << working) // (x.denominator << halvings)
    y_upper = y_lower + 1
    lower = upper = term_lower = term_upper = one
    n = 0
    while term_upper > 1:
        n += 1
        term_lower = term_lower * y_lower // (n << working)
        term_upper = -(-term_upper * y_upper // (n << working))
        if n % 2:
            lower, upper = lower - term_upper, upper - term_lower
        else:
            lower, upper = lower + term_lower, upper + term_upper
    lower, upper = max(lower - term_upper, 0), min(upper + term_upper, one)
    for _ in range(halvings):
        lower, upper = multiply((lower, upper), (lower, upper), working)
    shift = working - bits
    return lower >> shift, -(-upper >> shift)


def multiply(a: Enclosure, b: Enclosure, bits: int) -> Enclosure:
    """Enclosure of the product."""
    return a[0] * b[0] >> bits, -(-a[1] * b[1] >> bits)


def divide(a: Enclosure, b: Enclosure, bits: int) -> Enclosure:
    """Enclosure of a / b, for b above 0."""
    return (a[0] << bits) // b[1], -((-a[1] << bits) // b[0])
