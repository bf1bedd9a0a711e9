"""The exponential mechanism, exact: a choice among candidates with the stated probabilities to the last bit.

The probabilities are exp(-epsilon loss / 2) over their sum, for whole-number losses. As in `sampler`, a choice is the
inverse of the cumulative distribution at a uniform from a keyed stream: its first 64-bit word decides unless it falls
on a word that the enclosures of the cumulative probabilities do not decide, one or two for each candidate. In
that case further words of the stream follow, at higher precision. No float takes part, so there is no softmax whose
rounding could give a candidate away (Mironov 2012; Ilvento 2020, arXiv 1912.04222).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from geography.errors import InputError
from pipeline.privacy.budget import exact
from pipeline.privacy.keys import draws_key, refinement_key
from pipeline.privacy.noise.fixed_point import Enclosure, divide, exp_minus
from pipeline.privacy.noise.streams import Stream

_WORD_BITS: Final = 64
_GUARD_BITS: Final = 64
_POSITIONS: Final = 2**63
_REFINEMENT_WORDS: Final = 2**65  # of one position, as in `sampler`
_MOST_WORDS: Final = 64
_LARGEST_LOSS: Final = 2**61


@dataclass(frozen=True)
class Exponential:
    """Chooses one of k candidates, for each geounit its own, the likelier the smaller its loss.

    Guarantee: the choices published together satisfy epsilon-differential privacy and rho-zCDP with

        epsilon = m e,    rho = m e^2 / 8

    if a change of one record moves the losses of at most m geounits, each loss by at most 1 and up or down.

    Symbols:
        e: `scale`; candidate j is chosen with probability exp(-e u_j / 2) / (the sum of these over all candidates).
        u_j: loss of candidate j in this geounit, a whole number.
        m: how many geounits' losses a change of one record moves.

    Source: McSherry and Talwar 2007 (doi 10.1109/FOCS.2007.66) for epsilon. For rho: the privacy loss has a range at
    most e wide (Durfee and Rogers 2019, arXiv 1905.04273), and a range of e implies e^2 / 8-zCDP (Cesar and Rogers
    2021, arXiv 2004.07223). In short: K(t) = ln of the sum of P^t Q^(1 - t) has K(0) = K(1) = 0 and, by Hoeffding's
    lemma, K'' <= e^2 / 4, so that K(t) <= t (t - 1) e^2 / 8 for t > 1, which is rho-zCDP with rho = e^2 / 8.
    """

    scale: Fraction
    mechanism: ClassVar[Literal["exponential"]] = "exponential"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", exact(self.scale, "exponential mechanism: epsilon"))
        if self.scale <= 0:
            raise InputError(f"exponential mechanism: found epsilon = {self.scale}; it must be above 0")

    def rho(self, moved: int) -> Fraction:
        """The loss rho = m epsilon^2 / 8 where losses move by at most m (Cesar and Rogers 2021)."""
        return moved * self.scale**2 / 8

    def epsilon(self, moved: int) -> Fraction:
        """The parameter epsilon times m, where losses move by at most m."""
        return moved * self.scale

    def probabilities(self, losses: Sequence[int]) -> tuple[float, ...]:
        """Of each candidate, to float precision; for reports and tests, nothing is drawn with them."""
        bits = 128
        reduced = [loss - min(losses) for loss in losses]
        ends = [Fraction(low + high, 2 << bits) for low, high in cumulative(self.scale, reduced, bits)]
        return tuple(float(high - low) for low, high in zip([Fraction(0), *ends], [*ends, Fraction(1)], strict=True))

    def draw(self, stream_key: bytes, losses: NDArray[np.int64], start: int = 0) -> NDArray[np.int64]:
        """The number of the candidate chosen in each geounit, `(n,)`.

        It is a function of the key, the position and the losses there: batches do not matter.

        Args:
            stream_key: 32 bytes; see `MasterKey.stream_key`.
            losses: `(n_geounits, n_candidates)`; only differences within a row count.
            start: position of the first geounit in the stream.

        Raises:
            ValueError: no candidates, losses beyond 2^61, positions not within 0 and 2^63, or a key not 32 bytes long.
        """
        if losses.ndim != 2 or losses.shape[1] == 0:
            raise ValueError(f"exponential mechanism: found losses of shape {losses.shape}; a row a geounit is needed")
        if start < 0 or start + len(losses) > _POSITIONS:
            raise ValueError(f"exponential mechanism: found start = {start}; positions from 0 to 2^63 are allowed")
        if losses.size and (losses.min() < -_LARGEST_LOSS or losses.max() > _LARGEST_LOSS):
            raise ValueError("exponential mechanism: found a loss beyond 2^61")
        words = Stream(draws_key(stream_key)).words(start, len(losses))
        if len(losses) == 0:
            return np.empty(0, dtype=np.int64)
        rows, row_of = np.unique(losses - losses.min(axis=1, keepdims=True), axis=0, return_inverse=True)
        row_of = row_of.reshape(-1)
        chosen = np.empty(len(losses), dtype=np.int64)
        order = np.argsort(row_of, kind="stable")
        ends = np.searchsorted(row_of[order], np.arange(len(rows)), side="right")
        for row, members in zip(rows.tolist(), np.split(order, ends[:-1]), strict=True):
            first, last = _undecided(self.scale, tuple(row))
            drawn = words[members]
            chosen[members] = np.searchsorted(last, drawn, side="left")
            # Enclosures may touch, never pass one another: a word is undecided if it is at or after the `first` of more
            # candidates than those it surely lies beyond.
            tied = np.searchsorted(first, drawn, side="right") > chosen[members]
            for position in members[tied].tolist():
                chosen[position] = self._refine(stream_key, tuple(row), int(words[position]), start + position)
        return chosen

    def _refine(self, stream_key: bytes, losses: tuple[int, ...], word: int, position: int) -> int:
        further = Stream(refinement_key(stream_key))
        digits, bits = word, _WORD_BITS
        for i in range(_MOST_WORDS):
            digits = digits << _WORD_BITS | int(further.words(position * _REFINEMENT_WORDS + i, 1)[0])
            bits += _WORD_BITS
            choice = _locate(cumulative(self.scale, losses, bits + _GUARD_BITS), digits)
            if choice is not None:
                return choice
        raise RuntimeError(f"exponential mechanism: {_MOST_WORDS} further words left a choice undecided")


def cumulative(epsilon: Fraction, losses: Sequence[int], bits: int) -> list[Enclosure]:
    """Enclosures at `bits` bits of P(candidate <= j), for all j but the last; the least of the losses is 0."""
    one = 1 << bits
    weights = [(one, one) if loss == 0 else exp_minus(epsilon * loss / 2, bits) for loss in losses]
    lower = list(accumulate(low for low, _ in weights))
    upper = list(accumulate(high for _, high in weights))
    # Below j at least, all after j at most, and vice versa.
    enclosures = []
    for low, high in zip(lower[:-1], upper[:-1], strict=True):
        least = divide((low, low), (low + upper[-1] - high, low + upper[-1] - high), bits)[0]
        most = divide((high, high), (high + lower[-1] - low, high + lower[-1] - low), bits)[1]
        enclosures.append((least, min(most, one)))
    return enclosures


@lru_cache(maxsize=1 << 16)
def _undecided(epsilon: Fraction, losses: tuple[int, ...]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """For each boundary between candidates, the first and the last word that may lie on either side of it.

    Where the last is before the first, every word is decided. Both rise from boundary to boundary.
    """
    bits = _WORD_BITS + _GUARD_BITS
    enclosures = cumulative(epsilon, losses, bits)
    first = [low >> _GUARD_BITS for low, _ in enclosures]
    last = [max(-(-high >> _GUARD_BITS) - 1, 0) for _, high in enclosures]
    ends = np.array(first, dtype=np.uint64), np.array(last, dtype=np.uint64)
    for array in ends:
        array.setflags(write=False)
    return ends


def _locate(enclosures: list[Enclosure], digits: int) -> int | None:
    """The candidate for U in [digits, digits + 1) / 2^bits; None if unsure. The enclosures have `_GUARD_BITS` more."""
    low, high = digits << _GUARD_BITS, (digits + 1) << _GUARD_BITS
    beyond = sum(1 for _, upper in enclosures if upper <= low)
    return beyond if all(lower >= high for lower, _ in enclosures[beyond:]) else None
