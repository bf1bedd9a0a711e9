"""Families with some inequalities taken as equalities: the linear equations of their stationary points.

Each child's free cells are eliminated first, then the multipliers of its sums. The multipliers nu of the parent's sums,
which couple the children, then solve one system with as many unknowns as cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from postprocess.arrays import BoolArray, FloatArray
from postprocess.families.stack import Stack

#: Relative size of pivots that count as zero.
PIVOT = 1e-11
#: Numbers of matrices that are inverted in one call.
TOGETHER = 1_000_000
#: Cells from which a matrix is inverted by its Cholesky factor, by itself.
LARGE = 64


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
    """

    x: FloatArray
    gradient: FloatArray
    multipliers: FloatArray
    missed: FloatArray
    slope: FloatArray | None
    row_slope: FloatArray | None


def stationary(stack: Stack, active: Active, nu: FloatArray, multipliers: FloatArray, met: float) -> Stationary:
    """The stationary points, corrected once where they miss the equalities, since counts of millions lose digits.

    Args:
        stack: the families.
        active: the inequalities that are taken as equalities.
        nu: `(F, k)`; multipliers of the parent's sums that are not determined by the equations keep these values.
        multipliers: `(N, g)`, the same.
        met: persons by which an equality may be missed.
    """
    equalities = _Equalities(stack, active)
    x = np.where(active.free, 0.0, active.fixed)
    multipliers = multipliers * equalities.row_mask
    target = np.where(active.rows > 0, stack.row_upper, np.where(active.rows < 0, stack.row_lower, 0.0))
    missing, parent = _left(stack, x, target, equalities.row_mask)
    for _ in range(2):
        linear = stack.linear + nu[stack.family] + stack.on_cells(multipliers)
        if x.any():
            linear -= stack.times(x)
        step = equalities.solve(linear, missing, parent)
        x, nu, multipliers = x + step[0], nu + step[1], multipliers + step[2]
        missing, parent = _left(stack, x, target, equalities.row_mask)
        missed = np.maximum(
            np.maximum.reduceat(np.abs(missing).max(axis=1, initial=0.0), stack.first), np.abs(parent).max(axis=1)
        )
        if (missed < 0.01 * met).all():
            break
    gradient = stack.times(x) - stack.linear - nu[stack.family] - stack.on_cells(multipliers)
    slope = row_slope = None
    if (missed >= met).any():
        slope, row_slope = equalities.ray(parent, missing)
    return Stationary(x, gradient, multipliers, missed, slope, row_slope)


def _left(stack: Stack, x: FloatArray, target: FloatArray, row_mask: FloatArray) -> tuple[FloatArray, FloatArray]:
    """By how much the active sums `(N, g)` and the parent's `(F, k)` are missed."""
    parent = stack.parent - stack.over_children(x) if stack.shape.has_parent else np.zeros_like(stack.parent)
    return (target - stack.row_sums(x)) * row_mask, parent


