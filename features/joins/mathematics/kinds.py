"""Kinds of households and groups of persons: all that the joins distinguish, and no more.

A household of kind b holds y_g persons of each group g, whole numbers from 0. Every join bounds sums of y over sets of
groups, `least <= y(S) <= most`. The sets of all joins are nested: two of them are apart, or one lies in the other. They
form a tree below the set of all groups, and the households of a kind that the joins allow are the whole-number points
of a generalised polymatroid (Frank, Connections in Combinatorial Optimization, 2011, chapter 14).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from features.joins.mathematics.membership import NO_MOST, Membership
from postprocess.arrays import BoolArray, IntArray
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
