"""Decisions that compare a count with a fixed number: which areas get money, and how likely noise decides it.

The truth is taken to be normal around the published count. Counts are whole numbers, so that half a person is between
one side of a threshold and the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from pipeline.pages.words import Called

Floats = NDArray[np.float64]

#: Areas whose truth is on the other side with at least this probability are called doubtful; so many are listed.
DOUBTFUL, LISTED = 0.05, 20


@dataclass(frozen=True)
class DoubtfulArea:
    """An area near a threshold; `name` is "" where it has none, `truth` None where it is not known."""

    geocode: str
    name: str
    published: int
    probability: float
    truth: int | None


@dataclass(frozen=True)
class Threshold:
    """A threshold at a level: an area is on one side with `people` or more.

    Attributes:
        level_label: of the level, for people.
        areas, above: of the level, and how many of them have so many people as published.
        expected_wrong: how many are expected to be on the other side in truth.
        doubtful: how many are there with a probability of `DOUBTFUL` or more.
        unknown: areas of whose errors nothing is known; they are left out of the last two.
        lost, gained: areas that truly are above and were published below, and the reverse; None where not known.
        listed: the most doubtful ones.
    """

    universe: str
    level: str
    level_label: str
    people: int
    areas: int
    above: int
    expected_wrong: float
    doubtful: int
    unknown: int
    lost: int | None
    gained: int | None
    listed: tuple[DoubtfulArea, ...]


def beyond_zero(margin: Floats, spread: Floats) -> Floats:
    """The probability that a normal number around `margin` has the other sign; 0 where it is exact, NaN if unknown."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.abs(margin) / spread
    return np.where(spread == 0, 0.0, ndtr(-z))


def threshold(
    universe: str,
    level: str,
    people: int,
    geocodes: NDArray[np.str_],
    published: NDArray[np.int64],
    spread: Floats,
    truth: NDArray[np.int64] | None = None,
    called: Called | None = None,
) -> Threshold:
    """Judge a threshold at a level.

    Args:
        geocodes, published: `(n,)` of the areas, and their people.
        spread: `(n,)` standard deviations of their errors, persons; 0 where exact, NaN where not known.
        truth: `(n,)` of their true numbers of people, if known.
        called: what level and areas are called for people.
    """
    words = called or Called()
    above = published >= people
    wrong = beyond_zero(published.astype(np.float64) - people + 0.5, spread)
    known = ~np.isnan(wrong)
    order = np.argsort(-np.where(known, wrong, -1.0), kind="stable")[:LISTED]
    listed = tuple(
        DoubtfulArea(
            geocode := str(geocodes[row]),
            words.names.get(geocode, ""),
            int(published[row]),
            float(wrong[row]),
            None if truth is None else int(truth[row]),
        )
        for row in order.tolist()
        if known[row] and wrong[row] >= DOUBTFUL
    )
    return Threshold(
        universe=universe,
        level=level,
        level_label=words.level or level,
        people=people,
        areas=len(published),
        above=int(above.sum()),
        expected_wrong=float(wrong[known].sum()),
        doubtful=int((wrong[known] >= DOUBTFUL).sum()),
        unknown=int((~known).sum()),
        lost=None if truth is None else int((~above & (truth >= people)).sum()),
        gained=None if truth is None else int((above & (truth < people)).sum()),
        listed=listed,
    )
