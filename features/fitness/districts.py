"""Redistricting: how equal the districts of a plan are, and in which a group is the majority; what noise may change.

The total deviation is the largest district's population less the smallest's, in percent of the ideal, their mean
(Karcher v. Daggett, 1983). Below 10 % a state's legislative districts are taken to be equal without a reason (Brown v.
Thomson, 1983). A district is one with a majority of a group if the group has more than half of its people, or of those
of voting age (Bartlett v. Strickland, 2009).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.fitness.decisions import beyond_zero

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

#: Percent of the ideal up to which districts are taken to be equal; what may be the truth, drawn so often.
EQUAL, DRAWN = 10.0, 4_000


@dataclass(frozen=True)
class District:
    """One district: its people as published, the standard deviation of their error, and the truth if it is known."""

    name: str
    published: int
    spread: float | None
    truth: int | None


@dataclass(frozen=True)
class Majority:
    """Whether a group has the majority in one district.

    Attributes:
        share, true_share: of the district's people, percent; the truth None where it is not known.
        flip: probability that the truth is on the other side of one half; None where nothing is known of the error.
        flipped: whether it is; None where it is not known.
    """

    group: str
    district: str
    share: float
    flip: float | None
    true_share: float | None
    flipped: bool | None


@dataclass(frozen=True)
class PlanFitness:
    """A plan judged.

    Attributes:
        deviation: total deviation of the published numbers, percent.
        low, high: the ends of the interval that holds the true one with 90 %; None where nothing is known of errors.
        unequal: probability that the true one is above `EQUAL`.
        true_deviation: None where it is not known.
        majorities: of each group in each district.
    """

    source: str
    ideal: float
    deviation: float
    low: float | None
    high: float | None
    unequal: float | None
    true_deviation: float | None
    districts: tuple[District, ...]
    majorities: tuple[Majority, ...]

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        return vars(self) | {
            "districts": [vars(district) for district in self.districts],
            "majorities": [vars(majority) for majority in self.majorities],
        }


def total_deviation(people: NDArray[np.generic]) -> Floats:
    """Total deviation in percent of the ideal, of districts `(..., n)`; 0 where nobody lives."""
    numbers = np.asarray(people, dtype=np.float64)
    ideal = numbers.mean(axis=-1)
    gap = numbers.max(axis=-1) - numbers.min(axis=-1)
    return np.asarray(np.where(ideal > 0, 100 * gap / np.where(ideal > 0, ideal, 1.0), 0.0))


def drawn_populations(people: Counts, variances: Floats, whole: float, seed: int) -> Floats:
    """What the districts' people `(n,)` may be: `(DRAWN, n)`, normal, around what is published.

    The errors are independent but for their sum, which has the variance `whole`: where the whole population is exact,
    what one district has too many, the others have too few.
    """
    rng = np.random.default_rng(seed)
    errors = rng.standard_normal((DRAWN, len(people))) * np.sqrt(variances)
    of_sum = rng.standard_normal(DRAWN) * np.sqrt(whole)
    added = variances.sum()
    if added > 0:
        errors += (of_sum - errors.sum(axis=1))[:, None] * (variances / added)
    return people + errors


def judged_plan(
    source: str,
    names: Sequence[str],
    people: Counts,
    variances: Floats,
    whole: float,
    truth: Counts | None = None,
    majorities: Sequence[Majority] = (),
    seed: int = 1,
) -> PlanFitness:
    """Judge how equal districts are.

    Args:
        people: `(n,)` published.
        variances: `(n,)` of their errors, persons squared; NaN where not known.
        whole: variance of the error of all of them together.
        truth: `(n,)` if known.
        seed: of the draws.
    """
    low = high = unequal = None
    if not np.isnan(variances).any() and not np.isnan(whole):
        drawn = total_deviation(drawn_populations(people, variances, whole, seed))
        low, high = (float(end) for end in np.quantile(drawn, [0.05, 0.95]))
        unequal = float((drawn > EQUAL).mean())
    spreads = np.sqrt(variances)
    return PlanFitness(
        source=source,
        ideal=float(people.mean()),
        deviation=float(total_deviation(people)),
        low=low,
        high=high,
        unequal=unequal,
        true_deviation=None if truth is None else float(total_deviation(truth)),
        districts=tuple(
            District(
                name,
                int(people[row]),
                None if np.isnan(spreads[row]) else float(spreads[row]),
                None if truth is None else int(truth[row]),
            )
            for row, name in enumerate(names)
        ),
        majorities=tuple(majorities),
    )


def majorities(
    group: str,
    names: Sequence[str],
    numbers: tuple[Counts, Counts],
    variances: Floats,
    truth: tuple[Counts, Counts] | None = None,
) -> list[Majority]:
    """Judge in which districts a group has the majority.

    Args:
        group: in words.
        names: of the districts.
        numbers: `(n,)` published members of the group, and people among whom they may be the majority.
        variances: `(n,)` of the error of members less half the people; NaN where not known.
        truth: `numbers` in truth, if known.
    """
    excess = numbers[0] - numbers[1] / 2
    flips = beyond_zero(excess, np.sqrt(variances))
    shares = _percent(*numbers)
    true = None if truth is None else (_percent(*truth), truth[0] - truth[1] / 2)
    return [
        Majority(
            group=group,
            district=name,
            share=float(shares[row]),
            flip=None if np.isnan(flips[row]) else float(flips[row]),
            true_share=None if true is None else float(true[0][row]),
            flipped=None if true is None else bool((true[1][row] > 0) != (excess[row] > 0)),
        )
        for row, name in enumerate(names)
    ]


def _percent(part: Counts, whole: Counts) -> Floats:
    return np.asarray(100 * part / np.maximum(whole, 1))
