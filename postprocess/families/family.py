"""One parent and its children: the least-squares problem that a solver is given, and the checks of its solution.

Families of similar size with their children stacked, so that one array call serves them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from postprocess.arrays import BoolArray, FloatArray, IntArray, group_sums, largest_of
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

    def limits_of(self, sums: GroupRange) -> tuple[FloatArray, FloatArray]:
        """Limits of sums `(C, g)`, infinite where the limits of their cells imply them."""
        fixed = sums.lower >= sums.upper
        lower = np.where(fixed | (sums.lower > 0), sums.lower, -np.inf)
        return lower, np.where(fixed | (sums.upper < group_sums(self.upper, sums.group, sums.size)), sums.upper, np.inf)

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
        """All arrays of the problem; of the precisions the diagonals `(K, k)`.

        They tell the problems of a run apart: linear terms are noisy numbers, weighted by the precisions.
        """
        sums = (array for one in self.sums for array in (one.group, one.lower, one.upper))
        return (self.diagonals, self.kind, self.linear, self.upper, self.parent, *sums)

    def times(self, x: FloatArray) -> FloatArray:
        """Each child's precision times its row of `x` `(C, k)`."""
        return self.precision.times(x, self.kind)

    def times_columns(self, cells: FloatArray) -> FloatArray:
        """The same of cells `(k, C)`."""
        return self.precision.times_columns(cells, self.kinds)


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


#: Cells up to which families are solved together, with matrices over all cells of all children.
MOST_TOGETHER = 96
#: Bytes per number of these matrices: in double precision, some copies at a time.
STACK_BYTES = 36.0


