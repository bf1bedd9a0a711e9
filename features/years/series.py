"""A series: its periods, its terms, and where the numbers of its releases come from."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, Final, Literal

from features.years.design import STATED_SPELLS, Design
from geography.errors import InputError
from pipeline.model.mixed import MixedNoise, Unmixed
from pipeline.model.series import Counted, Loss, SeriesPeriod
from pipeline.model.source import OwnNoise, Wanted
from pipeline.model.texts.message import marked
from pipeline.privacy.budget import MOVED, Neighbours
from pipeline.privacy.noise.mechanism import NoiseSpec
from postprocess.arrays import IntArray

Step = Literal["year", "quarter", "month", "day"]
#: Of each step the form of its periods, as SDMX writes them in TIME_PERIOD.
STEPS: Final[dict[Step, tuple[str, str]]] = {
    "year": (r"[0-9]{4}", "2031"),
    "quarter": (r"[0-9]{4}-Q[1-4]", "2031-Q1"),
    "month": (r"[0-9]{4}-(0[1-9]|1[0-2])", "2031-01"),
    "day": (r"[0-9]{4}-[0-9]{2}-[0-9]{2}", "2031-01-01"),
}
_A_YEAR: Final[dict[Step, int]] = {"year": 1, "quarter": 4, "month": 12}


@dataclass(frozen=True)
class Series:
    """The periods of a series, all of which are paid for when it is opened.

    Attributes:
        name: of the series.
        first, last: periods in the form of the step, such as "2031", "2031-Q1", "2031-01" or "2031-01-01".
        step: from one period to the next.

    Raises:
        InputError: a period is none of the step's, or the last is before the first.

    >>> Series("padron", "2031-Q3", "2032-Q1", "quarter").periods
    ('2031-Q3', '2031-Q4', '2032-Q1')
    """

    name: str
    first: str
    last: str
    step: Step = "year"

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("series: found no name")
        if self.step not in STEPS:
            raise InputError(f"step of series {self.name!r}: found {self.step!r}; allowed are {', '.join(STEPS)}")
        begun, ended = (self._ordinal(period) for period in (self.first, self.last))
        if ended < begun:
            raise InputError(f"series {self.name!r}: found {self.last} as its last period, before {self.first}")

    @cached_property
    def periods(self) -> tuple[str, ...]:
        """All of them, first to last."""
        begun, ended = self._ordinal(self.first), self._ordinal(self.last)
        return tuple(self._label(ordinal) for ordinal in range(begun, ended + 1))

    def number(self, period: str) -> int:
        """Which period that is, from 0.

        Raises:
            InputError: the series has no such period.
        """
        ordinal = self._ordinal(period) - self._ordinal(self.first)
        if not 0 <= ordinal < len(self.periods):
            raise InputError(
                f"period {period}: series {self.name!r} has {self.first} to {self.last}; "
                "what comes after is another series with a budget of its own"
            )
        return ordinal

    def days(self, period: str) -> tuple[str, str]:
        """First and last day of a period.

        >>> Series("padron", "2031-Q1", "2031-Q4", "quarter").days("2031-Q2")
        ('2031-04-01', '2031-06-30')
        """
        ordinal = self._ordinal(period)
        if self.step == "day":
            return period, period
        months = 12 // _A_YEAR[self.step]
        year, part = divmod(ordinal, _A_YEAR[self.step])
        first, last = part * months + 1, (part + 1) * months
        return f"{year:04d}-{first:02d}-01", f"{year:04d}-{last:02d}-{monthrange(year, last)[1]}"

    def _ordinal(self, period: str) -> int:
        form, example = STEPS[self.step]
        allowed = f"a {self.step} of series {self.name!r} is written as {example}"
        if re.fullmatch(form, period, re.ASCII) is None:
            raise InputError(f"period: found {period!r}; {allowed}")
        if self.step == "day":
            try:
                return date.fromisoformat(period).toordinal()
            except ValueError:
                raise InputError(f"period: found {period!r}, which is no day; {allowed}") from None
        year, part = int(period[:4]), int(period[5:].lstrip("Q") or 1)
        return year * _A_YEAR[self.step] + part - 1

    def _label(self, ordinal: int) -> str:
        if self.step == "day":
            return (date.min + timedelta(days=ordinal - 1)).isoformat()
        year, part = divmod(ordinal, _A_YEAR[self.step])
        return f"{year:04d}" + {"year": "", "quarter": f"-Q{part + 1}", "month": f"-{part + 1:02d}"}[self.step]


@dataclass(frozen=True)
class StatedTerms:
    """What a release states; `problems` compares it with what follows from the design. See `SeriesTerms`."""

    spells: int
    design: tuple[tuple[int, ...], ...]
    distance: Fraction
    losses: Mapping[int, Loss]
    counted: Counted = "spell"

    def __post_init__(self) -> None:
        if self.distance <= 0 or not self.losses:
            raise ValueError("the terms of a series have a distance above 0, and what people lose")
        if [len(row) for row in self.design] != list(range(1, len(self.design) + 1)):
            raise ValueError("the design of a series has rows of 1, 2 ... numbers")
        if any(row[-1] < 1 for row in self.design):
            raise ValueError("the design of a series has numbers above 0 on its diagonal")


def independent_terms(periods: int, records: int | None = None) -> StatedTerms:
    """Each period has noise of its own: two histories are as far apart as in so many releases, whatever their spells.

    Where a person has a record in at most so many of them, it is as far as in so many, and of each the same part.

    Args:
        periods: how many.
        records: of a person at most; None for one in every period.
    """
    most = periods if records is None else records
    numbers = () if records is None else (*STATED_SPELLS, records)
    losses = {k: Loss(Fraction(k, most), True) for k in sorted({*numbers, periods}) if k <= periods}
    return StatedTerms(most, (), Fraction(most), losses, "spell" if records is None else "record")


@dataclass(frozen=True)
class SolvedTerms:
    """Those of a design that a solver finds when it is asked for."""

    counted: ClassVar[Counted] = "spell"
    periods: int
    spells: int
    neighbours: Neighbours

    @property
    def _terms(self) -> StatedTerms:
        return _solved(self.periods, self.spells, self.neighbours)

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
def _solved(periods: int, spells: int, neighbours: Neighbours) -> StatedTerms:
    """The best terms for so many spells, once for all who ask: to find them takes seconds."""
    from features.years.best import best  # brings cvxpy

    return found(best(periods, spells, neighbours))


@lru_cache(maxsize=8)
def found(design: Design) -> StatedTerms:
    """What follows from a design."""
    losses = {spells: Loss(Fraction(cost.value), cost.exact) for spells, cost in design.costs().items()}
    return StatedTerms(design.spells, design.rows, Fraction(design.reach.value) / MOVED[design.neighbours], losses)


def problems(terms: StatedTerms, neighbours: Neighbours) -> list[str]:
    """What of stated terms does not follow from their design, a sentence each without its full stop."""
    try:
        due = found(Design(terms.design, terms.spells, neighbours))
    except InputError as error:
        return [str(error)]
    if terms.distance != due.distance:
        return [f"two histories are {due.distance} apart by the design, and {terms.distance} is stated"]
    wrong = sorted(k for k in terms.losses.keys() | due.losses.keys() if terms.losses.get(k) != due.losses.get(k))
    return [f"what people with {k} spells lose is not what the design gives" for k in wrong]


#: What metadata call a file of mixed numbers.
_MIXED = marked("{query}: noisy answers as they were published, with those of earlier periods mixed in")
#: The numbers of a file are the counts times the last number of its row.
_OF_COUNTS = marked("Variance of each count that is made from them")
_REFUSALS: dict[Wanted, str] = {
    "question": "no question can be asked yet on records of a release in a series",
    "sum": "no sum can be measured yet of a release in a series",
    "elsewhere": "the measurements of a release in a series are made by its own run",
    "audit": "the trials of this audit do not know series; `python -P -m auditor` audits the release",
}
_NO_COUNTS = "its noisy answers are of several periods, mixed; the counts that follow from them are in estimates"


@dataclass(frozen=True)
class Periods(OwnNoise):
    """Each period has noise of its own, for a part of the budget.

    Attributes:
        series: the place of the release.
    """

    series: SeriesPeriod

    def refusal(self, wanted: Wanted) -> str:
        """See `Source.refusal`."""
        return _REFUSALS.get(wanted, "")


@dataclass(frozen=True)
class MixedPeriods(Periods):
    """The numbers of periods are mixed, so that people with few spells lose less than in independent releases."""

    @property
    def row(self) -> tuple[int, ...]:
        """By how much each period so far is multiplied."""
        return self.series.terms.design[self.series.number]

    def refusal(self, wanted: Wanted) -> str:
        """See `Source.refusal`."""
        return _NO_COUNTS if wanted == "noisy counts" else super().refusal(wanted)

    def on_counts(self, drawn: NoiseSpec) -> MixedNoise:
        """See `Source.on_counts`."""
        return MixedNoise(drawn, self.row, counts_variance(self.series.terms.design, self.series.number))

    def to_counts(self, level: str, sizes: IntArray | None) -> Unmixed:  # noqa: ARG002
        """See `Source.to_counts`."""
        return Unmixed(self.row[-1])

    def stored(self, level: str) -> tuple[str, str]:  # noqa: ARG002
        """See `Source.stored`."""
        return _MIXED, _OF_COUNTS


@lru_cache(maxsize=64)
def counts_variance(design: tuple[tuple[int, ...], ...], number: int) -> Fraction:
    """(G^-1)_tt of a period, exact: the variance of its counts in that of what is drawn.

    That is the sum of the squares of row t of L^-1, which solves r L = e_t from the last to the first.
    """
    solved: dict[int, Fraction] = {}
    for column in range(number, -1, -1):
        due = Fraction(1 if column == number else 0)
        later = sum((solved[row] * design[row][column] for row in range(column + 1, number + 1)), Fraction(0))
        solved[column] = (due - later) / design[column][column]
    return sum((one * one for one in solved.values()), Fraction(0))
