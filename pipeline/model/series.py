"""That a release is one of a series: releases of the same people over time, whose noise is paid for together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["Loss", "SeriesPeriod"]


@dataclass(frozen=True)
class Loss:
    """What a person may lose over a whole series, as a part of its budget.

    Attributes:
        part: at most so much.
        exact: whether somebody can lose that much; else it is a bound.
    """

    part: Fraction
    exact: bool


@dataclass(frozen=True)
class SeriesPeriod:
    """The place of a release in a series.

    Attributes:
        name: of the series.
        periods: names of all of its periods, in order.
        number: of the release's own, from 0.
        predecessor: hash of the release before; "first" of the first one.
        spells: with so many in one answer each, a person loses no more than the budget.
        distance: how far two histories of so many spells are apart in the numbers of all periods: the squared distance
            in that of two inputs that differ in one record of one period.
        losses: number of spells -> what a person with so many loses; the last is one in another answer in every period.
        design: by how much each period is multiplied in the numbers of each; row t has t numbers.
    """

    name: str
    periods: tuple[str, ...]
    number: int
    predecessor: str
    spells: int
    distance: Fraction
    losses: Mapping[int, Loss]
    design: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not 0 <= self.number < len(self.periods) or not self.name or not self.predecessor:
            raise ValueError(f"a place in a series has a name, a period of it and a predecessor, got {self}")
        if self.distance <= 0 or len(self.design) != len(self.periods):
            raise ValueError("a series has a distance above 0, and a row of its design for each period")

    @property
    def period(self) -> str:
        """The name of the release's own period."""
        return self.periods[self.number]

    @property
    def opens(self) -> bool:
        """Whether it is the first: what the whole series costs is charged with it."""
        return self.number == 0

    @property
    def whole(self) -> list[object]:
        """What is the same of all its releases, as JSON."""
        rows = [list(row) for row in self.design]
        return ["series", self.name, list(self.periods), self.spells, str(self.distance), rows]

    @property
    def own(self) -> list[object]:
        """What is this release's alone, as JSON."""
        return ["period", self.number, self.predecessor]

    @property
    def horizon(self) -> str:
        """First and last period in words."""
        return f"{self.periods[0]} to {self.periods[-1]}" if len(self.periods) > 1 else self.periods[0]
