"""What is promised to the people whom a universe counts, and what each use of a mechanism on their records costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from pipeline.privacy.budget import MOVED, Framework, Neighbours
from pipeline.privacy.noise.mechanism import Mechanism


@dataclass(frozen=True)
class MechanismUse:
    """A mechanism that is used on the records: on one query's answers at one level, or to choose there privately.

    Attributes:
        level: its name.
        query: the name of the stream; what statements and the ledger call it.
        attributes: those that the query does not sum out. A choice of detail is made by the number of persons, so it
            has none; what was chosen has those of the most detailed version.
        size: numbers, or choices, in each geounit; of what was chosen, the most that there can be.
        mechanism: with its exact scale, where no geounit stands for others.
        cost: rho or epsilon of the change of one person, exact.
        weight: of a choice by weighted losses, by how much a number that moves by one moves them, at most; else 0.
        chosen: whether it is a private choice of detail, or the noise on what was chosen; no geounit is bypassed by it.
    """

    level: str
    query: str
    attributes: frozenset[str]
    size: int
    mechanism: Mechanism
    cost: Fraction
    weight: int = 0
    chosen: bool = False

    def moving(self, moved: int) -> tuple[Mechanism, int]:
        """The mechanism, and on how many numbers that move by one it is used, where `moved` of them do.

        Losses of a choice with the weight w move by at most w `moved`, as those of one whose epsilon is so many times
        as large move by one.
        """
        if self.weight:
            return replace(self.mechanism, scale=self.mechanism.scale * self.weight * moved), 1
        return self.mechanism, moved


@dataclass(frozen=True)
class Promise:
    """What is promised to the people of one universe, and paid once for all that is drawn of them.

    Attributes:
        framework, neighbours: as of a `pipeline.model.universe.Universe`.
        budget: rho or epsilon of one person's change, exact; what was drawn apart is in it.
        records: of one person, at most.
        reach: how far one record moves a number.
        stretch: how much farther apart two histories are, squared, over a whole series than over one release.
    """

    framework: Framework
    neighbours: Neighbours
    budget: Fraction
    records: int = 1
    reach: int = 1
    stretch: Fraction = Fraction(1)

    def cost(self, mechanism: Mechanism) -> Fraction:
        """Rho or epsilon of one person's change, exact, where the mechanism is used on all numbers of a level.

        rho grows with the square of what a person moves numbers by, epsilon with it (`budget.budget_of_one`).

        Raises:
            ValueError: the mechanism has no epsilon, which a pure promise needs.
        """
        moved, times = MOVED[self.neighbours], self.records * self.reach
        if (cost := mechanism.cost(self.framework, moved)) is None:
            raise ValueError(f"{mechanism}: no pure promise can be kept with it")
        return cost * times ** (2 if self.framework == "zcdp" else 1) * self.stretch
