"""A join: what each household of a companion implies for the persons in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.model.query import Query

#: In `Join.most`: nothing limits the members.
NO_MOST = 1 << 40
#: Columns of the microdata of joined universes: number of the household, and how many persons have it.
HOUSEHOLD, MEMBERS = "household", "members"


@dataclass(frozen=True, eq=False)
class Join:
    """For each answer of a query on persons and each of one on households, the members of one such household.

    A household of kind b has at least `least[a, b]` and at most `most[a, b]` members whose answer is a.

    Attributes:
        name: in messages.
        companion: the universe of households.
        persons: on the release's own universe.
        households: on the companion.
        least, most: `(persons.size, households.size)` int64 members; `NO_MOST` where nothing limits them.
        inside: `(persons.size,)` True for the answers that members of households fall in; rows of the others are 0.
        others: persons outside of households fall in these answers, too: the households limit them from below only.
        expected: `(persons.size, households.size)` float64 members to expect, about; NaN where that is not known.
    """

    name: str
    companion: str
    persons: Query
    households: Query
    least: NDArray[np.int64]
    most: NDArray[np.int64]
    inside: NDArray[np.bool_]
    others: bool
    expected: NDArray[np.float64]


def joined_companions(joins: Sequence[Join]) -> tuple[str, ...]:
    """The companions that are joined, in the order of the joins."""
    return tuple(dict.fromkeys(join.companion for join in joins))


def household_column(companion: str, companions: Sequence[str]) -> str:
    """The column of the persons' microdata with the number of their household among those of a companion.

    Args:
        companion: one of `companions`.
        companions: all that are joined.
    """
    return HOUSEHOLD if len(companions) == 1 else f"{HOUSEHOLD}_{companion}"


def largest_household(joins: Sequence[Join], companion: str, otherwise: int) -> int:
    """The most members that a household of a companion can have.

    A join that all members are counted by limits them, and so do several together that count each of them at least
    once. Where nothing does, the number is `otherwise`, or the least of the largest kind if that is more.

    Args:
        joins: of the release.
        companion: that is joined.
        otherwise: members where joins allow any number.
    """
    own = [join for join in joins if join.companion == companion]
    counted = [join.inside[join.persons.cell_answer] for join in own]
    members = np.logical_or.reduce(counted)
    most = [int(join.most[join.inside].sum(axis=0).max()) for join in own]
    limits = [limit for limit, some in zip(most, counted, strict=True) if limit < NO_MOST and (some == members).all()]
    limited = [number for number, limit in enumerate(most) if limit < NO_MOST]
    if limited and (np.logical_or.reduce([counted[number] for number in limited]) == members).all():
        limits.append(sum(most[number] for number in limited))
    least = max(int(join.least[join.inside].sum(axis=0).max()) for join in own)
    return min(limits) if limits else max(otherwise, least)
