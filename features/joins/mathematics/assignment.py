"""Every released person in households is assigned to a released household of the same leaf.

Three steps for each leaf: `kinds` finds what the joins distinguish, `flow` how many persons of each group live in the
households of each kind, `dealing` which of them live in which household.

The persons of a leaf are a whole-number point of the sum of what its households may hold (`composition`), so the flow
exists; and whatever goes through a kind's sets is shared out evenly, so that each household keeps every join.
Leaves are worked on in spans that the counts alone decide, so that no result depends on the caller.

Which member lives in which household: the members of a kind are dealt like cards.

In each leaf, the h households of a kind stand in a random order, and its members in the order of the groups, at random
within a set's own groups; member i goes to household i mod h.

Every household is then one that the joins allow. The groups of each set S follow each other (`Kinds.set_of_group`), so
the m members in S follow each other, too, and m consecutive members give each household floor(m / h) or ceil(m / h) of
them. The flow keeps h * least <= m <= h * most; least and most are whole numbers, so
least <= floor(m / h) <= ceil(m / h) <= most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from features.joins.mathematics.flow import Homes, Placed, place
from features.joins.mathematics.kinds import OUTSIDE, Kinds, kinds_of
from features.joins.mathematics.membership import Membership
from features.joins.mathematics.typical import typical_members
from postprocess.arrays import IntArray
from postprocess.families.rounding import tie_breaks

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


#: Leaves of one network of the flow, and persons in them, but for a leaf that has more.
LEAVES_AT_ONCE, PERSONS_AT_ONCE = 128, 1 << 20


def assign(memberships: Sequence[Membership], persons: sp.csr_array, households: sp.csr_array, seed: int) -> IntArray:
    """The household of every person, `(n_persons,)` int64; see `assigned_spans`.

    Households of a leaf are numbered from 0 in the order of microdata; -1 for persons outside of households. Persons
    are in the order of microdata, too: leaves, then cells, then copies.
    """
    parts = [numbers for _, numbers in assigned_spans(memberships, persons, households, seed)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def assigned_spans(
    memberships: Sequence[Membership], persons: sp.csr_array, households: sp.csr_array, seed: int
) -> Iterator[tuple[int, IntArray]]:
    """The same for successive leaves: how many leaves, and the household of each of their persons, as in `assign`.

    Memory is that of one span of leaves beside the counts.

    Args:
        memberships: all joins between these persons and households, one or more.
        persons: released, `(n_leaves, n_person_cells)` whole numbers from 0, each cell once and in order.
        households: released, `(n_leaves, n_household_cells)`, likewise.
        seed: public; decides who of several that are alike lives where.

    Raises:
        AssignmentError: the persons of a leaf do not fill its households.
    """
    kinds = kinds_of(memberships)
    typical = typical_members(kinds)
    for first, stop in _spans(persons):
        people = _records(persons[first:stop], kinds.group_of_cell)
        houses = _records(households[first:stop], kinds.kind_of_cell)
        groups = _persons_by_group(kinds, people, stop - first)
        homes = _homes(kinds, houses)
        placed = place(kinds, typical, groups, homes, first)
        rows = deal(kinds, placed, people, houses, homes, (seed, first))
        before = np.searchsorted(houses.leaf, people.leaf)
        yield stop - first, np.where(rows < 0, -1, rows - before)


def _spans(persons: sp.csr_array) -> Iterator[tuple[int, int]]:
    """The first leaf of each span, and that after its last."""
    before = np.concatenate([[0], np.cumsum(persons.sum(axis=1))])
    first = 0
    while first < persons.shape[0]:
        fits = int(np.searchsorted(before, before[first] + PERSONS_AT_ONCE, side="right")) - 1
        stop = min(max(fits, first + 1), first + LEAVES_AT_ONCE, persons.shape[0])
        yield first, stop
        first = stop


def _records(counts: sp.csr_array, label_of_cell: IntArray) -> Records:
    """The records of some leaves, one by one."""
    leaf = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    cell = counts.indices.astype(np.int64)
    copies = counts.data.astype(np.int64)
    first = np.cumsum(copies) - copies
    return Records(
        leaf=np.repeat(leaf, copies),
        cell=np.repeat(cell, copies),
        copy=np.arange(int(copies.sum())) - np.repeat(first, copies),
        label=np.repeat(label_of_cell[cell], copies),
    )


def _persons_by_group(kinds: Kinds, persons: Records, n_leaves: int) -> IntArray:
    """Persons of households in each leaf and group, `(n_leaves, n_groups)`."""
    inside = persons.label >= 0
    places = persons.leaf[inside] * kinds.n_groups + persons.label[inside]
    return np.bincount(places, minlength=n_leaves * kinds.n_groups).reshape(n_leaves, kinds.n_groups)


def _homes(kinds: Kinds, households: Records) -> Homes:
    pairs, counts = np.unique(households.leaf * kinds.n_kinds + households.label, return_counts=True)
    return Homes(leaf=pairs // kinds.n_kinds, kind=pairs % kinds.n_kinds, households=counts.astype(np.int64))