class _Equalities:
    """A factorisation of the equations, which solves them for any right-hand sides."""

    def __init__(self, stack: Stack, active: Active) -> None:
        self.stack = stack
        self.mask = active.free.astype(np.float64)
        self.row_mask = (active.rows != 0).astype(np.float64)
        self.inverse = _inverse_on(stack, active.free)
        if stack.shape.rows:
            matrix = stack.matrix[stack.family] * self.row_mask[:, :, None] * self.mask[:, None, :]
            self.by_row = matrix @ self.inverse
            middle = self.by_row @ np.swapaxes(matrix, 1, 2)
            self.middle_inverse = _pseudo_inverse_on(middle, active.rows != 0)
            self.weights = self.middle_inverse @ self.by_row
        if stack.shape.has_parent:
            total = np.zeros((len(stack.families), stack.shape.cells, stack.shape.cells))
            for matrix_sum, rows in zip(total, stack.children, strict=True):
                matrix_sum += self.inverse[rows].sum(axis=0)
                if stack.shape.rows:
                    by_row, weights = (m[rows].reshape(-1, stack.shape.cells) for m in (self.by_row, self.weights))
                    matrix_sum -= by_row.T @ weights
            self.total = 0.5 * (total + np.swapaxes(total, 1, 2))

    def solve(
        self, linear: FloatArray, sums: FloatArray, parent: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The free cells `(N, k)` (0 in the others), nu `(F, k)` and the sums' multipliers `(N, g)`.

        Args:
            linear: `(N, k)` of the free cells, the fixed ones' part taken off; what others hold does not matter.
            wanted: `(N, g)` active sums over the free cells.
            parent: `(F, k)` sums of the free cells over the children.
        """
        stack = self.stack
        has_rows = stack.shape.rows > 0
        right = linear * self.mask
        x = _times(self.inverse, right)
        nu = np.zeros_like(parent)
        missed = sums
        if has_rows:
            missed = sums - _times(self.by_row, right)
            x += np.matmul(missed[:, None, :], self.weights)[:, 0]
        if stack.shape.has_parent:
            nu = _pseudo_solve(self.total, (parent - stack.over_children(x))[:, :, None])[:, :, 0]
            on_children = nu[stack.family]
            x += _times(self.inverse, on_children)
            if has_rows:
                by_nu = _times(self.by_row, on_children)
                x -= np.matmul(by_nu[:, None, :], self.weights)[:, 0]
                missed = missed - by_nu
        return x, nu, _times(self.middle_inverse, missed) * self.row_mask if has_rows else missed

    def ray(self, parent: FloatArray, sums: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How gradient and multipliers change as nu and the sums' multipliers follow what is missed."""
        on_children = parent[self.stack.family]
        step = sums
        if self.stack.shape.rows:
            step = sums - _times(self.middle_inverse, _times(self.by_row, on_children)) * self.row_mask
        return -(on_children + self.stack.on_cells(step)), step


def _times(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    return np.asarray(np.matmul(matrices, vectors[:, :, None])[:, :, 0])


def _pseudo_solve(matrices: FloatArray, right: FloatArray) -> FloatArray:
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


def _inverse(matrices: FloatArray) -> FloatArray:
    """Inverses of stacked positive definite matrices; the large ones by their Cholesky factors."""
    if matrices.shape[-1] < LARGE:
        return np.asarray(np.linalg.inv(matrices), dtype=np.float64)
    out = np.empty_like(matrices)
    for inverse, matrix in zip(out, matrices, strict=True):
        factor, failed = lapack.dpotrf(matrix, lower=1)
        lower, singular = lapack.dpotri(factor, lower=1)
        if failed or singular:
            raise np.linalg.LinAlgError("a precision is not positive definite")
        inverse[:] = np.tril(lower) + np.tril(lower, -1).T
    return out


def _inverse_on(stack: Stack, free: BoolArray) -> FloatArray:
    """Inverses of the precisions restricted to each child's free cells, zero elsewhere: `(N, k, k)`.

    Children with the same precision and the same free cells share one; those with about as many are inverted together.
    """
    n_cells = free.shape[1]
    places: dict[tuple[int, bytes], int] = {}
    bits = np.packbits(free, axis=1)
    same = np.array(
        [
            places.setdefault((kind, own.tobytes()), len(places))
            for kind, own in zip(stack.kind.tolist(), bits, strict=True)
        ]
    )
    first = np.zeros(len(places), dtype=np.int64)
    first[same[::-1]] = np.arange(len(same))[::-1]
    count = free[first].sum(axis=1)
    # Numbers of free cells grow by about a third from one call's to the next.
    sizes = np.unique(np.minimum(n_cells, [4 * round((4 / 3) ** i) for i in range(40)]))
    size = sizes[np.searchsorted(sizes, count)]
    inverse = np.zeros((len(first), n_cells, n_cells))
    for n in np.unique(size[count > 0]):
        members = np.flatnonzero((size == n) & (count > 0))
        for some in np.array_split(members, -(-len(members) * int(n) ** 2 // TOGETHER)):
            children = first[some]
            cells = np.argsort(~free[children], axis=1, kind="stable")[:, :n]
            inside = np.arange(n) < count[some][:, None]
            both = inside[:, :, None] & inside[:, None, :]
            at = cells[:, :, None], cells[:, None, :]
            part = np.where(both, stack.precision[stack.kind[children][:, None, None], *at], np.eye(n))
            inverse[some[:, None, None], *at] = np.where(both, _inverse(part), 0.0)
    return inverse if len(first) == len(same) else inverse[same]
