"""Keyed streams of uniform 64-bit words that can be entered at any position."""

from __future__ import annotations

from typing import Final, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

STREAM_WORDS: Final = 2**129  # 2^128 blocks of two words
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
