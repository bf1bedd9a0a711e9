"""Synthetic households: sizes, householders, children, and who lives in quarters.

Persons of each leaf are dealt to households whose sizes follow the 2020 shares of the United States. Householders are
older in households of one, partners are mostly of the householder's age band, and the other members of households below
retirement age are mostly children. In a few large leaves some of the persons live in quarters. The shares are round
numbers, chosen to look like a population, and stand for nobody's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

AGES = ("0-17", "18-34", "35-64", "65+")
SEXES = ("female", "male")
RESIDENCES = ("household", "quarters")
SIZES = ("1", "2", "3", "4", "5", "6", "7+")
CHILDREN = ("no", "yes")

#: Shares of households of 1, 2 ... members; the last ones make up the open-ended size.
_SIZE_SHARE = np.array([0.282, 0.345, 0.151, 0.125, 0.058, 0.023, 0.010, 0.004, 0.002])
#: Shares of the age bands of householders: of households of one member, and of larger ones; nobody is a child.
_HEAD_SHARE = np.array([[0.0, 0.16, 0.42, 0.42], [0.0, 0.20, 0.58, 0.22]])
#: Shares of age bands of members who are neither householder nor partner, by the householder's age band.
_OTHER_SHARE = np.array(
    [[0.0, 0.0, 0.0, 0.0], [0.85, 0.14, 0.01, 0.0], [0.70, 0.26, 0.02, 0.02], [0.12, 0.22, 0.42, 0.24]]
)
#: Of households of two or more: the second member is a partner; and of the householder's age band.
_PARTNER, _SAME_AGE = 0.78, 0.90
#: Leaves of at least so many persons may have quarters; so many of them have; with this share of their persons.
_LARGE, _WITH_QUARTERS, _IN_QUARTERS = 60, 0.04, 0.5
#: Age bands of persons in quarters.
_QUARTERS_SHARE = np.array([0.04, 0.40, 0.16, 0.40])


@dataclass(frozen=True, eq=False)
class Population:
    """Persons and households, as the numbers of values.

    Attributes:
        leaf: `(n_persons,)` of each person; residence, age and sex alike.
        household_leaf: `(n_households,)` of each household; size, head and children alike.
    """

    leaf: NDArray[np.int64]
    residence: NDArray[np.int64]
    age: NDArray[np.int64]
    sex: NDArray[np.int64]
    household_leaf: NDArray[np.int64]
    size: NDArray[np.int64]
    head: NDArray[np.int64]
    children: NDArray[np.int64]


def settle(people: NDArray[np.int64], seed: int) -> Population:
    """Give the persons of each leaf `(n_leaves,)` households, ages and sexes; equal seeds give equal populations."""
    rng = np.random.default_rng(seed)
    large = people >= _LARGE
    in_quarters = np.where(large & (rng.random(len(people)) < _WITH_QUARTERS), people * _IN_QUARTERS, 0).astype(
        np.int64
    )
    members = people - in_quarters
    starts = _starts(members, rng)
    sizes = np.diff(np.append(starts, members.sum()))
    ends = np.cumsum(members)
    household_leaf = np.searchsorted(ends, starts, side="right").astype(np.int64)
    head = _drawn(_HEAD_SHARE[np.minimum(sizes, 2) - 1], rng)
    household = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(household)) - starts[household]
    age = _ages(head[household], place, rng)
    outside = np.repeat(np.arange(len(people)), in_quarters)
    n = len(household) + len(outside)
    return Population(
        leaf=np.concatenate([household_leaf[household], outside]),
        residence=np.repeat([0, 1], [len(household), len(outside)]),
        age=np.concatenate([age, _drawn(np.tile(_QUARTERS_SHARE, (len(outside), 1)), rng)]),
        sex=rng.integers(0, len(SEXES), n),
        household_leaf=household_leaf,
        size=np.minimum(sizes, len(SIZES)) - 1,
        head=head,
        children=(np.bincount(household, age == 0, minlength=len(sizes)) > 0).astype(np.int64),
    )


def _starts(members: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """The number of the first person of each household; a household ends where its leaf does."""
    total = int(members.sum())
    drawn = 1 + rng.choice(len(_SIZE_SHARE), size=total // 2 + 100, p=_SIZE_SHARE / _SIZE_SHARE.sum())
    ends = np.cumsum(drawn)
    first_of_leaf = np.cumsum(members) - members
    starts = np.concatenate([[0], ends, first_of_leaf[members > 0]])
    return np.unique(starts[starts < total])


def _ages(head: NDArray[np.int64], place: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """The age band of each member, from its householder's and its place in the household, from 0."""
    age = _drawn(_OTHER_SHARE[head], rng)
    partner = (place == 1) & (rng.random(len(place)) < _PARTNER)
    same = rng.random(len(place)) < _SAME_AGE
    near = np.clip(head + rng.choice([-1, 1], len(place)), 1, len(AGES) - 1)
    age = np.where(partner, np.where(same, head, near), age)
    return np.where(place == 0, head, age)


def _drawn(shares: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """A value for each row of shares `(n, k)`."""
    limits = np.cumsum(shares, axis=1)
    return np.asarray((rng.random(len(shares))[:, None] >= limits[:, :-1]).sum(axis=1), dtype=np.int64)
