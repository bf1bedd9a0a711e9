"""Whole numbers nearest to a solution, with the same sums.

Every cell goes to the floor or the ceiling of the solution. The children's cells sum to the parent's; in each child a
chain of nested groups (laminar: total, then group quarters type, then ...) is kept: held sums exactly, the others at
their floor or ceiling and within their bounds. Sums over parents on one side and a laminar family on the other are a
network, so the linear programme over the increments has whole-number solutions and a minimum-cost flow finds one.
Constraints that cross each other are not a network; they are left to an integer programme (HiGHS).

The solution is first snapped to a grid coarser than its numerical error, so that results do not depend on the last
bits, and numbers within `SNAP` of a whole number count as whole. Ties are broken by a public seed.

Whole numbers nearer to the least-squares solution than a rounding that looks at each cell alone.

The rounding of `rounding` goes cell by cell, so weighted sums of cells, such as the members of households of all sizes,
end up several persons away from the solution's. Here pairs of children swap: one has a unit less in one cell and more
in another, the other child the reverse. Sums over children and over groups stay what they are, each cell stays at the
floor or the ceiling of the solution, and the objective goes down with every swap, until none lowers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from postprocess.arrays import BoolArray, FloatArray, IntArray, group_sums
from postprocess.errors import SolverError
from postprocess.families.family import Family, GroupRange
from postprocess.marginal import each_in_one

#: Persons: distance to a whole number that counts as none; above the solvers' error.
SNAP = 1e-3
#: Persons: the grid that solutions are snapped to, offset so that common fractions do not sit on its edges.
GRID = 1.0 / (1 << 16)
GRID_OFFSET = 0.381966
#: Costs are whole numbers in these units of a person, with as many below them for ties.
COST_UNIT = 1 << 16
TIE_RANGE = 1 << 14


class GroupLevel(GroupRange):
    """One partition of a chain: `group` `(k,)` cell -> group, allowed sums `lower`, `upper` `(C, g)` whole numbers."""


class Arcs(NamedTuple):
    """Arcs of a network, `(n,)` each: nodes, the least and the most that flows, and what a unit costs."""

    tail: IntArray
    head: IntArray
    low: IntArray | int
    high: IntArray | int
    cost: IntArray | int = 0


def snap(x: FloatArray) -> tuple[IntArray, IntArray]:
    """Floors of the solution, and fractions in units of `1 / COST_UNIT`; 0 where it is whole within `SNAP`."""
    steps = np.floor(x / GRID + GRID_OFFSET).astype(np.int64)
    per_person = round(1.0 / GRID)
    floors, fractions = np.divmod(steps, per_person)
    edge = int(SNAP * per_person)
    up = fractions >= per_person - edge
    floors = floors + up
    fractions = np.where(up | (fractions <= edge), 0, fractions)
    return floors, fractions * (COST_UNIT // per_person)


def mixed_bits(seed: int, keys: Sequence[IntArray]) -> NDArray[np.uint64]:
    """Whole numbers of 64 bits that look random, from the public seed and keys that broadcast (SplitMix64)."""
    with np.errstate(over="ignore"):
        state = np.uint64(seed & 0xFFFFFFFFFFFFFFFF)
        mixed: np.ndarray = np.asarray(state)
        for key in keys:
            mixed = (mixed ^ np.asarray(key).astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed = mixed ^ (mixed >> np.uint64(31))
    return np.asarray(mixed)


def tie_breaks(seed: int, keys: Sequence[IntArray]) -> IntArray:
    """The same in [0, TIE_RANGE)."""
    return np.asarray(mixed_bits(seed, keys) >> np.uint64(64 - 14)).astype(np.int64)


def round_family(family: Family, x: FloatArray, chain: Sequence[GroupLevel], ties: IntArray) -> IntArray:
    """Whole numbers `(C, k)` for one family.

    Args:
        family: its parent's sums and upper bounds are kept exactly.
        x: the solution, `(C, k)`.
        chain: partitions from coarse to fine; each must refine the one before for the network to apply.
        ties: `(C, k)` from `tie_breaks`.

    Raises:
        SolverError: no whole numbers next to the solution keep the constraints; names the parent.
    """
    floors, fractions = snap(x)
    cost, rounded = _cost(fractions, ties), None
    if family.parent is None:
        whole, found = round_together(family, x, chain, ties)
        rounded = whole if found.all() else None
    elif not chain:
        rounded = _round_columns(floors, fractions, cost, family.parent)
    elif _nested(chain):
        rounded = _round_by_flow(floors, fractions, cost, family.parent, chain, [_allowed(x, one) for one in chain])
    return _round_by_integer_programme(family, x, cost, chain) if rounded is None else rounded


def _cost(fractions: IntArray, ties: IntArray) -> IntArray:
    """What it costs to go to the ceiling."""
    return -(2 * fractions - COST_UNIT) * TIE_RANGE + ties


def round_together(
    family: Family, x: FloatArray, chain: Sequence[GroupLevel], ties: IntArray
) -> tuple[IntArray, BoolArray]:
    """Whole numbers `(C, k)` of areas without a parent, and for which of them `(C,)` there are such.

    In nested groups, from the fine ones to the coarse, as many of the cheapest cells go up as have to, and none beyond
    what may; of the others those that gain by it, and of those that cost the same the first. The others are left to
    `round_family`, one area at a time. Arguments as there.
    """
    floors, fractions = snap(x)
    if not chain:
        whole = np.minimum(floors + (2 * fractions >= COST_UNIT), family.upper.astype(np.int64))
        return whole, np.ones(len(x), dtype=bool)
    if not _nested(chain):
        return floors, np.zeros(len(x), dtype=bool)
    movable, cost = fractions > 0, _cost(fractions, ties)
    found = np.ones(len(x), dtype=bool)
    # -1: goes up, 0: may, 1: stays.
    state = np.where(movable, 0, 1)
    for partition in reversed(chain):
        low, high = _allowed(x, partition)
        sums = group_sums(floors, partition.group, partition.size)
        order = np.lexsort((cost, state, np.broadcast_to(partition.group, state.shape)), axis=1)
        group = np.sort(partition.group)
        rank = np.arange(len(group)) - np.searchsorted(group, group)
        must, may = ((limit - sums)[:, group] for limit in (low, high))
        of_rank = np.take_along_axis(state, order, axis=1)
        found &= ((must <= may) & (may >= 0)).all(axis=1)
        found &= ~(((rank < must) & (of_rank > 0)) | ((rank >= may) & (of_rank < 0))).any(axis=1)
        np.put_along_axis(state, order, np.where(rank < must, -1, np.where(rank >= may, 1, of_rank)), axis=1)
    return floors + ((state < 0) | ((state == 0) & (cost < 0))), found


def _allowed(x: FloatArray, partition: GroupLevel) -> tuple[IntArray, IntArray]:
    """Whole-number range of each group's sum: floor to ceiling of the solution's, within the bounds, `(C, g)`."""
    floors, fractions = snap(group_sums(x, partition.group, partition.size))
    return np.maximum(floors, partition.lower), np.minimum(floors + (fractions > 0), partition.upper)


def _nested(chain: Sequence[GroupLevel]) -> bool:
    return all(each_in_one(fine.group, coarse.group) for coarse, fine in pairwise(chain))


def _round_columns(floors: IntArray, fractions: IntArray, cost: IntArray, parent: FloatArray) -> IntArray | None:
    """Only sums over the children: the cheapest increments of each cell, which is exact."""
    increments = np.rint(parent).astype(np.int64) - floors.sum(axis=0)
    movable = fractions > 0
    if (increments < 0).any() or (increments > movable.sum(axis=0)).any():
        return None
    ranked = np.argsort(np.where(movable, cost, np.iinfo(np.int64).max), axis=0, kind="stable")
    rank = np.empty_like(ranked)
    np.put_along_axis(rank, ranked, np.arange(len(floors))[:, None], axis=0)
    return floors + (rank < increments[None, :])


def _round_by_flow(
    floors: IntArray,
    fractions: IntArray,
    cost: IntArray,
    parent: FloatArray,
    chain: Sequence[GroupLevel],
    ranges: Sequence[tuple[IntArray, IntArray]],
) -> IntArray | None:
    """Minimum-cost flow: root -> coarse group -> fine group -> cell of the parent, one path a movable cell."""
    n_children, n_cells = floors.shape
    rows, columns = np.nonzero(fractions > 0)
    base = np.zeros((n_children, n_cells), dtype=np.int64) + floors
    # Nodes: 0 the source and sink of what is free, then the groups of each partition, then the parent's cells.
    first = [1]
    for partition in chain:
        first.append(first[-1] + n_children * partition.size)
    cells_at = first[-1]
    supply, arcs = np.zeros(cells_at + n_cells, dtype=np.int64), list[Arcs]()
    child = np.arange(n_children)[:, None]
    for depth, (partition, (low, high)) in enumerate(zip(chain, ranges, strict=True)):
        size = partition.size
        sums = group_sums(base, partition.group, size)
        low, high = low - sums, high - sums
        if (low > high).any() or (high < 0).any():
            return None
        low = np.maximum(low, 0)
        node = first[depth] + child * size + np.arange(size)[None, :]
        if depth == 0:
            tail = np.zeros_like(node)
        else:
            coarse = chain[depth - 1]
            group_of = np.zeros(size, dtype=np.int64)
            group_of[partition.group] = coarse.group
            tail = first[depth - 1] + child * coarse.size + group_of[None, :]
        arcs.append(Arcs(tail.ravel(), node.ravel(), low.ravel(), high.ravel()))
    last = chain[-1]
    arcs.append(Arcs(first[-2] + rows * last.size + last.group[columns], cells_at + columns, 0, 1, cost[rows, columns]))
    increments = np.rint(parent).astype(np.int64) - base.sum(axis=0)
    if (increments < 0).any():
        return None
    arcs.append(Arcs(cells_at + np.arange(n_cells), np.zeros(n_cells, dtype=np.int64), increments, increments))
    flows = cheapest_flow(supply, arcs)
    if flows is None:
        return None
    base[rows, columns] += flows[len(chain)]
    return base


def cheapest_flow(supply: IntArray, arcs: Sequence[Arcs]) -> list[IntArray] | None:
    """Whole flows `(n,)` of some arcs each, at the least cost, or None where there are none.

    Args:
        supply: of each node, what flows out of it more than into it.
        arcs: some at a time.
    """
    from ortools.graph.python import min_cost_flow

    ends = np.cumsum([len(some.tail) for some in arcs])
    every = np.empty((5, ends[-1]), dtype=np.int64)
    for some, end in zip(arcs, ends, strict=True):
        for part, numbers in enumerate(some):
            every[part, end - len(some.tail) : end] = numbers
    tail, head, low, high, cost = every
    # What has to flow at least is sent in advance.
    supply = supply.copy()
    np.add.at(supply, head, low)
    np.subtract.at(supply, tail, low)
    network = min_cost_flow.SimpleMinCostFlow()
    numbers = network.add_arcs_with_capacity_and_unit_cost(tail, head, high - low, cost)
    network.set_nodes_supplies(np.arange(len(supply)), supply)
    if network.solve() != network.OPTIMAL:
        return None
    return np.split(low + network.flows(numbers), ends[:-1])


def _round_by_integer_programme(family: Family, x: FloatArray, cost: IntArray, chain: Sequence[GroupLevel]) -> IntArray:
    """The same where partitions cross or floors and ceilings have no solution: within one of the solution.

    Sums that are not exact are kept within their bounds only.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    n_children, n_cells = x.shape
    floors, fractions = snap(x)
    # Persons above the floors, and below them: a whole number may go down as well as up, and either costs a person.
    above = np.clip(family.upper.astype(np.int64) - floors, 0, 1)
    below = (fractions == 0) & (floors > 0)
    index = np.arange(floors.size).reshape(floors.shape)
    constraints = []

    def limit(rows: IntArray, low: NDArray[Any], high: NDArray[Any]) -> None:
        """Limits of the sums of all cells that are in one of the rows each."""
        matrix = sp.csr_array((np.ones(index.size), (rows.ravel(), index.ravel())), shape=(low.size, index.size))
        constraints.append(
            LinearConstraint(sp.hstack([matrix, -matrix]), *(one - matrix @ floors.ravel() for one in (low, high)))
        )

    if family.parent is not None:
        parent = np.rint(family.parent)
        limit(np.tile(np.arange(n_cells), (n_children, 1)), parent, parent)
    for partition in chain:
        rows = np.arange(n_children)[:, None] * partition.size + partition.group[None, :]
        limit(rows, partition.lower.ravel(), partition.upper.ravel())
    unit = np.where(fractions == 0, 1.0, cost / (COST_UNIT * TIE_RANGE)).ravel()
    bounds = Bounds(0, np.concatenate([above.ravel(), below.ravel()]))
    result = milp(np.append(unit, np.ones(index.size)), integrality=1, bounds=bounds, constraints=constraints)
    if result.x is None:
        raise SolverError(f"{family.name}: no whole numbers next to the solution keep its constraints")
    up, down = np.rint(result.x).astype(np.int64).reshape(2, n_children, n_cells)
    return floors + up - down


