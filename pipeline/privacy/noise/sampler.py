"""Exact sampling of noise at 64-bit look-up speed.

The method is inversion. A position has a uniform U in [0, 1), whose binary digits are an endless row of 64-bit words,
and its noise is the least x with U < P(X <= x). The first word u means that U is in [u, u + 1) / 2^64. The table holds
integers B with B <= 2^64 P(X <= x) <= B + 1: for u < B surely U < P(X <= x), for u > B surely not. So u alone decides,
unless it equals a boundary, which happens to about 18 sigma (or 89 b) of 2^64 words; the tails beyond the table are
among them, as u = 0 and u = 2^64 - 1. Such a draw takes further words from a stream of its own, until enclosures of
P(X <= x), recomputed at higher precision and further out, decide. No float takes part, and the noise has exactly the
distribution stated, given uniform words.

What this does not hide is time: it depends a little on the words drawn, as table look-ups do.

Tail probabilities of the noise, enclosed as tightly as required, and the 64-bit boundaries made of them.

All distributions are symmetric, so they are given by T(k) = P(X <= -k) = P(X >= k), k = 0, 1, 2, ...:

    P(X <= x) = T(-x) for x < 0,    P(X <= x) = 1 - T(x + 1) for x >= 0.

No float takes part.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import neg
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.privacy.keys import draws_key
from pipeline.privacy.noise.mechanism import NoiseSpec, Tails
from pipeline.privacy.noise.streams import Stream, further_words

WORD_BITS = 64


def boundaries(spec: NoiseSpec) -> NDArray[np.uint64]:
    """Integers B with B <= 2^64 P(X <= x) <= B + 1 for x = -K, ..., K - 1, `(2K,)` uint64, rising from 0 to 2^64 - 1.

    B is the floor of 2^64 P(X <= x), so it does not depend on the precision it was computed with. K is the first k with
    T(k) < 2^-64: every further boundary would be another 0 or 2^64 - 1.
    """
    depth = WORD_BITS
    while True:
        floors = _floors(spec.tails(depth))
        if floors is not None:
            break
        depth *= 2  # an enclosure held a multiple of 2^-64
    below = np.array(floors[::-1], dtype=np.uint64)  # T(K), ..., T(1)
    above = ~below[::-1]  # 1 - T(1), ..., 1 - T(K): the floor of 2^64 - t is 2^64 - 1 - floor(t)
    return np.concatenate([below, above])


def _floors(table: Tails) -> list[int] | None:
    """Floors of 2^64 T(k) for k = 1, ..., K; None where an enclosure is not within two neighbouring integers."""
    shift = table.bits - WORD_BITS
    floors: list[int] = []
    for lower, upper in zip(table.lower[1:], table.upper[1:], strict=True):
        floor = lower >> shift
        if upper > (floor + 1) << shift:
            return None
        floors.append(floor)
        if floor == 0:
            break
    return floors


POSITIONS: Final = 2**63  # of one stream
_MOST_WORDS: Final = 64  # a sound stream passes it with probability below 2^-3900
_CHUNK: Final = 1 << 16  # words at a time: 512 KiB, within the second-level cache
_GUIDE_BITS: Final = (16, 20)
_MIXED: Final = np.iinfo(np.int32).min

FurtherWords = Callable[[int], Iterator[int]]
"""Position of a draw -> the words after its first."""


@dataclass(frozen=True, eq=False)
class Sampler:
    """Draws exact noise of one distribution.

    Attributes:
        spec: the distribution.
        boundaries: `(2K,)` uint64, see `boundaries`.
        guide: `(2^g,)` int32, the outcome of all words whose first g bits are the index; `_MIXED` where a boundary is
            among them, and the boundaries must be searched.
    """

    spec: NoiseSpec
    boundaries: NDArray[np.uint64]
    guide: NDArray[np.int32]

    @classmethod
    def build(cls, spec: NoiseSpec) -> Sampler:
        """The sampler of `spec`: milliseconds up to sigma = 100, a few seconds at the largest scales allowed."""
        limits = boundaries(spec)
        least, most = _GUIDE_BITS
        bits = min(max((8 * limits.size).bit_length(), least), most)
        inside = np.bincount((limits >> np.uint64(WORD_BITS - bits)).view(np.int64), minlength=1 << bits)
        guide = np.where(inside > 0, _MIXED, np.cumsum(inside) - limits.size // 2).astype(np.int32)
        for array in (limits, guide):
            array.setflags(write=False)
        return cls(spec, limits, guide)

    def draw(self, stream_key: bytes, start: int, count: int) -> NDArray[np.int64]:
        """Noise (persons) at the positions `start` to `start + count` of a stream, `(count,)` int64.

        It is a function of the key and the position: however the positions are cut into batches, the noise is the same.

        Raises:
            ValueError: the positions are not within 0 and `POSITIONS`, or the key is not 32 bytes.
        """
        if start < 0 or count < 0 or start + count > POSITIONS:
            raise ValueError(f"noise: found start = {start}, count = {count}; positions from 0 to 2^63 are allowed")
        stream = Stream(draws_key(stream_key))
        out = np.empty(count, dtype=np.int64)
        scratch = _Scratch.make(count)
        for first in range(0, count, _CHUNK):
            piece = out[first : first + _CHUNK]
            words = piece.view(np.uint64)
            stream.fill(start + first, words)
            for i, word in self._replace(words, piece, scratch):
                piece[i] = decide(self.spec, word, further_words(stream_key, start + first + i))
        return out

    def draw_at(self, stream_key: bytes, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The noise (persons) that `draw` gives at some positions, `(n,)` int64.

        Raises:
            ValueError: a position is negative, or the key is not 32 bytes.
        """
        words = Stream(draws_key(stream_key)).words_at(positions)
        return self.draw_from(words, lambda i: further_words(stream_key, int(positions[i])))

    def draw_from(self, words: NDArray[np.uint64], further: FurtherWords) -> NDArray[np.int64]:
        """Noise (persons) for given first words `(n,)` uint64, `(n,)` int64.

        Args:
            words: uniform 64-bit words, one for each draw.
            further: called with the position in `words` of each draw that its first word does not decide.
        """
        out = np.empty(words.size, dtype=np.int64)
        scratch = _Scratch.make(words.size)
        for first in range(0, words.size, _CHUNK):
            piece = out[first : first + _CHUNK]
            for i, word in self._replace(words[first : first + _CHUNK], piece, scratch):
                piece[i] = decide(self.spec, word, further(first + i))
        return out

    def _replace(self, words: NDArray[np.uint64], out: NDArray[np.int64], scratch: _Scratch) -> list[tuple[int, int]]:
        """Write the outcomes of `words` to `out`, which may be the same memory; index and word of those undecided."""
        buckets, values = scratch.buckets[: words.size], scratch.values[: words.size]
        np.right_shift(words, np.uint64(WORD_BITS + 1 - self.guide.size.bit_length()), out=buckets)
        # mode="clip" spares a buffer; no index is out of range.
        np.take(self.guide, buckets.view(np.int64), out=values, mode="clip")
        mixed = np.flatnonzero(values == _MIXED)
        if mixed.size == 0:
            out[:] = values
            return []
        searched = words[mixed]
        below = np.searchsorted(self.boundaries, searched)  # number of boundaries below the word
        out[:] = values
        out[mixed] = below - self.boundaries.size // 2
        tied = np.flatnonzero(self.boundaries[below] == searched)
        return list(zip(mixed[tied].tolist(), searched[tied].tolist(), strict=True))


