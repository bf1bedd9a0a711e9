"""The precisions of a family's children: what is asked of them in any form, the plainest form, matrices, and inverses.

Weights on sums of cells (`sum_weights`) take less memory and fewer operations.

Inverses of the precisions restricted to each child's free cells are kept for these cells alone: few cells of a large
family are free in one child, so all `k x k` matrices together would be mostly zeros.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from postprocess.algebra import chunks
from postprocess.arrays import BoolArray, FloatArray, IntArray


class Precisions(ABC):
    """K positive definite matrices `(k, k)` on the same cells, in some form."""

    @abstractmethod
    def __len__(self) -> int:
        """K."""

    @abstractmethod
    def times_columns(self, cells: FloatArray, kinds: IntArray) -> FloatArray:
        """The precisions of some kinds `(C,)` times cells `(k, C)`, one column each."""

    def times(self, x: FloatArray, kind: IntArray | None) -> FloatArray:
        """Each row of `x` `(C, k)` times its own one; `kind` as in `Family`."""
        kinds = kinds_of(kind, len(self), len(x))
        return np.ascontiguousarray(self.times_columns(np.ascontiguousarray(x.T), kinds).T)

    @abstractmethod
    def diagonals(self) -> FloatArray:
        """`(K, k)`."""

    @abstractmethod
    def matrices(self) -> FloatArray:
        """All numbers `(K, k, k)`."""

    def least(self) -> float:
        """At most the least eigenvalue of any."""
        return float(np.linalg.eigvalsh(self.matrices())[:, 0].min())


@dataclass(frozen=True, eq=False)
class Dense(Precisions):
    """Precisions as matrices.

    Attributes:
        numbers: `(K, k, k)`.
    """

    numbers: FloatArray

    def __len__(self) -> int:
        return len(self.numbers)

    def times(self, x: FloatArray, kind: IntArray | None) -> FloatArray:
        """See `Precisions`."""
        if len(self) == 1:
            return x @ self.numbers[0]
        if kind is None:
            return np.matmul(self.numbers, x[:, :, None])[:, :, 0]
        out = np.empty_like(x)
        for number, own in enumerate(self.numbers):
            members = kind == number
            out[members] = x[members] @ own
        return out

    def times_columns(self, cells: FloatArray, kinds: IntArray) -> FloatArray:
        """See `Precisions`."""
        return np.ascontiguousarray(self.times(np.ascontiguousarray(cells.T), kinds).T)

    def diagonals(self) -> FloatArray:
        """See `Precisions`."""
        return np.diagonal(self.numbers, axis1=1, axis2=2)

    def matrices(self) -> FloatArray:
        """See `Precisions`."""
        return self.numbers

    def principal(self, kinds: IntArray, cells: IntArray) -> FloatArray:
        """The entries `(m, n, n)` of those of some kinds `(m,)` on the cells `(m, n)` of each."""
        return self.numbers.take(places(kinds, cells, self.numbers.shape[-1]))


def places(numbers: IntArray, cells: IntArray, k: int) -> IntArray:
    """Where the pairs of some cells `(m, n)` are in stacked `(k, k)` matrices, of the given `numbers`: `(m, n, n)`."""
    return ((numbers[:, None] * k + cells) * k)[:, :, None] + cells[:, None, :]


def kinds_of(kind: IntArray | None, n_kinds: int, n_children: int) -> IntArray:
    """Which precision each child has, `(C,)`, where `kind` is that, or None: all share one, or each has its own."""
    if kind is not None:
        return kind
    return np.zeros(n_children, dtype=np.int64) if n_kinds == 1 else np.arange(n_children)


#: Numbers of matrices that are inverted in one call.
TOGETHER = 1_000_000


@dataclass(frozen=True, eq=False)
class FreeCells:
    """Children with about as many free cells, and the inverses on them.

    Attributes:
        members: `(m,)` rows of the stack.
        cells: `(m, n)` their free cells, in order, then some that are not free, to make up n.
        inverse: `(m, n, n)`; 0 where a cell is not free.
    """

    members: IntArray
    cells: IntArray
    inverse: FloatArray

    @cached_property
    def at(self) -> tuple[IntArray, IntArray]:
        """Where the cells are in an array `(N, k)`."""
        return self.members[:, None], self.cells

    def times(self, matrices: FloatArray, vectors: FloatArray) -> FloatArray:
        """FloatArray `(m, a, n)` times the cells of vectors `(N, k)`: `(m, a)`."""
        return products(matrices, vectors[self.at])

    def of_sums(self, matrix: FloatArray, family: IntArray, row_mask: FloatArray) -> FloatArray:
        """Which cells are in each sum that is active: `(m, g, n)`; arguments as in `Stack` and `_Equalities`."""
        own, row = family[self.members], np.arange(matrix.shape[1])
        cells = matrix[own[:, None, None], row[None, :, None], self.cells[:, None, :]]
        return cells * row_mask[self.members][:, :, None]

    def add_to(self, totals: FloatArray, family: IntArray, matrices: FloatArray) -> None:
        """Add matrices `(m, n, n)` of the children to those of their families `(F, k, k)`, in place."""
        own, k = family[self.members], totals.shape[-1]
        for some in chunks(len(own), self.cells.shape[1] ** 2, TOGETHER):
            of_pairs = places(own[some], self.cells[some], k)
            totals += np.bincount(of_pairs.ravel(), matrices[some].ravel(), totals.size).reshape(totals.shape)


def products(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Each matrix `(m, a, n)` times its vector `(m, n)`: `(m, a)`."""
    return np.asarray(np.matmul(matrices, vectors[:, :, None])[:, :, 0], dtype=np.float64)


