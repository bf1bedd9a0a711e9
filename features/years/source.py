"""Where the numbers of a release in a series come from: true counts of its period, and of those before, and noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pipeline.model.mixed import MixedNoise, Unmixed
from pipeline.model.series import SeriesPeriod
from pipeline.model.source import OwnNoise, Wanted
from pipeline.model.texts.message import marked
from pipeline.privacy.budget import NoiseSpec

__all__ = ["MixedPeriods", "Periods", "counts_variance"]

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

    def to_counts(self, level: str, sizes: NDArray[np.int64] | None) -> Unmixed:  # noqa: ARG002
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
