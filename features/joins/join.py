"""A join: what each household of a companion implies for the persons in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

from features.joins.mathematics.membership import NO_MOST, Membership
from pipeline.model.query import Query

#: Columns of the microdata of joined universes: number of the household, and how many persons have it.
HOUSEHOLD, MEMBERS = "household", "members"


@dataclass(frozen=True, eq=False)
class Join(Membership):
    """A membership with names: its queries are those of the spec, on two universes.

    Attributes:
        persons: on the release's own universe.
        households: on the companion.
        companion: the universe of households.
    """

    persons: Query
    households: Query
    _: KW_ONLY
    companion: str


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
