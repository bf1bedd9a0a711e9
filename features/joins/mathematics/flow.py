"""How many persons of each group live in the households of each kind of a leaf: a minimum-cost flow.

From each leaf flow its persons to its kinds of household, in each kind from the set of all groups down the tree of sets
to the groups, and there to the leaf's persons of the group. A kind with h households lets `h * least` to `h * most`
through a set; where persons may live outside of households, the leaf's node leads to the group itself, too. Flows are
whole numbers. Leaves have no arc in common, so a network of many leaves solves each of them.

Costs: in each kind, persons of a group are free up to their share, rounded up (`typical.proportional_shares`), and cost
1 above it, so that mixtures are about proportional; outside of households a person costs more than any detour saves, so
that whoever finds room in a household lives in one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from features.joins.mathematics.kinds import Kinds
from features.joins.mathematics.typical import proportional_shares
from postprocess.arrays import FloatArray, IntArray
from postprocess.errors import SolverError


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
        from ortools.graph.python import min_cost_flow

        kinds, homes, persons = self._kinds, self._homes, self._persons
        n_leaves, n_groups = persons.shape
        supply = np.concatenate([persons.sum(axis=1), -persons.ravel()])
        node = np.full(self._present.shape, -1, dtype=np.int64)
        node[self._present] = len(supply) + np.arange(int(self._present.sum()))
        supply = np.concatenate([supply, np.zeros(int(self._present.sum()), dtype=np.int64)])
        # Into the sets, with lower bounds sent in advance.
        home, held = np.nonzero(self._present)
        head = node[home, held]
        tail = np.where(held == 0, homes.leaf[home], node[home, kinds.parent[held]])
        low, high = self._low[home, held], self._high[home, held]
        np.add.at(supply, head, low)
        np.subtract.at(supply, tail, low)
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
        network = min_cost_flow.SimpleMinCostFlow()
        numbers = network.add_arcs_with_capacity_and_unit_cost(
            np.concatenate([tail, from_set, from_set, leaf]),
            np.concatenate([head, to_group, to_group, n_leaves + leaf * n_groups + free]),
            np.concatenate([high - low, share, most - share, past]),
            np.repeat(np.array([0, 1, dear], dtype=np.int64), [len(tail) + len(at), len(at), len(leaf)]),
        )
        network.set_nodes_supplies(np.arange(len(supply)), supply)
        if network.solve() != network.OPTIMAL:
            return None
        flows = network.flows(numbers[len(tail) :])
        inside = flows[: len(at)] + flows[len(at) : 2 * len(at)]
        return _placed(
            np.concatenate([homes.leaf[at], leaf]),
            np.concatenate([group, free]),
            np.concatenate([at, np.full(len(leaf), -1, dtype=np.int64)]),
            np.concatenate([inside, flows[2 * len(at) :]]),
        )


def _placed(leaf: IntArray, group: IntArray, home: IntArray, persons: IntArray) -> Placed:
    """In order, without empty ones; those outside, whose home is -1, come last in their group."""
    last = np.where(home < 0, np.iinfo(np.int64).max, home)
    order = np.lexsort((last, group, leaf))
    order = order[persons[order] > 0]
    return Placed(leaf[order], group[order], home[order], persons[order])
