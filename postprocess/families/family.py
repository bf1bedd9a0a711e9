"""One parent and its children: the least-squares problem that a solver is given, and the checks of its solution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from postprocess.arrays import FloatArray, IntArray, largest_of
from postprocess.families.precisions import Dense, Precisions, kinds_of


@dataclass(frozen=True, eq=False)
class GroupRange:
    """Inequalities on sums over groups of cells: `lower <= sums <= upper`, `(C, g)`; `group` `(k,)` cell -> group."""

    group: IntArray
    lower: NDArray[Any]
    upper: NDArray[Any]

    @classmethod
    def fixed(cls, group: IntArray, sums: NDArray[Any]) -> Self:
        """Sums `(C, g)` that are to be met."""
        values = sums.astype(np.float64)
        return cls(group, values, values)

    @property
    def size(self) -> int:
        """g, the number of groups."""
        return self.lower.shape[1]

    @property
    def matrix(self) -> FloatArray:
        """`(k, g)` indicator matrix of the grouping."""
        return np.asarray(self.group[:, None] == np.arange(self.size)[None, :], dtype=np.float64)

    def of_children(self, rows: IntArray) -> Self:
        """Those of some children."""
        return replace(self, lower=self.lower[rows], upper=self.upper[rows])


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
        held: sums of groups that are fixed, `(C, m)` whole numbers; None where nothing is held.
        ranges: inequalities on groups of cells.
        kind: `(C,)` which precision a child has; None where all share one (K = 1) or each has its own (K = C).
    """

    name: str
    precision: Precisions
    linear: FloatArray
    upper: FloatArray
    parent: FloatArray | None
    held: GroupRange | None = None
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

    @property
    def sums(self) -> tuple[GroupRange, ...]:
        """All limited sums: what is held, then the ranges."""
        return self.ranges if self.held is None else (self.held, *self.ranges)

    def side_by_side(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """All ranges together: the matrix `(k, g)` of their groups, and their lower and upper limits `(C, g)`."""
        nothing = np.zeros((self.n_children, 0))
        every = (GroupRange(np.zeros(self.n_cells, dtype=np.int64), nothing, nothing), *self.ranges)
        matrix = np.hstack([one.matrix for one in every])
        return matrix, np.hstack([one.lower for one in every]), np.hstack([one.upper for one in every])

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
            held=None if self.held is None else self.held.of_children(rows),
            ranges=tuple(one.of_children(rows) for one in self.ranges),
            kind=self.kinds[rows],
        )

    @property
    def arrays(self) -> tuple[FloatArray | IntArray | None, ...]:
        """All arrays of the problem but those of its ranges; of the precisions the diagonals `(K, k)`.

        They tell the problems of a run apart: linear terms are noisy numbers, weighted by the precisions.
        """
        held = () if self.held is None else (self.held.group, self.held.lower)
        return (self.diagonals, self.kind, self.linear, self.upper, self.parent, *held)

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


def clipped(family: Family, x: FloatArray) -> tuple[FloatArray, float]:
    """`x` within the limits of its cells, and the largest violation of any constraint by the one or the other."""
    inside = np.clip(x, 0.0, family.upper)
    return inside, max(largest_of(inside - x), violation(family, inside))


def violation(family: Family, x: FloatArray) -> float:
    """The largest violation of any constraint by `x`, in persons."""
    worst = float(violations(family, x).max(initial=0.0))
    if family.parent is None:
        return worst
    return max(worst, largest_of(x.sum(axis=0) - family.parent))


def violations(family: Family, x: FloatArray) -> FloatArray:
    """The largest violation of each child's own constraints by `x`, in persons, `(C,)`."""
    worst = np.maximum(-x, x - family.upper).max(axis=1, initial=0.0)
    for limits in family.sums:
        sums = x @ limits.matrix
        worst = np.maximum(worst, np.maximum(limits.lower - sums, sums - limits.upper).max(axis=1, initial=0.0))
    return worst
