"""Which member lives in which household: the members of a kind are dealt like cards.

In each leaf, the h households of a kind stand in a random order, and its members in the order of the groups, at random
within a set's own groups; member i goes to household i mod h.

Every household is then one that the joins allow. The groups of each set S follow each other (`Kinds.set_of_group`), so
the m members in S follow each other, too, and m consecutive members give each household floor(m / h) or ceil(m / h) of
them. The flow keeps h * least <= m <= h * most; least and most are whole numbers, so
least <= floor(m / h) <= ceil(m / h) <= most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from postprocess.arrays import IntArray
from postprocess.families.rounding import tie_breaks
from postprocess.joins.flow import Homes, Placed
from postprocess.joins.kinds import OUTSIDE, Kinds

#: Uses of the public seed here, apart from that of rounding.
_WHO, _ORDER, _HOUSEHOLDS = 0x686F7573, 0x686F7574, 0x686F7575


@dataclass(frozen=True, eq=False)
class Records:
    """The records of some leaves in the order of microdata: leaves, cells, copies.

    Attributes:
        leaf: `(n,)` of each, from 0 for the first of these leaves.
        cell, copy: `(n,)`; copies of a cell of a leaf are numbered from 0.
        label: `(n,)` the group of a person, or the kind of a household.
    """

    leaf: IntArray
    cell: IntArray
    copy: IntArray
    label: IntArray


def deal(
    kinds: Kinds, placed: Placed, persons: Records, households: Records, homes: Homes, seed: tuple[int, int]
) -> IntArray:
    """The household of each person, `(n_persons,)`, as a row of `households`; -1 for none.

    Args:
        kinds: what the joins distinguish.
        placed: persons of each group by home.
        persons, households: of the same leaves.
        homes: of these households.
        seed: the public seed, and the number of the first leaf.
    """
    household = np.full(len(persons.leaf), OUTSIDE, dtype=np.int64)
    # Who of a group lives in which home.
    inside = np.flatnonzero(persons.label >= 0)
    luck = _luck(persons, _WHO, seed)[inside]
    drawn = inside[np.lexsort((luck, persons.label[inside], persons.leaf[inside]))]
    home = np.repeat(placed.home, placed.persons)
    drawn, home = drawn[home >= 0], home[home >= 0]
    # Their order within the home: by set, at random within it.
    luck = _luck(persons, _ORDER, seed)[drawn]
    order = np.lexsort((luck, kinds.set_of_group[persons.label[drawn]], home))
    drawn, home = drawn[order], home[order]
    # The households of each home in a random order.
    luck = _luck(households, _HOUSEHOLDS, seed)
    shuffled = np.lexsort((luck, households.label, households.leaf))
    start = np.cumsum(homes.households) - homes.households
    turn = np.arange(len(home)) - np.searchsorted(home, home)
    household[drawn] = shuffled[start[home] + turn % homes.households[home]]
    return household


def _luck(records: Records, use: int, seed: tuple[int, int]) -> IntArray:
    """A number for each record that looks random, of 28 bits."""
    public, first_leaf = seed
    keys = (records.leaf + first_leaf, records.cell, records.copy)
    coarse, fine = (tie_breaks(public, (np.array(use), *keys, np.array(part))) for part in range(2))
    return (coarse << 14) | fine