#: Parts of a unit of the objective in which swaps are compared, to the nearest, so that the last bits do not matter: a
#: swap that gains nothing but the last bits could be undone and done again without end.
_PARTS = float(1 << 20)
#: Swaps for each cell of a family, at most.
_MOST_SWAPS = 4


def swapped(family: Family, x: FloatArray, rounded: IntArray, chain: Sequence[GroupLevel]) -> IntArray:
    """Whole numbers `(C, k)` with the same sums and a lower objective, or the same.

    Args:
        family: what was solved.
        x: its solution, `(C, k)`.
        rounded: whole numbers that keep the constraints, `(C, k)`.
        chain: groups whose sums in each child stay the same.
    """
    floors, fractions = snap(x)
    solution = floors + fractions / COST_UNIT
    movable = fractions > 0
    out = rounded.copy()
    n_children, n_cells = out.shape
    together = ~np.eye(n_cells, dtype=bool)
    for partition in chain:
        together &= partition.group[:, None] == partition.group[None, :]
    if n_children < 2 or n_cells < 2 or not together.any():
        return out
    matrices = family.matrices[family.kinds]
    diagonal = np.diagonal(matrices, axis1=1, axis2=2)
    bend = 0.5 * (diagonal[:, :, None] + diagonal[:, None, :]) - matrices
    gradient = np.matmul(matrices, (out - solution)[:, :, None])[:, :, 0]
    for _ in range(_MOST_SWAPS * out.size):
        # What it costs a child to have one less in the first cell and one more in the second.
        less, more = movable & (out > floors), movable & (out == floors)
        allowed = less[:, :, None] & more[:, None, :] & together
        cost = np.where(allowed, gradient[:, None, :] - gradient[:, :, None] + bend, np.inf)
        best = cost.min(axis=0)
        pairs = best + best.T
        steps = _in_parts(pairs)
        at = int(np.argmin(steps))
        if steps.flat[at] >= 0:
            break
        one, other = divmod(at, n_cells)
        first, second = int(np.argmin(cost[:, one, other])), int(np.argmin(cost[:, other, one]))
        for child, sign in ((first, 1), (second, -1)):
            out[child, one] -= sign
            out[child, other] += sign
            gradient[child] += sign * (matrices[child, :, other] - matrices[child, :, one])
    return out


def _in_parts(gains: FloatArray) -> FloatArray:
    """What swaps change the objective by, in whole parts; 0 where there is no swap."""
    return np.where(np.isfinite(gains), np.rint(gains * _PARTS), 0.0)
