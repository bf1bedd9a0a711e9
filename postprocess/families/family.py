"""One parent and its children: the least-squares problem that a solver is given, and the checks of its solution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from postprocess.arrays import FloatArray, IntArray
from postprocess.families.precisions import Dense, Precisions, kinds_of


@dataclass(frozen=True, eq=False)
class GroupRange:
    """Inequalities on sums over groups of cells: `lower <= sums <= upper`, `(C, g)`; `group` `(k,)` cell -> group."""

    group: IntArray
    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, eq=False)
class Family:
    """Least squares over the C children of one parent and the k cells that are not zero in it.

        minimise   sum_c  1/2 x_c' precision_c x_c - linear_c' x_c
        subject to 0 <= x <= upper,   sum_c x_c = parent,   sums of x_c over held groups = held,   ranges.

    Attributes:
        name: the parent's level and geocode, for messages.
        precision: K different ones, positive definite, in any form.
        linear: `(C, k)`.
        upper: `(C, k)`; 0 where the cell is impossible in the child.
        parent: `(k,)` whole numbers; None at the top of the spine, where nothing is above: each child is a problem by
            itself.
        held_group: `(k,)` held group of each cell; None where nothing is held.
        held: `(C, m)` whole numbers.
        ranges: inequalities on groups of cells.
        kind: `(C,)` which precision a child has; None where all share one (K = 1) or each has its own (K = C).
    """

    name: str
    precision: Precisions
    linear: FloatArray
    upper: FloatArray
    parent: FloatArray | None
    held_group: IntArray | None
    held: FloatArray | None
    ranges: tuple[GroupRange, ...] = ()
    kind: IntArray | None = None

    @property
    def n_children(self) -> int:
        """C, the number of children."""
        return self.linear.shape[0]

    @property
    def n_cells(self) -> int:
        """k, the number of cells."""
        return self.linear.shape[1]

    @property
    def shared(self) -> bool:
        """Whether all children have the same precision."""
        return len(self.precision) == 1

    @property
    def matrices(self) -> FloatArray:
        """All numbers of the precisions, `(K, k, k)`."""
        return self.precision.matrices()

    @property
    def scale(self) -> float:
        """The median of the precisions' diagonals."""
        return float(np.median(self.diagonals))

    @property
    def diagonals(self) -> FloatArray:
        """Of the precisions, `(K, k)`."""
        return self.precision.diagonals()

    @cached_property
    def kinds(self) -> IntArray:
        """Which precision each child has, `(C,)`."""
        return kinds_of(self.kind, len(self.precision), self.n_children)

    def with_matrices(self) -> Family:
        """The same family with its precisions as matrices over all cells."""
        return replace(self, precision=Dense(self.matrices))

    def of_children(self, rows: IntArray) -> Family:
        """The problem of some children, where there is no parent."""
        assert self.parent is None
        return replace(
            self,
            linear=self.linear[rows],
            upper=self.upper[rows],
            held=None if self.held is None else self.held[rows],
            ranges=tuple(GroupRange(one.group, one.lower[rows], one.upper[rows]) for one in self.ranges),
            kind=self.kinds[rows],
        )

    @property
    def arrays(self) -> tuple[FloatArray | IntArray | None, ...]:
        """All arrays of the problem but those of its ranges; of the precisions the diagonals `(K, k)`.

        They tell the problems of a run apart: linear terms are noisy numbers, weighted by the precisions.
        """
        return (self.diagonals, self.kind, self.linear, self.upper, self.parent, self.held_group, self.held)

    def times(self, x: FloatArray) -> FloatArray:
        """Each child's precision times its row of `x` `(C, k)`."""
        return self.precision.times(x, self.kind)


@dataclass(frozen=True, eq=False)
class Solution:
    """A solver's result: `x` `(C, k)`, the solver, its iterations and its residuals.

    The primal residual is in persons, the dual one relative to the largest linear term (cvxpy: as it reports it).
    `families`: how many it is of; areas without a parent are a family each.
    """

    x: FloatArray
    solver: str
    iterations: int
    primal: float
    dual: float
    families: int = 1


def one_hot(group: IntArray, size: int) -> FloatArray:
    """`(k, size)` indicator matrix of a grouping."""
    return np.asarray(group[:, None] == np.arange(size)[None, :], dtype=np.float64)


def violation(family: Family, x: FloatArray) -> float:
    """The largest violation of any constraint by `x`, in persons."""
    worst = float(violations(family, x).max(initial=0.0))
    if family.parent is None:
        return worst
    return max(worst, float(np.abs(x.sum(axis=0) - family.parent).max(initial=0.0)))


def violations(family: Family, x: FloatArray) -> FloatArray:
    """The largest violation of each child's own constraints by `x`, in persons, `(C,)`."""
    worst = np.maximum(-x, x - family.upper).max(axis=1, initial=0.0)
    if family.held_group is not None and family.held is not None:
        sums = x @ one_hot(family.held_group, family.held.shape[1])
        worst = np.maximum(worst, np.abs(sums - family.held).max(axis=1, initial=0.0))
    for limits in family.ranges:
        sums = x @ one_hot(limits.group, limits.lower.shape[1])
        worst = np.maximum(worst, np.maximum(limits.lower - sums, sums - limits.upper).max(axis=1, initial=0.0))
    return worst


def objective(family: Family, x: FloatArray) -> float:
    """The objective's value; for comparing solutions, up to a constant."""
    return float((0.5 * x * family.times(x) - family.linear * x).sum())
