"""Choosing privately, in each geounit of a level, how detailed a version of a table its population supports.

A table comes in nested versions, the first the coarsest, each with the least population that it is meant for: ten race
groups from 0 people on, all 63 from 500 on. Which version a geounit gets must not give its population away, so it is
chosen by the exponential mechanism; the choice is published and charged, and the version chosen is then measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from geography.errors import InputError
from pipeline.privacy.budget import MOVED, Framework, Neighbours, rounded_text
from pipeline.privacy.noise.exponential import Exponential

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