def padded(n: int) -> int:
    """Sizes rounded up, so that few different ones remain and little is wasted."""
    step = 4 if n <= 16 else 8 if n <= 64 else 32
    return -(-n // step) * step


@dataclass(frozen=True)
class Shape:
    """What families of one stack share: numbers of cells and of sums over groups of cells, rounded up."""

    cells: int
    rows: int
    has_parent: bool

    @classmethod
    def of(cls, family: Family) -> Shape:
        """The shape of a family."""
        rows = sum(sums.size for sums in family.sums)
        return cls(padded(family.n_cells), rows if rows < 2 else padded(rows), family.parent is not None)


@dataclass(frozen=True, eq=False)
class Stack:
    """F families with N children together, k cells and g sums; what is padding is impossible, and has no limits.

    Limits that other constraints imply are infinite: as equalities they would contradict each other, and their
    multipliers would not be unique.

    Attributes:
        families: as they were given.
        first: `(F,)` the first child of each.
        family: `(N,)` the family of each child.
        precision: K different ones of all families, zero in the padding.
        kind: `(N,)` which precision a child has.
        linear: `(N, k)`.
        upper: `(N, k)` limits of single cells.
        parent: `(F, k)`; zeros where there is none.
        matrix: `(F, g, k)` the cells of each sum: held ones, then ranges.
        row_lower: `(N, g)`.
        row_upper: `(N, g)`.
        held: `(F, g)` True for sums that are always active.
    """

    families: tuple[Family, ...]
    shape: Shape
    first: IntArray
    family: IntArray
    precision: Dense
    kind: IntArray
    linear: FloatArray
    upper: FloatArray
    parent: FloatArray
    matrix: FloatArray
    row_lower: FloatArray
    row_upper: FloatArray
    held: BoolArray

    @classmethod
    def of(cls, families: Sequence[Family], shape: Shape) -> Stack:
        """Families of one shape, padded to it."""
        sizes = [family.n_children for family in families]
        kinds = [len(family.precision) for family in families]
        n, k, g = sum(sizes), shape.cells, shape.rows
        numbers = np.zeros((sum(kinds), k, k))
        stack = cls(
            families=tuple(families),
            shape=shape,
            first=np.cumsum([0, *sizes[:-1]]),
            family=np.repeat(np.arange(len(families)), sizes),
            precision=Dense(numbers),
            kind=np.zeros(n, dtype=np.int64),
            linear=np.zeros((n, k)),
            upper=np.zeros((n, k)),
            parent=np.zeros((len(families), k)),
            matrix=np.zeros((len(families), g, k)),
            row_lower=np.full((n, g), -np.inf),
            row_upper=np.full((n, g), np.inf),
            held=np.zeros((len(families), g), dtype=bool),
        )
        first_kind = 0
        for i, (family, rows) in enumerate(zip(families, stack.children, strict=True)):
            cells = family.n_cells
            numbers[first_kind : first_kind + kinds[i], :cells, :cells] = family.matrices
            stack.kind[rows] = first_kind + family.kinds
            first_kind += kinds[i]
            stack.linear[rows, :cells] = family.linear
            stack.upper[rows, :cells] = _not_implied(family)
            if family.parent is not None:
                stack.parent[i, :cells] = family.parent
            _put_sums(family, stack.matrix[i, :, :cells], stack.row_lower[rows], stack.row_upper[rows], stack.held[i])
        return stack

    @property
    def children(self) -> list[slice]:
        """The children of each family."""
        ends = [*self.first[1:], len(self.family)]
        return [slice(int(first), int(end)) for first, end in zip(self.first, ends, strict=True)]

    def keep(self, alive: BoolArray) -> Stack:
        """The stack without the families that are not `alive` `(F,)`."""
        rows = alive[self.family]
        sizes = np.bincount(self.family, minlength=len(self.first))[alive]
        return Stack(
            families=tuple(family for family, stays in zip(self.families, alive, strict=True) if stays),
            shape=self.shape,
            first=np.cumsum([0, *sizes[:-1]]),
            family=np.repeat(np.arange(len(sizes)), sizes),
            precision=self.precision,
            kind=self.kind[rows],
            linear=self.linear[rows],
            upper=self.upper[rows],
            parent=self.parent[alive],
            matrix=self.matrix[alive],
            row_lower=self.row_lower[rows],
            row_upper=self.row_upper[rows],
            held=self.held[alive],
        )

    def times(self, x: FloatArray) -> FloatArray:
        """Each child's precision times its row of `x` `(N, k)`."""
        out = np.zeros_like(x)
        for family, rows in zip(self.families, self.children, strict=True):
            out[rows, : family.n_cells] = family.times(x[rows, : family.n_cells])
        return out

    def row_sums(self, x: FloatArray) -> FloatArray:
        """The sums `(N, g)` of cells `(N, k)`."""
        out = np.zeros((len(x), self.shape.rows))
        for matrix, rows in zip(self.matrix, self.children, strict=True):
            out[rows] = x[rows] @ matrix.T
        return out

    def on_cells(self, of_rows: FloatArray) -> FloatArray:
        """The values at the sums `(N, g)` spread over their cells: `(N, k)`."""
        out = np.zeros((len(of_rows), self.shape.cells))
        for matrix, rows in zip(self.matrix, self.children, strict=True):
            out[rows] = of_rows[rows] @ matrix
        return out

    def over_children(self, values: FloatArray) -> FloatArray:
        """Sums over the children of each family: `(F, ...)` of `(N, ...)`."""
        return np.add.reduceat(values, self.first, axis=0)


def _put_sums(family: Family, matrix: FloatArray, lower: FloatArray, upper: FloatArray, held: BoolArray) -> None:
    """Write the sums of a family side by side: held sums, then its ranges."""
    end = 0
    for limits in family.sums:
        rows = slice(end, end + limits.size)
        matrix[rows] = limits.matrix.T
        held[rows] = limits is family.held
        lower[:, rows], upper[:, rows] = family.limits_of(limits)
        end = rows.stop


def _not_implied(family: Family) -> FloatArray:
    """Upper limits `(C, k)`, infinite where non-negative cells with the parent's or the held sums are below them."""
    implied = np.zeros(family.upper.shape, dtype=bool)
    if family.parent is not None:
        implied |= family.upper >= family.parent
    if family.held is not None:
        implied |= family.upper >= family.held.lower[:, family.held.group]
    return np.where(implied & (family.upper > 0), np.inf, family.upper)
