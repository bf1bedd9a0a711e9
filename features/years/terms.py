"""The terms of a series: how its numbers are mixed, and what people lose; found once, and then stated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

from features.years.design import STATED_SPELLS, Design
from geography.errors import InputError
from pipeline.model.series import Counted, Loss
from pipeline.privacy.budget import MOVED, Neighbours

__all__ = ["Found", "Independent", "Stated", "found", "terms_of"]


@dataclass(frozen=True)
class Independent:
    """Each period has noise of its own: two histories are as far apart as in so many releases, whatever their spells.

    Where a person has a record in at most so many of them, it is as far as in so many.

    Attributes:
        periods: how many.
        records: of a person at most; None for one in every period.
    """

    periods: int
    records: int | None = None

    @property
    def counted(self) -> Counted:
        """See `SeriesTerms.counted`."""
        return "spell" if self.records is None else "record"

    @property
    def spells(self) -> int:
        """See `SeriesTerms.spells`: as many as there can be."""
        return self.periods if self.records is None else self.records

    @property
    def distance(self) -> Fraction:
        """See `SeriesTerms.distance`."""
        return Fraction(self.spells)

    @property
    def losses(self) -> Mapping[int, Loss]:
        """See `SeriesTerms.losses`: of each record the same part."""
        numbers = () if self.records is None else (*STATED_SPELLS, self.records)
        stated = sorted({k for k in (*numbers, self.periods) if k <= self.periods})
        return {k: Loss(Fraction(k, self.spells), True) for k in stated}

    @property
    def design(self) -> tuple[tuple[int, ...], ...]:
        """See `SeriesTerms.design`: nothing is mixed."""
        return ()


@dataclass(frozen=True)
class Stated:
    """What a release states; `problems` compares it with what follows from the design. See `SeriesTerms`."""

    counted: ClassVar[Counted] = "spell"
    spells: int
    design: tuple[tuple[int, ...], ...]
    distance: Fraction
    losses: Mapping[int, Loss]

    def __post_init__(self) -> None:
        if self.distance <= 0 or not self.losses:
            raise ValueError("the terms of a series have a distance above 0, and what people lose")
        if [len(row) for row in self.design] != list(range(1, len(self.design) + 1)):
            raise ValueError("the design of a series has rows of 1, 2 ... numbers")
        if any(row[-1] < 1 for row in self.design):
            raise ValueError("the design of a series has numbers above 0 on its diagonal")


@dataclass(frozen=True)
class Found:
    """Those of a design that a solver finds when it is asked for."""

    counted: ClassVar[Counted] = "spell"
    periods: int
    spells: int
    neighbours: Neighbours

    @cached_property
    def _terms(self) -> Stated:
        from features.years.best import best  # brings cvxpy

        return found(best(self.periods, self.spells, self.neighbours))

    @property
    def distance(self) -> Fraction:
        """See `SeriesTerms.distance`."""
        return self._terms.distance

    @property
    def losses(self) -> Mapping[int, Loss]:
        """See `SeriesTerms.losses`."""
        return self._terms.losses

    @property
    def design(self) -> tuple[tuple[int, ...], ...]:
        """See `SeriesTerms.design`."""
        return self._terms.design


@lru_cache(maxsize=8)
def terms_of(periods: int, spells: int, neighbours: Neighbours) -> Found:
    """The best terms for so many spells; one object for all who ask, since to find them takes seconds."""
    return Found(periods, spells, neighbours)


@lru_cache(maxsize=8)
def found(design: Design) -> Stated:
    """What follows from a design."""
    losses = {spells: Loss(Fraction(cost.value), cost.exact) for spells, cost in design.costs().items()}
    return Stated(design.spells, design.rows, Fraction(design.reach.value) / MOVED[design.neighbours], losses)


def problems(terms: Stated, neighbours: Neighbours) -> list[str]:
    """What of stated terms does not follow from their design, a sentence each without its full stop."""
    try:
        due = found(Design(terms.design, terms.spells, neighbours))
    except InputError as error:
        return [str(error)]
    if terms.distance != due.distance:
        return [f"two histories are {due.distance} apart by the design, and {terms.distance} is stated"]
    wrong = sorted(k for k in terms.losses.keys() | due.losses.keys() if terms.losses.get(k) != due.losses.get(k))
    return [f"what people with {k} spells lose is not what the design gives" for k in wrong]
