"""Permute-and-flip, exact: a choice among candidates with the probabilities of its definition to the last bit.

The candidates come in a random order. For each a coin is tossed that shows heads with probability exp(-epsilon u / 2),
u its loss above the least of all; the first with heads is chosen. Here each candidate has two uniforms from a keyed
stream, its coin and its turn, and of all with heads the one with the least turn is chosen. A 64-bit word decides unless
it falls on the one that the enclosure of a coin's probability does not decide, or is the turn of two. In that case
further words of the stream follow, at higher precision. No float takes part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from geography.errors import InputError
from pipeline.privacy.budget import exact
from pipeline.privacy.keys import draws_key, refinement_key
from pipeline.privacy.noise.fixed_point import exp_minus
from pipeline.privacy.noise.streams import Stream

_WORD_BITS: Final = 64
_GUARD_BITS: Final = 64
_WORDS: Final = 2**63
_REFINEMENT_WORDS: Final = 2**65  # of one word, as in `noise`
_MOST_WORDS: Final = 64
_LARGEST_LOSS: Final = 2**61
_LAST_WORD: Final = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class PermuteAndFlip:
    """Chooses one of k candidates, for each geounit its own, the likelier the smaller its loss.

    Guarantee: the choices published together satisfy epsilon-differential privacy and rho-zCDP with

        epsilon = m e,    rho = m e^2 / 2

    if a change of one record moves the losses of at most m geounits, each loss by at most 1 and up or down. Of one
    geounit whose losses move by d_j the part of epsilon is e (max d_j - min d_j) / 2.

    Symbols:
        e: `scale`; the coin of candidate j shows heads with probability w_j = exp(-e (u_j - min u) / 2), and j is
            chosen with probability w_j times the integral of the product of 1 - s w_i over all i but j, s from 0 to 1.
        u_j: loss of candidate j in this geounit, a whole number.
        m: how many geounits' losses a change of one record moves.

    Source: McKenna and Sheldon 2020 (arXiv 2010.12603) for epsilon, where losses move by at most 1. For the range: the
    choice is that of the largest X_j - e u_j / 2, X_j exponential with mean 1 (Ding, Kifer, Saghaian, Steinke, Wang,
    Xiao and Zhang 2021, arXiv 2105.07260). Given the other X, j is chosen if X_j exceeds a number that moves by at most
    e (d_j - min d) / 2, and P(X_j > t + s) >= exp(-s) P(X_j > t). For rho: an epsilon-private mechanism is
    epsilon^2 / 2-zCDP (Bun and Steinke 2016, proposition 1.4), here m of e each. Its privacy loss can have a range of
    2 e, so that e^2 / 8 as of `Exponential` does not hold.
    """

    scale: Fraction
    mechanism: ClassVar[Literal["permute_and_flip"]] = "permute_and_flip"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", exact(self.scale, "permute-and-flip: epsilon"))
        if self.scale <= 0:
            raise InputError(f"permute-and-flip: found epsilon = {self.scale}; it must be above 0")

    def rho(self, moved: int) -> Fraction:
        """The loss rho = m epsilon^2 / 2 where losses of m geounits move (Bun and Steinke 2016, proposition 1.4).

        For losses that move by at most 1 up or down: where a charge under epsilon counts those that move further as
        several, epsilons are added, and no rho is stated.
        """
        return moved * self.scale**2 / 2

    def epsilon(self, moved: int) -> Fraction:
        """The parameter epsilon times m, where losses of m geounits move."""
        return moved * self.scale

    def probabilities(self, losses: Sequence[int]) -> tuple[float, ...]:
        """Of each candidate, to float precision; for measurements and tests, nothing is drawn with them.

        The integral is that of a polynomial of degree k - 1 without a negative term, by Gauss and Legendre's rule.
        """
        heads = np.exp([-float(self.scale * (loss - min(losses)) / 2) for loss in losses])
        at, weights = _nodes(len(losses) // 2 + 1)
        tails = np.log1p(-at[:, None] * heads)
        others = np.exp(tails.sum(axis=1, keepdims=True) - tails)
        return tuple((heads * (weights[:, None] * others).sum(axis=0)).tolist())

    def draw(self, stream_key: bytes, losses: NDArray[np.int64], start: int = 0) -> NDArray[np.int64]:
        """The number of the candidate chosen in each geounit, `(n,)`.

        It is a function of the key, the position and the losses there: batches do not matter. All geounits of a stream
        have equally many candidates; words 2 (k i + j) and 2 (k i + j) + 1 are coin and turn of candidate j at i.

        Args:
            stream_key: 32 bytes; see `MasterKey.stream_key`.
            losses: `(n_geounits, n_candidates)`; only differences within a row count.
            start: position of the first geounit in the stream.

        Raises:
            ValueError: no candidates, losses beyond 2^61, more than 2^63 words, or a key not 32 bytes long.
        """
        if losses.ndim != 2 or losses.shape[1] == 0:
            raise ValueError(f"permute-and-flip: found losses of shape {losses.shape}; a row a geounit is needed")
        n, k = losses.shape
        if start < 0 or 2 * k * (start + n) > _WORDS:
            raise ValueError(f"permute-and-flip: found start = {start}; 2^63 words from 0 are allowed")
        if losses.size and (losses.min() < -_LARGEST_LOSS or losses.max() > _LARGEST_LOSS):
            raise ValueError("permute-and-flip: found a loss beyond 2^61")
        words = Stream(draws_key(stream_key)).words(2 * k * start, 2 * losses.size).reshape(n, k, 2)
        if n == 0:
            return np.empty(0, dtype=np.int64)
        above = losses - losses.min(axis=1, keepdims=True)
        found, kind = np.unique(above, return_inverse=True)
        ends = np.array([_undecided(self.scale, loss) for loss in found.tolist()], dtype=np.uint64)
        first, last = (ends[kind.reshape(n, k), end] for end in (0, 1))
        coin, turn = words[:, :, 0], words[:, :, 1]
        heads = (above == 0) | (coin < first)
        turns = np.where(heads, turn, _LAST_WORD)
        chosen = turns.argmin(axis=1)
        least = turns.min(axis=1)
        unsure = ((above != 0) & (coin >= first) & (coin <= last)).any(axis=1) | (least == _LAST_WORD)
        unsure |= (turns == least[:, None]).sum(axis=1) > 1
        for row in np.flatnonzero(unsure).tolist():
            chosen[row] = self._one_by_one(stream_key, above[row].tolist(), 2 * k * (start + row))
        return chosen

    def _one_by_one(self, stream_key: bytes, losses: list[int], first: int) -> int:
        """The choice in one geounit, whose words begin with number `first`, by as many words as it takes."""
        left = [j for j, loss in enumerate(losses) if self._heads(loss, _words(stream_key, first + 2 * j))]
        turns = {j: _words(stream_key, first + 2 * j + 1) for j in left}
        for _ in range(_MOST_WORDS):
            drawn = {j: next(turns[j]) for j in left}
            left = [j for j in left if drawn[j] == min(drawn.values())]
            if len(left) == 1:
                return left[0]
        raise RuntimeError(f"permute-and-flip: {_MOST_WORDS} words left a choice undecided")

    def _heads(self, loss: int, words: Iterator[int]) -> bool:
        """Whether U < exp(-epsilon loss / 2), U having these words as its digits."""
        if loss == 0:
            return True
        digits = bits = 0
        for _ in range(_MOST_WORDS):
            digits, bits = digits << _WORD_BITS | next(words), bits + _WORD_BITS
            low, high = exp_minus(self.scale * loss / 2, bits + _GUARD_BITS)
            if (digits + 1) << _GUARD_BITS <= low:
                return True
            if digits << _GUARD_BITS >= high:
                return False
        raise RuntimeError(f"permute-and-flip: {_MOST_WORDS} words left a coin undecided")


def _words(stream_key: bytes, number: int) -> Iterator[int]:
    """Word `number` of a stream, and those that follow it where it does not decide."""
    yield int(Stream(draws_key(stream_key)).words(number, 1)[0])
    further = Stream(refinement_key(stream_key))
    for i in range(_MOST_WORDS):
        yield int(further.words(number * _REFINEMENT_WORDS + i, 1)[0])


@lru_cache(maxsize=1 << 16)
def _undecided(epsilon: Fraction, loss: int) -> tuple[int, int]:
    """The first and the last word that may be on either side of exp(-epsilon loss / 2).

    Below the first a coin shows heads, after the last tails. Where the last is before the first, all are decided.
    """
    if loss == 0:
        return 0, 0  # heads without a coin
    low, high = exp_minus(epsilon * loss / 2, _WORD_BITS + _GUARD_BITS)
    return low >> _GUARD_BITS, max(-(-high >> _GUARD_BITS) - 1, 0)


@lru_cache(maxsize=16)
def _nodes(n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points from 0 to 1 and their weights, exact for polynomials of degrees below 2 n."""
    at, weights = np.polynomial.legendre.leggauss(n)
    nodes = (at + 1) / 2, weights / 2
    for array in nodes:
        array.setflags(write=False)
    return nodes