@lru_cache(maxsize=128)
def sampler_for(spec: NoiseSpec) -> Sampler:
    """The sampler of `spec`, built once in a process and shared."""
    return Sampler.build(spec)


def decide(spec: NoiseSpec, word: int, further: Iterator[int]) -> int:
    """The noise whose uniform begins with `word` and continues with the words of `further`.

    Raises:
        RuntimeError: 64 words do not decide; a sound stream does not do this in the lifetime of the universe.
    """
    digits, bits = word, WORD_BITS
    for _ in range(_MOST_WORDS):
        digits, bits = digits << WORD_BITS | next(further), bits + WORD_BITS
        outcome = locate(_refined(spec, bits), digits, bits)
        if outcome is not None:
            return outcome
    raise RuntimeError(f"noise ({spec}): {_MOST_WORDS} further words left a draw undecided: the stream is not random")


def locate(table: Tails, digits: int, bits: int) -> int | None:
    """The outcome for U in [digits, digits + 1) / 2^bits; None where the enclosures or the table do not decide.

    For U below a half, X <= -k exactly if U < T(k). For the others X >= k exactly if 1 - U <= T(k), and 1 - U is in
    (mirrored, mirrored + 1] / 2^bits.
    """
    upper_half = digits >> (bits - 1)
    mirrored = (1 << bits) - 1 - digits if upper_half else digits
    shift = table.bits - bits
    low, high = mirrored << shift, (mirrored + 1) << shift
    certain = bisect_right(table.lower, -high, lo=1, key=neg) - 1  # k >= 1 with T(k) surely reached
    possible = bisect_left(table.upper, -low, lo=1, key=neg) - 1  # k >= 1 with T(k) perhaps reached
    if certain < possible or certain == len(table.lower) - 1:
        return None
    return certain if upper_half else -certain


@dataclass(frozen=True, eq=False)
class _Scratch:
    """Arrays used again for each chunk."""

    buckets: NDArray[np.uint64]
    values: NDArray[np.int32]

    @classmethod
    def make(cls, count: int) -> _Scratch:
        size = min(count, _CHUNK)
        return cls(np.empty(size, dtype=np.uint64), np.empty(size, dtype=np.int32))


@lru_cache(maxsize=2)
def _refined(spec: NoiseSpec, depth: int) -> Tails:
    return spec.tails(depth)
