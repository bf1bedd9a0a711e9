"""Families with some inequalities taken as equalities: the linear equations of their stationary points.

Each child's free cells are eliminated first, then the multipliers of its sums. The multipliers nu of the parent's sums,
which couple the children, then solve one system with as many unknowns as cells.

Of a large family the inverses and the factor are in single precision, which is half of the memory and less than half of
the time; the solution is corrected by what the precisions themselves leave of the equations, in double precision, until
nothing is left (Wilkinson 1963: iterative refinement). Where that does not get there, all is done in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from postprocess.algebra import symmetrise
from postprocess.arrays import BoolArray, FloatArray, IntArray, largest_of
from postprocess.families.cholesky import Matrices, factor, solve_factored
from postprocess.families.inverses import free_cells, products
from postprocess.families.stack import Stack

#: Relative size of pivots that count as zero.
PIVOT = 1e-11
#: What is added to the diagonal of a large matrix before it is factored, relative to its largest entry: in double
#: precision, and in single.
RIDGE, SINGLE_RIDGE = 1e-13, 1e-6
#: Corrections of a solution in single precision; persons that equalities may be missed by after them, or the parts of
#: the parent's largest cell that double precision does not tell apart; the gradient that free cells may have, relative
#: to the largest linear term; a correction leaves at most this share of both.
CORRECTIONS, CORRECT, APART, GRADIENT, LEFT = 40, 1e-9, 8 * 2.0**-52, 1e-13, 0.7


@dataclass(frozen=True, eq=False)
class Active:
    """Which inequalities are taken as equalities.

    Attributes:
        free: `(N, k)` cells between their limits.
        fixed: `(N, k)` the limit that the others are at.
        rows: `(N, g)` -1 where a sum is at its lower limit, 1 at its upper, 0 between them.
    """

    free: BoolArray
    fixed: FloatArray
    rows: FloatArray

    def of_children(self, rows: BoolArray) -> Active:
        """Those of some children `(N,)`."""
        return Active(self.free[rows], self.fixed[rows], self.rows[rows])


@dataclass(frozen=True, eq=False)
class Stationary:
    """The stationary points.

    Attributes:
        x: `(N, k)`.
        gradient: `(N, k)` of the Lagrangian: 0 in free cells, the multipliers of the limits in the others.
        multipliers: `(N, g)` of the sums.
        missed: `(F,)` persons by which an equality is missed.
        slope: `(N, k)`, where the equalities contradict each other, how fast the gradient changes along the direction
            in which the dual problem has no bound; None where they do not.
        row_slope: `(N, g)` the same of the multipliers.
        single: whether matrices in single precision were enough.
    """

    x: FloatArray
    gradient: FloatArray
    multipliers: FloatArray
    missed: FloatArray
    slope: FloatArray | None
    row_slope: FloatArray | None
    single: bool = False


def stationary(
    stack: Stack, active: Active, nu: FloatArray, multipliers: FloatArray, met: float, *, single: bool = False
) -> Stationary:
    """The stationary points, corrected once where they miss the equalities, since counts of millions lose digits.

    Args:
        stack: the families.
        active: the inequalities that are taken as equalities.
        nu: `(F, k)`; multipliers of the parent's sums that are not determined by the equations keep these values.
        multipliers: `(N, g)`, the same.
        met: persons by which an equality may be missed.
        single: whether matrices in single precision, of one family, are tried first.
    """
    if single:
        try:
            corrected = _corrected(stack, active, nu, multipliers, met)
        except np.linalg.LinAlgError:
            corrected = None
        if corrected is not None:
            return corrected
    equalities = _Equalities(stack, active)
    x = np.where(active.free, 0.0, active.fixed)
    multipliers = multipliers * equalities.row_mask
    target = _targets(stack, active)
    begun = x, nu, multipliers
    missing, parent = _left(stack, x, target, equalities.row_mask)
    for turn in range(4):
        if turn == 2:
            if not equalities.solve_by_eigenvectors():
                break
            x, nu, multipliers = begun
            missing, parent = _left(stack, x, target, equalities.row_mask)
        linear = stack.linear + nu[stack.family] + stack.on_cells(multipliers)
        if x.any():
            linear -= stack.times(x)
        step = equalities.solve(linear, missing, parent)
        x, nu, multipliers = x + step[0], nu + step[1], multipliers + step[2]
        missing, parent = _left(stack, x, target, equalities.row_mask)
        missed = _missed(stack, missing, parent)
        if (missed < 0.01 * met).all():
            break
    gradient = stack.times(x) - stack.linear - nu[stack.family] - stack.on_cells(multipliers)
    return _at(x, gradient, multipliers, missed, met, equalities, (parent, missing))


def _corrected(stack: Stack, active: Active, nu: FloatArray, multipliers: FloatArray, met: float) -> Stationary | None:
    """The stationary point of one large family by corrections of what single precision gives; None if they fail.

    Equalities without a free cell cannot be met; that does not count.
    """
    equalities = _Equalities(stack, active, single=True)
    x = np.where(active.free, 0.0, active.fixed)
    multipliers = multipliers * equalities.row_mask
    target = _targets(stack, active)
    possible = stack.row_sums(active.free.astype(np.float64)) > 0, active.free.any(axis=0)
    tolerance = GRADIENT * max(1.0, largest_of(stack.linear))
    persons = max(CORRECT, APART * largest_of(stack.parent))
    before = np.inf
    for _ in range(CORRECTIONS):
        gradient = stack.times(x) - stack.linear - nu[stack.family] - stack.on_cells(multipliers)
        missing, parent = _left(stack, x, target, equalities.row_mask)
        left = max(
            largest_of(missing[possible[0]]) / persons,
            largest_of(parent[0, possible[1]]) / persons,
            largest_of(gradient[active.free]) / tolerance,
        )
        if left <= 1.0:
            missed = _missed(stack, missing, parent)
            return replace(_at(x, gradient, multipliers, missed, met, equalities, (parent, missing)), single=True)
        if not left <= LEFT * before:
            return None
        before = left
        step = equalities.solve(-gradient, missing, parent)
        x, nu, multipliers = x + step[0], nu + step[1], multipliers + step[2]
    return None


def _at(
    x: FloatArray,
    gradient: FloatArray,
    multipliers: FloatArray,
    missed: FloatArray,
    met: float,
    equalities: _Equalities,
    left: tuple[FloatArray, FloatArray],
) -> Stationary:
    """The stationary points, with the direction to go where some equalities are missed."""
    slope = row_slope = None
    if (missed >= met).any():
        slope, row_slope = equalities.ray(*left)
    return Stationary(x, gradient, multipliers, missed, slope, row_slope)


def _targets(stack: Stack, active: Active) -> FloatArray:
    """What the active sums are to be, `(N, g)`."""
    return np.where(active.rows > 0, stack.row_upper, np.where(active.rows < 0, stack.row_lower, 0.0))


def _missed(stack: Stack, sums: FloatArray, parent: FloatArray) -> FloatArray:
    """Persons by which an equality of each family is missed, `(F,)`."""
    of_sums = np.maximum.reduceat(np.abs(sums).max(axis=1, initial=0.0), stack.first)
    return np.maximum(of_sums, np.abs(parent).max(axis=1))


def _left(stack: Stack, x: FloatArray, target: FloatArray, row_mask: FloatArray) -> tuple[FloatArray, FloatArray]:
    """By how much the active sums `(N, g)` and the parent's `(F, k)` are missed."""
    parent = stack.parent - stack.over_children(x) if stack.shape.has_parent else np.zeros_like(stack.parent)
    return (target - stack.row_sums(x)) * row_mask, parent


