"""Which persons live in which household: a minimum-cost flow in every leaf, then the members dealt like cards.

A household of kind b holds y_g persons of each group g, whole numbers from 0. Every join bounds sums of y over sets of
groups, `least <= y(S) <= most`. The sets of all joins are nested: two of them are apart, or one lies in the other. They
form a tree below the set of all groups, and the households of a kind that the joins allow are the whole-number points
of a generalised polymatroid (Frank, Connections in Combinatorial Optimization, 2011, chapter 14).

From each leaf flow its persons to its kinds of household, in each kind from the set of all groups down the tree of sets
to the groups, and there to the leaf's persons of the group. A kind with h households lets `h * least` to `h * most`
through a set; where persons may live outside of households, the leaf's node leads to the group itself, too. Flows are
whole numbers. Leaves have no arc in common, so a network of many leaves solves each of them.

Costs: in each kind, persons of a group are free up to their share, rounded up (`proportional_shares`), and cost
1 above it, so that mixtures are about proportional; outside of households a person costs more than any detour saves, so
that whoever finds room in a household lives in one.

Three steps for each leaf: what the joins distinguish, how many persons of each group live in the households of each
kind, and which of them live in which household.

The persons of a leaf are a whole-number point of the sum of what its households may hold (`composition`), so the flow
exists; and whatever goes through a kind's sets is shared out evenly, so that each household keeps every join.
Leaves are worked on in spans that the counts alone decide, so that no result depends on the caller.

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

from features.joins.mathematics.membership import NO_MOST, Membership
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.errors import SolverError
from postprocess.families.fitting import scaled
from postprocess.families.rounding import Arcs, cheapest_flow, tie_breaks
from postprocess.marginal import Marginal, join

#: In `Kinds.group_of_cell`: no join says that members of households fall in the cell.
OUTSIDE = -1


@dataclass(frozen=True, eq=False)
class Kinds:
    """What the joins allow, by set of groups and kind of household.

    Attributes:
        kind_of_cell: `(n_household_cells,)` households of one kind have the same bounds.
        group_of_cell: `(n_person_cells,)` persons of one group are alike to the joins; or `OUTSIDE`.
        parent: `(n_sets,)` the smallest set that a set lies in; -1 for set 0, which holds all groups.
        least, most: `(n_sets, n_kinds)` members of one household in a set.
        set_of_group: `(n_groups,)` the smallest set that holds the group. Groups are ordered so that the groups of
            every set follow each other.
        optional: `(n_groups,)` persons of the group may also live outside of households.
    """

    kind_of_cell: IntArray
    group_of_cell: IntArray
    parent: IntArray
    least: IntArray
    most: IntArray
    set_of_group: IntArray
    optional: BoolArray

    @property
    def n_kinds(self) -> int:
        """The number of kinds, whether they occur or not."""
        return self.least.shape[1]

    @property
    def n_groups(self) -> int:
        """The number of groups."""
        return len(self.set_of_group)

    @property
    def n_sets(self) -> int:
        """The number of sets."""
        return len(self.parent)

    def holds(self) -> BoolArray:
        """Which sets hold which groups, `(n_sets, n_groups)`."""
        inside = np.zeros((self.n_sets, self.n_groups), dtype=np.bool_)
        for group, smallest in enumerate(self.set_of_group.tolist()):
            while smallest >= 0:
                inside[smallest, group] = True
                smallest = int(self.parent[smallest])
        return inside


def kinds_of(memberships: Sequence[Membership]) -> Kinds:
    """What `memberships`, one or more, distinguish.

    The order of the joins makes no difference.

    Raises:
        ValueError: the sets of two joins cross; no such joins come from a spec.
    """
    fine_of_cell, cells_of_fine = _answers(join([membership.persons for membership in memberships]))
    kind_of_cell, cells_of_kind = _answers(join([membership.households for membership in memberships]))
    inside, optional = _residence(memberships, cells_of_fine)
    sets, least, most = _sets(memberships, cells_of_fine, cells_of_kind, inside)
    # Kinds with the same bounds are one.
    bounds, kind = np.unique(np.concatenate([least, most]), axis=1, return_inverse=True)
    least, most = bounds[: len(sets)], bounds[len(sets) :]
    parent = _tree(memberships, sets)
    order = _depth_first(parent)
    number = np.argsort(order)
    sets, least, most = sets[order], least[order], most[order]
    parent = np.where(parent[order] < 0, -1, number[parent[order]])
    smallest = np.array([int(np.flatnonzero(held)[-1]) if held.any() else -1 for held in sets.T], dtype=np.int64)
    label = np.where(inside, 2 * smallest + optional, -1)
    labels = np.unique(label[inside])
    group = np.where(inside, np.searchsorted(labels, label), OUTSIDE)
    return Kinds(
        kind_of_cell=kind.ravel().astype(np.int64)[kind_of_cell],
        group_of_cell=group.astype(np.int64)[fine_of_cell],
        parent=parent.astype(np.int64),
        least=least,
        most=most,
        set_of_group=labels // 2,
        optional=labels % 2 == 1,
    )


def _answers(query: Marginal) -> tuple[IntArray, IntArray]:
    """The answer of each cell, and the first cell of each answer; answers in the order of these."""
    _, first, answer = np.unique(query.cell_answer, return_index=True, return_inverse=True)
    number = np.argsort(np.argsort(first))
    return number[answer.ravel()].astype(np.int64), np.sort(first).astype(np.int64)


def _residence(memberships: Sequence[Membership], cells: IntArray) -> tuple[BoolArray, BoolArray]:
    """Which groups of persons live in households, and which of these may live elsewhere; `(len(cells),)` each."""
    inside = np.zeros(len(cells), dtype=np.bool_)
    held = np.zeros(len(cells), dtype=np.bool_)
    for membership in memberships:
        here = membership.inside[membership.persons.cell_answer[cells]]
        inside |= here
        held |= here & (not membership.others)
    return inside, inside & ~held


def _sets(
    memberships: Sequence[Membership], cells: IntArray, cells_of_kind: IntArray, inside: BoolArray
) -> tuple[BoolArray, IntArray, IntArray]:
    """The sets that something bounds, and the one of all, each once: members, least and most of each kind."""
    found: dict[bytes, tuple[BoolArray, IntArray, IntArray]] = {}
    n_kinds = len(cells_of_kind)

    def add(held: BoolArray, least: IntArray, most: IntArray) -> None:
        if (old := found.get(held.tobytes())) is not None:
            least, most = np.maximum(old[1], least), np.minimum(old[2], most)
        found[held.tobytes()] = held, least, most

    add(inside, np.zeros(n_kinds, dtype=np.int64), np.full(n_kinds, NO_MOST, dtype=np.int64))
    for membership in memberships:
        answers = membership.persons.cell_answer[cells]
        kind = membership.households.cell_answer[cells_of_kind]
        for answer in np.flatnonzero(membership.inside).tolist():
            least, most = membership.least[answer][kind], membership.most[answer][kind]
            held = inside & (answers == answer)
            if (least.any() or (most < NO_MOST).any()) and (held.any() or least.any()):
                add(held, least, most)
    # From the largest down, and in an order that is not that of the joins.
    ordered = sorted(found.values(), key=lambda each: (-int(each[0].sum()), (~each[0]).tolist()))
    sets, least, most = (np.stack(parts) for parts in zip(*ordered, strict=True))
    return sets, least, most


def _tree(memberships: Sequence[Membership], sets: BoolArray) -> IntArray:
    """The smallest set that each lies in, `(n_sets,)`; the first is that of all."""
    sizes = sets.sum(axis=1)
    both = sets.astype(np.int64) @ sets.T.astype(np.int64)
    crossing = (both > 0) & (both < np.minimum(sizes[:, None], sizes[None, :]))
    if crossing.any():
        names = ", ".join(repr(membership.name) for membership in memberships)
        raise ValueError(f"the joins {names} bound groups of persons that cross each other; they are to be nested")
    parent = np.full(len(sets), -1, dtype=np.int64)
    for at in range(1, len(sets)):
        larger = np.flatnonzero((both[at] == sizes[at]) & (sizes > sizes[at]))
        parent[at] = larger[np.argmin(sizes[larger])]
    return parent


def _depth_first(parent: IntArray) -> IntArray:
    """The sets in the order of a walk through their tree, `(n_sets,)`: the groups of each follow each other."""
    below: dict[int, list[int]] = {}
    for at, above in enumerate(parent.tolist()):
        below.setdefault(above, []).append(at)
    order: list[int] = []
    waiting = [0]
    while waiting:
        at = waiting.pop()
        order.append(at)
        waiting += reversed(below.get(at, []))
    return np.array(order, dtype=np.int64)


#: Members beside those that are needed, where nothing limits them.
_FREE_ROOM = 4
_SWEEPS = 4


def typical_members(kinds: Kinds) -> FloatArray:
    """The middle of what the bounds of all sets imply for each group, `(n_groups, n_kinds)`.

    Bounds are implied from the smallest sets up, then down again; a group takes what the other parts of its set leave.
    """
    below = [np.flatnonzero(kinds.parent == at) for at in range(kinds.n_sets)]
    least, most = kinds.least.copy(), kinds.most.copy()
    for at in reversed(range(kinds.n_sets)):
        least[at] = np.maximum(least[at], least[below[at]].sum(axis=0))
    for at in range(kinds.n_sets):
        for child in below[at]:
            beside = least[below[at]].sum(axis=0) - least[child]
            most[child] = np.minimum(most[child], most[at] - beside)
    smallest = kinds.set_of_group
    low = np.stack([least[at] - most[below[at]].sum(axis=0) for at in smallest.tolist()] or [least[:0].sum(axis=0)])
    high = np.stack([most[at] - least[below[at]].sum(axis=0) for at in smallest.tolist()] or [least[:0].sum(axis=0)])
    low = np.maximum(low, 0)
    high = np.where(high >= NO_MOST // 2, low + _FREE_ROOM, np.maximum(high, low))
    return (0.5 * (low + high))[: kinds.n_groups]


def proportional_shares(
    members: FloatArray, home: IntArray, place: IntArray, persons: IntArray, low: IntArray, high: IntArray
) -> FloatArray:
    """Persons of each group in each home, about in proportion to `members`, scaled to the sums (iterative fitting).

    Args:
        members: to begin with, `(n,)`.
        home: of each, `(n,)`.
        place: the pair of leaf and group of each, `(n,)`.
        persons: of each such pair, `(n_places,)`.
        low, high: members of each home, `(n_homes,)`.
    """
    fitted: FloatArray = np.maximum(members, 0.0)
    for _ in range(_SWEEPS):
        fitted = scaled(fitted, home, np.clip(np.bincount(home, fitted, len(low)), low, high))
        fitted = scaled(fitted, place, persons)
    return fitted


class AssignmentError(SolverError):
    """The persons of a leaf do not fill its households; `leaf` is its number."""

    def __init__(self, leaf: int, why: str) -> None:
        super().__init__(f"leaf {leaf}: its persons cannot be assigned to its households: {why}")
        self.leaf = leaf
        self.why = why


@dataclass(frozen=True, eq=False)
class Homes:
    """The households of some leaves, by kind.

    Attributes:
        leaf, kind: `(n_homes,)` each pair once, in the order of leaves, then of kinds.
        households: `(n_homes,)` from 1.
    """

    leaf: IntArray
    kind: IntArray
    households: IntArray


@dataclass(frozen=True, eq=False)
class Placed:
    """Persons of a group and where they live, in the order of leaves, then groups, then homes, those outside last.

    Attributes:
        leaf, group, home: `(n,)`; home -1 is outside of households.
        persons: `(n,)` from 1.
    """

    leaf: IntArray
    group: IntArray
    home: IntArray
    persons: IntArray


def place(kinds: Kinds, typical: FloatArray, persons: IntArray, homes: Homes, first_leaf: int) -> Placed:
    """Persons of each group in each home of some leaves.

    Args:
        kinds: what the joins distinguish.
        typical: members of each group in a household of each kind, about, `(n_groups, n_kinds)`.
        persons: of each leaf in each group, `(n_leaves, n_groups)`.
        homes: of the leaves, numbered as rows of `persons`.
        first_leaf: the number of the first of these leaves, for messages.

    Raises:
        AssignmentError: a leaf has no assignment.
    """
    network = _Network(kinds, typical, persons, homes)
    if (impossible := network.impossible()) is not None:
        raise AssignmentError(first_leaf + impossible[0], impossible[1])
    placed = network.solve()
    if placed is not None:
        return placed
    for leaf in range(len(persons)):
        here = homes.leaf == leaf
        alone = Homes(np.zeros(int(here.sum()), dtype=np.int64), homes.kind[here], homes.households[here])
        if _Network(kinds, typical, persons[leaf : leaf + 1], alone).solve() is None:
            raise AssignmentError(first_leaf + leaf, "no flow meets the bounds of all joins")
    raise SolverError(
        f"leaves {first_leaf} to {first_leaf + len(persons) - 1}: the flow failed, of each leaf it did not"
    )


class _Network:
    """The arcs of some leaves. Nodes: the leaves, then pairs of leaf and group, then pairs of home and set."""

    def __init__(self, kinds: Kinds, typical: FloatArray, persons: IntArray, homes: Homes) -> None:
        self._kinds = kinds
        self._typical = typical
        self._persons = persons
        self._homes = homes
        self._in_set = persons @ kinds.holds().T
        total = persons.sum(axis=1)[homes.leaf][:, None]
        #: `(n_homes, n_sets)` what flows through each set; a home lacks the sets that nobody of its leaf is in.
        self._low = homes.households[:, None] * kinds.least[:, homes.kind].T
        self._high = np.minimum(homes.households[:, None] * np.minimum(kinds.most[:, homes.kind].T, total), total)
        self._present = self._in_set[homes.leaf] > 0

    def impossible(self) -> tuple[int, str] | None:
        """A leaf and what is plainly wrong with it."""
        kinds, homes = self._kinds, self._homes
        wrong = np.where(self._present, self._low > self._high, self._low > 0)
        if wrong.any():
            at, held = (int(part[0]) for part in np.nonzero(wrong))
            leaf, low = int(homes.leaf[at]), int(self._low[at, held])
            found = int(self._in_set[leaf, held])
            return leaf, f"{homes.households[at]:,} households need {low:,} members of a group with {found:,} persons"
        homeless = self._persons[:, ~kinds.optional].sum(axis=1)
        homeless[homes.leaf] = 0
        if homeless.any():
            leaf = int(np.flatnonzero(homeless)[0])
            return leaf, f"{homeless[leaf]:,} persons of households live where no household is"
        return None

    def solve(self) -> Placed | None:
        """The cheapest flow; None where there is none."""
        kinds, homes, persons = self._kinds, self._homes, self._persons
        n_leaves, n_groups = persons.shape
        supply = np.concatenate([persons.sum(axis=1), -persons.ravel()])
        node = np.full(self._present.shape, -1, dtype=np.int64)
        node[self._present] = len(supply) + np.arange(int(self._present.sum()))
        supply = np.concatenate([supply, np.zeros(int(self._present.sum()), dtype=np.int64)])
        # Into the sets.
        home, held = np.nonzero(self._present)
        head = node[home, held]
        tail = np.where(held == 0, homes.leaf[home], node[home, kinds.parent[held]])
        into_sets = Arcs(tail, head, self._low[home, held], self._high[home, held])
        # From the sets to the groups: at no cost up to the share, at cost 1 above.
        at, group = np.nonzero(self._present[:, kinds.set_of_group] & (persons[homes.leaf] > 0))
        inner = kinds.set_of_group[group]
        most = np.minimum(persons[homes.leaf[at], group], self._high[at, inner])
        place = homes.leaf[at] * n_groups + group
        shares = proportional_shares(
            self._typical[group, homes.kind[at]] * homes.households[at],
            at,
            place,
            persons.ravel(),
            self._low[:, 0],
            self._high[:, 0],
        )
        # Snapped, so that the last bits of the shares do not matter.
        share = np.minimum(np.ceil(shares - 1e-6).astype(np.int64), most)
        from_set, to_group = node[at, inner], n_leaves + place
        # Past households.
        leaf, free = np.nonzero(kinds.optional[None, :] & (persons > 0))
        past = persons[leaf, free]
        dear = 2 + int(np.bincount(homes.leaf[at]).max(initial=0))
        free_of_cost, at_cost = Arcs(from_set, to_group, 0, share), Arcs(from_set, to_group, 0, most - share, 1)
        outside = Arcs(leaf, n_leaves + leaf * n_groups + free, 0, past, dear)
        flows = cheapest_flow(supply, [into_sets, free_of_cost, at_cost, outside])
        if flows is None:
            return None
        return _placed(
            np.concatenate([homes.leaf[at], leaf]),
            np.concatenate([group, free]),
            np.concatenate([at, np.full(len(leaf), -1, dtype=np.int64)]),
            np.concatenate([flows[1] + flows[2], flows[3]]),
        )


def _placed(leaf: IntArray, group: IntArray, home: IntArray, persons: IntArray) -> Placed:
    """In order, without empty ones; those outside, whose home is -1, come last in their group."""
    last = np.where(home < 0, np.iinfo(np.int64).max, home)
    order = np.lexsort((last, group, leaf))
    order = order[persons[order] > 0]
    return Placed(leaf[order], group[order], home[order], persons[order])


#: Uses of the public seed here, apart from that of rounding.
_WHO, _ORDER, _HOUSEHOLDS = 0x686F7573, 0x686F7574, 0x686F7575


@dataclass(frozen=True, eq=False)
class LeafRecords:
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
    kinds: Kinds, placed: Placed, persons: LeafRecords, households: LeafRecords, homes: Homes, seed: tuple[int, int]
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


def _luck(records: LeafRecords, use: int, seed: tuple[int, int]) -> IntArray:
    """A number for each record that looks random, of 28 bits."""
    public, first_leaf = seed
    keys = (records.leaf + first_leaf, records.cell, records.copy)
    coarse, fine = (tie_breaks(public, (np.array(use), *keys, np.array(part))) for part in range(2))
    return (coarse << 14) | fine


#: Leaves of one network of the flow, and persons in them, but for a leaf that has more.
LEAVES_AT_ONCE, PERSONS_AT_ONCE = 128, 1 << 20


def assigned_spans(
    memberships: Sequence[Membership], persons: sp.csr_array, households: sp.csr_array, seed: int
) -> Iterator[tuple[int, IntArray]]:
    """For successive leaves, how many leaves, and the household of each of their persons, `(n_persons,)` int64.

    Households of a leaf are numbered from 0 in the order of microdata; -1 for persons outside of households. Persons
    are in the order of microdata, too: leaves, then cells, then copies. Memory is that of one span of leaves beside the
    counts.

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
        inside = people.label >= 0
        groups = np.zeros((stop - first, kinds.n_groups), dtype=np.int64)
        np.add.at(groups, (people.leaf[inside], people.label[inside]), 1)
        pairs, numbers = np.unique(houses.leaf * kinds.n_kinds + houses.label, return_counts=True)
        homes = Homes(pairs // kinds.n_kinds, pairs % kinds.n_kinds, numbers.astype(np.int64))
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


def _records(counts: sp.csr_array, label_of_cell: IntArray) -> LeafRecords:
    """The records of some leaves, one by one."""
    leaf = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    cell = counts.indices.astype(np.int64)
    copies = counts.data.astype(np.int64)
    first = np.cumsum(copies) - copies
    return LeafRecords(
        leaf=np.repeat(leaf, copies),
        cell=np.repeat(cell, copies),
        copy=np.arange(int(copies.sum())) - np.repeat(first, copies),
        label=np.repeat(label_of_cell[cell], copies),
    )
