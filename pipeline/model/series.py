"""That a release is one of a series: releases of the same people over time, whose noise is paid for together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, Protocol

__all__ = ["FIRST", "Counted", "Loss", "SeriesPeriod", "SeriesTerms"]

#: What of a person bounds what it loses: in how many answers it is, one after the other, or how many records it has.
Counted = Literal["spell", "record"]
#: In place of the hash of a release before.
FIRST: Final = "first"


@dataclass(frozen=True)
class Loss:
    """What a person may lose over a whole series, as a part of its budget.

    Attributes:
        part: at most so much.
        exact: whether somebody can lose that much; else it is a bound.
    """

    part: Fraction
    exact: bool


class SeriesTerms(Protocol):
    """How the noise of a series is made, and what that costs; may take a while to find where nothing states it."""

    @property
    def counted(self) -> Counted:
        """Of what a person has so many."""

    @property
    def spells(self) -> int:
        """With so many in one answer each, or so many records, a person loses no more than the budget."""

    @property
    def distance(self) -> Fraction:
        """How far apart two histories of so many spells are in the numbers of all periods.

        The squared distance, in that of two inputs that differ in one record of one period.
        """

    @property
    def losses(self) -> Mapping[int, Loss]:
        """Number of spells, or records -> what a person with so many loses; the last is as many as there can be."""

    @property
    def design(self) -> tuple[tuple[int, ...], ...]:
        """By how much each period is multiplied in the numbers of each, row t has t numbers; () where none is mixed."""


@dataclass(frozen=True)
class SeriesPeriod:
    """The place of a release in a series.

    Attributes:
        name: of the series.
        periods: names of all of its periods, in order.
        number: of the release's own, from 0.
        predecessor: hash of the release before; `FIRST` of the first one.
        terms: of the series.
    """

    name: str
    periods: tuple[str, ...]
    number: int
    predecessor: str
    terms: SeriesTerms

    def __post_init__(self) -> None:
        if not 0 <= self.number < len(self.periods) or not self.name or not self.predecessor:
            raise ValueError(f"a place in a series has a name, a period of it and a predecessor, got {self}")

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
        terms = self.terms
        rows = [list(row) for row in terms.design]
        return ["series", self.name, list(self.periods), terms.spells, str(terms.distance), rows]

    @property
    def own(self) -> list[object]:
        """What is this release's alone, as JSON."""
        return ["period", self.number, self.predecessor]

    @property
    def horizon(self) -> str:
        """First and last period in words."""
        return f"{self.periods[0]} to {self.periods[-1]}" if len(self.periods) > 1 else self.periods[0]
