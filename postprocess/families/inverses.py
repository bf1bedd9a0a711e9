"""Inverses of the precisions restricted to each child's free cells, kept for these cells alone.

Few cells of a large family are free in one child, so all `k x k` matrices together would be mostly zeros. A large
family's inverses are in single precision, which is half of the memory and of the time; what is solved with them is
corrected with the precisions themselves until it is exact (`equalities`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from postprocess.algebra import chunks
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.families.cholesky import Matrices, factor, inverse_of_factored
from postprocess.families.precisions import LARGE, Precisions, places

#: Numbers of matrices that are inverted in one call.
TOGETHER = 1_000_000


@dataclass(frozen=True, eq=False)
class FreeCells:
    """Children with about as many free cells, and the inverses on them.

    Attributes:
        members: `(m,)` rows of the stack.
        cells: `(m, n)` their free cells, in order, then some that are not free, to make up n.
        inverse: `(m, n, n)`; 0 where a cell is not free. In single or double precision.
    """

    members: IntArray
    cells: IntArray
    inverse: Matrices

    @cached_property
    def at(self) -> tuple[IntArray, IntArray]:
        """Where the cells are in an array `(N, k)`."""
        return self.members[:, None], self.cells

    def times(self, matrices: Matrices, vectors: FloatArray) -> FloatArray:
        """Matrices `(m, a, n)` times the cells of vectors `(N, k)`: `(m, a)`."""
        return products(matrices, vectors[self.at])

    def of_sums(self, matrix: FloatArray, family: IntArray, row_mask: FloatArray) -> FloatArray:
        """Which cells are in each sum that is active: `(m, g, n)`; arguments as in `Stack` and `_Equalities`."""
        own, row = family[self.members], np.arange(matrix.shape[1])
        cells = matrix[own[:, None, None], row[None, :, None], self.cells[:, None, :]]
        return cells * row_mask[self.members][:, :, None]

    def add_to(self, totals: Matrices, family: IntArray, matrices: Matrices) -> None:
        """Add matrices `(m, n, n)` of the children to those of their families `(F, k, k)`, in place."""
        own, k = family[self.members], totals.shape[-1]
        for some in chunks(len(own), self.cells.shape[1] ** 2, TOGETHER):
            of_pairs = places(own[some], self.cells[some], k)
            totals += np.bincount(of_pairs.ravel(), matrices[some].ravel(), totals.size).reshape(totals.shape)

    def add_projected_to(self, total: Matrices, by_row: Matrices | None, weights: Matrices | None) -> None:
        """Add to the matrix `(k, k)` of the one family the inverses less `by_row'weights`, `(m, g, n)` each, in place.

        A few rows at a time, so that nothing else has as many numbers.
        """
        for member, (cells, inverse) in enumerate(zip(self.cells, self.inverse, strict=True)):
            for rows in chunks(len(cells), (1 + len(cells) // 64) ** 2, TOGETHER):
                part = inverse[rows]
                if by_row is not None and weights is not None:
                    part = part - by_row[member, :, rows].T @ weights[member]
                total[cells[rows, None], cells[None, :]] += part


def products(matrices: Matrices, vectors: FloatArray) -> FloatArray:
    """Each matrix `(m, a, n)` times its vector `(m, n)`: `(m, a)`, worked out in the precision of the matrices."""
    some = vectors.astype(matrices.dtype, copy=False)
    return np.asarray(np.matmul(matrices, some[:, :, None])[:, :, 0], dtype=np.float64)


def free_cells(precision: Precisions, kind: IntArray, free: BoolArray, *, large: bool, single: bool) -> list[FreeCells]:
    """The inverses on the free cells of children; children without any are left out.

    Those with the same precision and the same free cells share one; those with about as many are inverted together.

    Args:
        precision: K different ones.
        kind: `(N,)` which of them a child has.
        free: `(N, k)`.
        large: whether the family is large, so that little may be made up.
        single: whether the inverses are in single precision.

    Raises:
        numpy.linalg.LinAlgError: a matrix is not definite, in the precision asked for.
    """
    n_cells = free.shape[1]
    numbers: dict[tuple[int, bytes], int] = {}
    bits = np.packbits(free, axis=1)
    same = np.array(
        [
            numbers.setdefault((number, own.tobytes()), len(numbers))
            for number, own in zip(kind.tolist(), bits, strict=True)
        ]
    )
    first = np.zeros(len(numbers), dtype=np.int64)
    first[same[::-1]] = np.arange(len(same))[::-1]
    count = free[first].sum(axis=1)
    # Numbers of free cells grow by about a third from one call's to the next.
    steps = [4 * round((4 / 3) ** i) for i in range(40)]
    if large:
        steps = [*(step for step in steps if step < LARGE), *range(LARGE, n_cells + 32, 32)]
    sizes = np.unique(np.minimum(n_cells, steps))
    size = np.where(count > 0, sizes[np.searchsorted(sizes, count)], 0)
    out = []
    for n in np.unique(size[size > 0]):
        of_size = np.flatnonzero(size == n)
        for some in chunks(len(of_size), int(n) ** 2, TOGETHER):
            distinct = of_size[some]
            children = first[distinct]
            cells = np.argsort(~free[children], axis=1, kind="stable")[:, :n]
            inverses = _inverses(precision, kind[children], cells, count[distinct], single=single)
            members = np.flatnonzero(np.isin(same, distinct))
            if len(members) > len(distinct):
                which = np.searchsorted(distinct, same[members])
                cells, inverses = cells[which], inverses[which]
            else:
                members = children
            out.append(FreeCells(members, cells, inverses))
    return out


def _inverses(precision: Precisions, kinds: IntArray, cells: IntArray, counts: IntArray, *, single: bool) -> Matrices:
    """Inverses `(m, n, n)` of the precisions of some kinds on the first cells of each row, as many as it counts."""
    n, part = cells.shape[1], precision.principal(kinds, cells, single=single)
    inside = np.arange(n) < counts[:, None]
    if not inside.all():
        part = np.where(inside[:, :, None] & inside[:, None, :], part, np.eye(n, dtype=part.dtype))
    out = inverse(part)
    out[:, np.arange(n), np.arange(n)] *= inside
    return out


def inverse(matrices: Matrices) -> Matrices:
    """Inverses of stacked positive definite matrices, which are overwritten; large ones by their Cholesky factors."""
    n = matrices.shape[-1]
    if n < LARGE:
        return np.linalg.inv(matrices)
    for matrix in matrices:
        if not factor(matrix) or not inverse_of_factored(matrix):
            raise np.linalg.LinAlgError("a precision is not positive definite")
        lower = matrix.T
        for rows in chunks(n, (1 + n // 64) ** 2, TOGETHER):
            own = lower[rows]
            matrix[rows] = np.where(np.arange(n)[None, :] > np.arange(n)[rows, None], lower.T[rows], own)
    return matrices
