"""Mechanisms that choose, exact to the last bit: exponential, permute-and-flip, and of versions of a table.

Exponential mechanism: the probabilities are exp(-epsilon loss / 2) over their sum, for whole-number losses. As in
`sampler`, a choice is the inverse of the cumulative distribution at a uniform from a keyed stream: its first 64-bit
word decides unless it falls on a word that the enclosures of the cumulative probabilities do not decide, one or two for
each candidate. In that case further words of the stream follow, at higher precision. No float takes part, so there is
no softmax whose rounding could give a candidate away (Mironov 2012; Ilvento 2020, arXiv 1912.04222).

Permute-and-flip: the candidates come in a random order. For each a coin is tossed that shows heads with probability
exp(-epsilon u / 2), u its loss above the least of all; the first with heads is chosen. Here each candidate has two
uniforms from a keyed stream, its coin and its turn, and of all with heads the one with the least turn is chosen. A
64-bit word decides unless it falls on the one that the enclosure of a coin's probability does not decide, or is the
turn of two. In that case further words of the stream follow, at higher precision. No float takes part.

`Select`: how detailed a version of a table the population of each geounit of a level supports is chosen privately. A
table comes in nested versions, the first the coarsest, each with the least population that it is meant for: ten race
groups from 0 people on, all 63 from 500 on. Which version a geounit gets must not give its population away, so it is
chosen by the exponential mechanism; the choice is published and charged, and the version chosen is then measured.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, islice, pairwise
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from geography.errors import InputError
from pipeline.privacy.budget import MOVED, Framework, Neighbours, exact, rounded_text
from pipeline.privacy.keys import draws_key
from pipeline.privacy.noise.mechanism import Losses, Mechanism
from pipeline.privacy.noise.streams import Enclosure, Stream, divide, exp_minus, further_words

_WORD_BITS: Final = 64
_GUARD_BITS: Final = 64
_POSITIONS: Final = 2**63
_MOST_WORDS: Final = 64
_LARGEST_LOSS: Final = 2**61
#: With which what is chosen has a larger loss than is told.
_FAR: Final = 0.1
_LAST_WORD: Final = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class Choice(Mechanism):
    """A choice of one of k candidates, for each geounit its own, with the parameter epsilon, `scale`.

    Attributes:
        by: what chooses, in sentences.
        share: each of the k - 1 candidates with a loss of t or more is chosen with so many times exp(-e t / 2) at most.
    """

    by: ClassVar[str]
    share: ClassVar[float]
    symbol = "epsilon"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", exact(self.scale, f"{self.called}: epsilon"))
        if self.scale <= 0:
            raise InputError(f"{self.called}: found epsilon = {self.scale}; it must be above 0")

    def epsilon(self, moved: int) -> Fraction:
        """The parameter epsilon times m, where losses of m geounits move."""
        return moved * self.scale

    def privacy_losses(self, step: float) -> Losses:
        """Of randomised response, of which any private mechanism is made (Kairouz, Oh and Viswanath 2015)."""
        from dp_accounting.pld import common
        from dp_accounting.pld import privacy_loss_distribution as losses

        epsilon = math.nextafter(float(self.scale), math.inf)
        return Losses.of(losses.from_privacy_parameters(common.DifferentialPrivacyParameters(epsilon, 0), step))

    @abstractmethod
    def probabilities(self, losses: Sequence[int]) -> tuple[float, ...]:
        """Of each candidate, to float precision; for reports and tests, nothing is drawn with them."""

    @abstractmethod
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

    def loss_within(self, candidates: int, times: int) -> int:
        """The least whole t so that a loss of t or more, of losses taken so often, is chosen with 10 % at most."""
        weight = (candidates - 1) * self.share / _FAR
        return math.ceil(2 * math.log(weight) / float(self.scale * times) + 1e-9)

    def _check(self, losses: NDArray[np.int64]) -> None:
        """ValueError where there are no candidates, or losses are too large."""
        if losses.ndim != 2 or losses.shape[1] == 0:
            raise ValueError(f"{self.called}: found losses of shape {losses.shape}; a row a geounit is needed")
        if losses.size and (losses.min() < -_LARGEST_LOSS or losses.max() > _LARGEST_LOSS):
            raise ValueError(f"{self.called}: found a loss beyond 2^61")


@dataclass(frozen=True)
class Exponential(Choice):
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

    mechanism = "exponential"
    called, by = "exponential mechanism", "the exponential mechanism"
    share = 1.0

    def rho(self, moved: int) -> Fraction:
        """The loss rho = m epsilon^2 / 8 where losses move by at most m (Cesar and Rogers 2021)."""
        return moved * self.scale**2 / 8

    def probabilities(self, losses: Sequence[int]) -> tuple[float, ...]:
        """By enclosures."""
        bits = 128
        reduced = [loss - min(losses) for loss in losses]
        ends = [Fraction(low + high, 2 << bits) for low, high in cumulative(self.scale, reduced, bits)]
        return tuple(float(high - low) for low, high in zip([Fraction(0), *ends], [*ends, Fraction(1)], strict=True))

    def draw(self, stream_key: bytes, losses: NDArray[np.int64], start: int = 0) -> NDArray[np.int64]:
        """One word for each geounit, and further ones where it does not decide."""
        self._check(losses)
        if start < 0 or start + len(losses) > _POSITIONS:
            raise ValueError(f"exponential mechanism: found start = {start}; positions from 0 to 2^63 are allowed")
        words = Stream(draws_key(stream_key)).words(start, len(losses))
        if len(losses) == 0:
            return np.empty(0, dtype=np.int64)
        rows, row_of = np.unique(losses - losses.min(axis=1, keepdims=True), axis=0, return_inverse=True)
        row_of = row_of.reshape(-1)
        chosen = np.empty(len(losses), dtype=np.int64)
        order = np.argsort(row_of, kind="stable")
        ends = np.searchsorted(row_of[order], np.arange(len(rows)), side="right")
        for row, members in zip(rows.tolist(), np.split(order, ends[:-1]), strict=True):
            first, last = _undecided_row(self.scale, tuple(row))
            drawn = words[members]
            chosen[members] = np.searchsorted(last, drawn, side="left")
            # Enclosures may touch, never pass one another: a word is undecided if it is at or after the `first` of more
            # candidates than those it surely lies beyond.
            tied = np.searchsorted(first, drawn, side="right") > chosen[members]
            for position in members[tied].tolist():
                chosen[position] = self._refine(stream_key, tuple(row), int(words[position]), start + position)
        return chosen

    def _refine(self, stream_key: bytes, losses: tuple[int, ...], word: int, position: int) -> int:
        digits, bits = word, _WORD_BITS
        for further in islice(further_words(stream_key, position), _MOST_WORDS):
            digits, bits = digits << _WORD_BITS | further, bits + _WORD_BITS
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
def _undecided_row(epsilon: Fraction, losses: tuple[int, ...]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
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


@dataclass(frozen=True)
class PermuteAndFlip(Choice):
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

    mechanism = "permute_and_flip"
    called = by = "permute-and-flip"
    #: A candidate of the weight w has the probability w times an integral over s of factors 1 - s v, v being the weight
    #: of another one. One of them is 1 - s, of the candidate without loss, so that the integral is 1 / 2 at most.
    share = 0.5

    def rho(self, moved: int) -> Fraction:
        """The loss rho = m epsilon^2 / 2 where losses of m geounits move (Bun and Steinke 2016, proposition 1.4).

        For losses that move by at most 1 up or down: where a charge under epsilon counts those that move further as
        several, epsilons are added, and no rho is stated.
        """
        return moved * self.scale**2 / 2

    def probabilities(self, losses: Sequence[int]) -> tuple[float, ...]:
        """By the integral of a polynomial of degree k - 1 without a negative term, by Gauss and Legendre's rule."""
        heads = np.exp([-float(self.scale * (loss - min(losses)) / 2) for loss in losses])
        at, weights = _nodes(len(losses) // 2 + 1)
        tails = np.log1p(-at[:, None] * heads)
        others = np.exp(tails.sum(axis=1, keepdims=True) - tails)
        return tuple((heads * (weights[:, None] * others).sum(axis=0)).tolist())

    def draw(self, stream_key: bytes, losses: NDArray[np.int64], start: int = 0) -> NDArray[np.int64]:
        """Words 2 (k i + j) and 2 (k i + j) + 1 are coin and turn of candidate j at i; 2^63 words at most.

        All geounits of a stream have equally many candidates.
        """
        self._check(losses)
        n, k = losses.shape
        if start < 0 or 2 * k * (start + n) > _POSITIONS:
            raise ValueError(f"permute-and-flip: found start = {start}; 2^63 words from 0 are allowed")
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
    yield from further_words(stream_key, number)


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


_MILLION = 10**6


@dataclass(frozen=True)
class Select:
    """A choice among nested versions for each geounit of one level.

    The loss of a version is how many people the population lacks, or has too many, for that version to be the most
    detailed one supported. One person more or less moves it by at most 1, and moves it in one geounit; a changed record
    that leaves one geounit for another moves it in two. So `budget.MOVED` holds for it as for noise, and a choice
    costs what `Exponential` states. The chance that one of the k versions whose loss is t or more is chosen is at most
    k exp(-epsilon t / 2).

    Attributes:
        name: of the choice; with the level it names the stream that the choices are drawn from.
        versions: (name, least population), coarsest first; the first has least population 0, and they rise.
        epsilon: of the mechanism, exact.

    Raises:
        InputError: a name is not usable or occurs twice, the populations do not rise from 0, or epsilon is not above 0.
    """

    name: str
    versions: tuple[tuple[str, int], ...]
    epsilon: Fraction

    def __post_init__(self) -> None:
        names = [name for name, _ in self.versions]
        if not self.name.isidentifier():
            raise InputError(f"select: {self.name!r} cannot name a choice; allowed are letters, digits and _")
        if not names or len(set(names)) < len(names):
            raise InputError(f"select {self.name}: found the versions {names}; at least one is needed, each once")
        least = [population for _, population in self.versions]
        if least[0] != 0 or any(a >= b for a, b in pairwise(least)):
            raise InputError(f"select {self.name}: found the least populations {least}; they must rise from 0")
        object.__setattr__(self, "epsilon", self.mechanism.scale)  # checked

    @property
    def mechanism(self) -> Exponential:
        """The exponential mechanism that chooses."""
        return Exponential(self.epsilon)

    @property
    def stream_name(self) -> str:
        """What stands for the query in `keys.MasterKey.stream_key`; no query is called so, it has a space in it."""
        return f"select {self.name}"

    @property
    def measured_name(self) -> str:
        """The same for the noise on the versions chosen."""
        return f"selected {self.name}"

    def losses(self, populations: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of each version in each geounit, persons, `(n_geounits, n_versions)` for populations `(n_geounits,)`."""
        least = np.array([population for _, population in self.versions], dtype=np.int64)
        lacking = least[None, :] - populations[:, None]
        most = np.append(least[1:] - 1, np.iinfo(np.int64).max)
        spare = np.where(populations[:, None] > most[None, :], populations[:, None] - most[None, :], 0)
        return np.maximum(np.maximum(lacking, spare), 0)

    def choose(self, stream_key: bytes, populations: NDArray[np.int64], start: int = 0) -> NDArray[np.int64]:
        """The number of the version chosen in each geounit, `(n_geounits,)`.

        Args:
            stream_key: of the level and `stream_name`.
            populations: `(n_geounits,)`, confidential, 0 or more.
            start: position of the first geounit among those of the level.

        Raises:
            ValueError: a population is negative; it is not shown.
        """
        if populations.size and populations.min() < 0:
            raise ValueError(f"select {self.name}: found a negative population")
        return self.mechanism.draw(stream_key, self.losses(populations), start)

    def names(self, chosen: Sequence[int] | NDArray[np.int64]) -> list[str]:
        """The versions' names for the numbers that `choose` gave."""
        return [self.versions[int(number)][0] for number in chosen]


def affordable_epsilon(framework: Framework, amount: Fraction, neighbours: Neighbours) -> Fraction:
    """The largest epsilon of the exponential mechanism that `amount` pays for, exact.

    With rho it is rounded down to millionths, since a root is no fraction: rho = m epsilon^2 / 8 is then at most
    `amount`. With framework "pure", epsilon = amount / m.

    Args:
        framework: "zcdp" or "pure".
        amount: rho or epsilon, above 0.
        neighbours: which inputs are neighbours, and so how far losses move.

    Raises:
        InputError: with rho, it does not pay for a millionth.

    >>> affordable_epsilon("zcdp", Fraction(1, 100), "change-one")
    Fraction(1, 5)
    """
    moved = MOVED[neighbours]
    if framework == "pure":
        return amount / moved
    epsilon = Fraction(math.isqrt(int(8 * amount / moved * _MILLION**2)), _MILLION)
    if not epsilon:
        raise InputError(f"found rho = {rounded_text(amount, 3)} for a choice, which is too little to choose with")
    return epsilon