def free_cells(precision: Dense, kind: IntArray, free: BoolArray) -> list[FreeCells]:
    """The inverses on the free cells of children; children without any are left out.

    Those with the same precision and the same free cells share one; those with about as many are inverted together.

    Args:
        precision: K different ones.
        kind: `(N,)` which of them a child has.
        free: `(N, k)`.

    Raises:
        numpy.linalg.LinAlgError: a matrix is singular.
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
    # Numbers of free cells grow by about a third from one call's to the next, of many cells by less.
    steps = [*(4 * round((4 / 3) ** i) for i in range(10)), *range(64, n_cells + 32, 32)]
    sizes = np.unique(np.minimum(n_cells, steps))
    size = np.where(count > 0, sizes[np.searchsorted(sizes, count)], 0)
    out = []
    for n in np.unique(size[size > 0]):
        of_size = np.flatnonzero(size == n)
        for some in chunks(len(of_size), int(n) ** 2, TOGETHER):
            distinct = of_size[some]
            children = first[distinct]
            cells = np.argsort(~free[children], axis=1, kind="stable")[:, :n]
            inverses = _inverses(precision, kind[children], cells, count[distinct])
            members = np.flatnonzero(np.isin(same, distinct))
            if len(members) > len(distinct):
                which = np.searchsorted(distinct, same[members])
                cells, inverses = cells[which], inverses[which]
            else:
                members = children
            out.append(FreeCells(members, cells, inverses))
    return out


def _inverses(precision: Dense, kinds: IntArray, cells: IntArray, counts: IntArray) -> FloatArray:
    """Inverses `(m, n, n)` of the precisions of some kinds on the first cells of each row, as many as it counts."""
    n, part = cells.shape[1], precision.principal(kinds, cells)
    inside = np.arange(n) < counts[:, None]
    if not inside.all():
        part = np.where(inside[:, :, None] & inside[:, None, :], part, np.eye(n))
    out = np.asarray(np.linalg.inv(part), dtype=np.float64)
    out[:, np.arange(n), np.arange(n)] *= inside
    return out