class _Equalities:
    """A factorisation of the equations, which solves them for any right-hand sides."""

    def __init__(self, stack: Stack, active: Active, *, single: bool = False) -> None:
        self.stack = stack
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self.row_mask = (active.rows != 0).astype(np.float64)
        self.free = free_cells(stack.precision, stack.kind, active.free, large=stack.large, single=single)
        self.by_row: list[Matrices] = []
        self.weights: list[Matrices] = []
        if stack.shape.rows:
            middle = np.zeros((len(stack.family), stack.shape.rows, stack.shape.rows))
            for cells in self.free:
                sums = cells.of_sums(stack.matrix, stack.family, self.row_mask).astype(cells.inverse.dtype, copy=False)
                self.by_row.append(sums @ cells.inverse)
                middle[cells.members] = self.by_row[-1] @ np.swapaxes(sums, 1, 2)
            self.middle_inverse = _pseudo_inverse_on(middle, active.rows != 0)
            for cells, by_row in zip(self.free, self.by_row, strict=True):
                self.weights.append(self.middle_inverse[cells.members].astype(by_row.dtype, copy=False) @ by_row)
        self.factor: tuple[IntArray, Matrices] | None = None
        if stack.shape.has_parent:
            self.total = self._total()
            if stack.large:
                self._factor_total()

    def _factor_total(self) -> None:
        """Overwrite the matrix of a large family by its factor, if it has one.

        Cells that are free in no child have a row of zeros, and sums that are held in all children make the rest
        singular by as many, whose right-hand side is 0 in these directions: there any multiplier will do.
        """
        (total,) = self.total
        on = np.flatnonzero(np.diagonal(total) > 0)
        if len(on) < len(total):
            total = total[on[:, None], on[None, :]]
        single = self.dtype == np.float32
        total.flat[:: len(total) + 1] += (SINGLE_RIDGE if single else RIDGE) * np.diagonal(total).max(initial=0.0)
        if factor(total):
            self.factor, self.total = (on, total), np.zeros((0, 0, 0))
        elif single:
            raise np.linalg.LinAlgError("the matrix of the parent's sums is not definite in single precision")
        else:
            self.total = self._total()

    def solve_by_eigenvectors(self) -> bool:
        """Go on by eigenvectors, where a factor did not do; False if there was none."""
        if self.factor is None:
            return False
        self.factor, self.total = None, self._total()
        return True

    def _multipliers(self, right: FloatArray) -> FloatArray:
        """The multipliers nu `(F, k)` for right-hand sides `(F, k)`: the least, or where it does not matter any."""
        if self.factor is None:
            return _pseudo_solve(self.total, right[:, :, None])[:, :, 0]
        on, factored = self.factor
        nu = np.zeros_like(right)
        nu[0, on] = solve_factored(factored, right[0, on])
        return nu

    def _total(self) -> Matrices:
        """How the children's cells together follow the multipliers of the parent's sums: `(F, k, k)`."""
        stack = self.stack
        total = np.zeros((len(stack.families), stack.shape.cells, stack.shape.cells), dtype=self.dtype)
        if stack.large:  # only one triangle is used
            for number, cells in enumerate(self.free):
                own = (self.by_row[number], self.weights[number]) if stack.shape.rows else (None, None)
                cells.add_projected_to(total[0], *own)
            return total
        for number, cells in enumerate(self.free):
            follow = cells.inverse
            if stack.shape.rows:
                follow = follow - np.swapaxes(self.by_row[number], 1, 2) @ self.weights[number]
            cells.add_to(total, stack.family, follow)
        return symmetrise(total)

    def _cells(self, right: FloatArray) -> FloatArray:
        """The inverses times `(N, k)`, 0 in cells that are not free."""
        out = np.zeros_like(right)
        for cells in self.free:
            out[cells.at] = cells.times(cells.inverse, right)
        return out

    def _sums(self, right: FloatArray) -> FloatArray:
        """The active sums `(N, g)` over the inverses times `(N, k)`."""
        out = np.zeros_like(self.row_mask)
        for cells, by_row in zip(self.free, self.by_row, strict=True):
            out[cells.members] = cells.times(by_row, right)
        return out

    def _moved(self, missed: FloatArray) -> FloatArray:
        """How the cells `(N, k)` make up for what is missed of the sums `(N, g)`."""
        out = np.zeros((len(missed), self.stack.shape.cells))
        for cells, weights in zip(self.free, self.weights, strict=True):
            out[cells.at] = np.matmul(missed[cells.members][:, None, :].astype(weights.dtype, copy=False), weights)[
                :, 0
            ]
        return out

    def solve(
        self, linear: FloatArray, sums: FloatArray, parent: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The free cells `(N, k)` (0 in the others), nu `(F, k)` and the sums' multipliers `(N, g)`.

        Args:
            linear: `(N, k)` of the free cells, the fixed ones' part taken off; what others hold does not matter.
            sums: `(N, g)` what the active sums over the free cells have to be.
            parent: `(F, k)` sums of the free cells over the children.
        """
        stack = self.stack
        has_rows = stack.shape.rows > 0
        x = self._cells(linear)
        nu = np.zeros_like(parent)
        missed = sums
        if has_rows:
            missed = sums - self._sums(linear)
            x += self._moved(missed)
        if stack.shape.has_parent:
            nu = self._multipliers(parent - stack.over_children(x))
            on_children = nu[stack.family]
            x += self._cells(on_children)
            if has_rows:
                by_nu = self._sums(on_children)
                x -= self._moved(by_nu)
                missed = missed - by_nu
        return x, nu, products(self.middle_inverse, missed) * self.row_mask if has_rows else missed

    def ray(self, parent: FloatArray, sums: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How gradient and multipliers change as nu and the sums' multipliers follow what is missed."""
        on_children = parent[self.stack.family]
        step = sums
        if self.stack.shape.rows:
            step = sums - products(self.middle_inverse, self._sums(on_children)) * self.row_mask
        return -(on_children + self.stack.on_cells(step)), step


def _pseudo_solve(matrices: Matrices, right: FloatArray) -> FloatArray:
    """Least-norm solutions of stacked symmetric positive semidefinite systems."""
    values, vectors = np.linalg.eigh(matrices)
    cut = PIVOT * np.maximum(values[..., -1:], np.finfo(float).tiny)
    inverse = np.where(values > cut, 1.0 / np.where(values > cut, values, 1.0), 0.0)
    return vectors @ (inverse[..., None] * (np.swapaxes(vectors, -1, -2) @ right))


def _pseudo_inverse_on(matrices: FloatArray, used: BoolArray) -> FloatArray:
    """Pseudo-inverses `(N, g, g)` of stacked semidefinite matrices, zero in all rows and columns but those `used`."""
    count = used.sum(axis=1)
    sizes = np.unique(np.minimum(used.shape[1], [*range(1, 9), *range(10, 17, 2), *range(20, used.shape[1] + 4, 4)]))
    size = np.where(count > 0, sizes[np.searchsorted(sizes, count)], 0)
    out = np.zeros_like(matrices)
    for n in np.unique(size[size > 0]):
        (members,) = np.nonzero(size == n)
        rows = np.argsort(~used[members], axis=1, kind="stable")[:, :n]
        at = members[:, None, None], rows[:, :, None], rows[:, None, :]
        part = matrices[at]
        out[at] = _pseudo_solve(part, np.broadcast_to(np.eye(n), part.shape))
    return out
