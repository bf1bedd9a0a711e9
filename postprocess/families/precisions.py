"""The precisions of a family's children: what is asked of them in any form, the plainest form, matrices, and inverses.

Others take less memory or fewer operations: blocks, and weights on sums of cells (`sum_weights`).

A matrix of all cells of a wide schema has few and small blocks (`postprocess.algebra`); on some of the cells it has
none, and as many numbers as the square of these. So it stays in blocks, and what is asked for is worked out.

Inverses of the precisions restricted to each child's free cells, kept for these cells alone.

Few cells of a large family are free in one child, so all `k x k` matrices together would be mostly zeros. A large
family's inverses are in single precision, which is half of the memory and of the time; what is solved with them is
corrected with the precisions themselves until it is exact (`active_set`).

Cholesky's factors of large matrices, and inverses by them, while other threads of the process go on.

SciPy's own calls of LAPACK keep Python's lock, so that while a matrix of some thousand rows is factored nothing else of
the process can happen: it does not end on Ctrl-C, and shows no progress. Here the same routines are called through the
addresses that `scipy.linalg.cython_lapack` offers to compiled code, by ctypes, which gives the lock back until they
return. Their numbers are the same.

Matrices are `(n, n)`, symmetric, in C order, in single or double precision, and overwritten. In the order of LAPACK,
Fortran's, what it calls the lower triangle is the upper one here.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postprocess.algebra import Basis, chunks
from postprocess.arrays import BoolArray, FloatArray, IntArray

#: In double or single precision.
Matrices = NDArray[np.floating]

_INT: Any = ctypes.POINTER(ctypes.c_int)
_TRIANGLE = ctypes.c_char(b"L")


def factor(matrix: Matrices) -> bool:
    """Overwrite a matrix's upper triangle by that of its factor; False if it is not definite."""
    return _call("potrf", matrix) == 0


def inverse_of_factored(matrix: Matrices) -> bool:
    """Overwrite the upper triangle of a `factor` by that of the inverse; False if the factor is singular."""
    return _call("potri", matrix) == 0


def solve_factored(matrix: Matrices, right: FloatArray) -> FloatArray:
    """The solution `(n,)` for a right-hand side `(n,)` of the matrix whose `factor` it is, in its precision."""
    solution = right.astype(matrix.dtype)
    size, one, info = ctypes.c_int(len(matrix)), ctypes.c_int(1), ctypes.c_int(0)
    data, number = (ctypes.c_void_p(array.ctypes.data) for array in (matrix, solution))
    given = ctypes.byref(size), ctypes.byref(one), data, ctypes.byref(size), number, ctypes.byref(size)
    _routine("potrs", matrix.dtype.char)(ctypes.byref(_TRIANGLE), *given, ctypes.byref(info))
    return solution.astype(np.float64)


def _call(name: str, matrix: Matrices) -> int:
    if not matrix.flags.c_contiguous or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name}: found a matrix {matrix.shape} that is not square and in C order")
    size, info = ctypes.c_int(len(matrix)), ctypes.c_int(0)
    given = ctypes.byref(size), ctypes.c_void_p(matrix.ctypes.data), ctypes.byref(size), ctypes.byref(info)
    _routine(name, matrix.dtype.char)(ctypes.byref(_TRIANGLE), *given)
    return info.value


@cache
def _routine(name: str, precision: str) -> Any:
    """LAPACK's routine for doubles ("d") or singles ("f")."""
    capsule = import_module("scipy.linalg.cython_lapack").__pyx_capi__[("d" if precision == "d" else "s") + name]
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    data: Any = ctypes.c_void_p
    arguments = [_INT, _INT, data, _INT, data, _INT, _INT] if name == "potrs" else [_INT, data, _INT, _INT]
    arguments.insert(0, ctypes.POINTER(ctypes.c_char))
    return ctypes.CFUNCTYPE(None, *arguments)(pointer_of(capsule, name_of(capsule)))


#: Cells from which a matrix is looked up and inverted by itself.
LARGE = 64


class Precisions(ABC):
    """K positive definite matrices `(k, k)` on the same cells, in some form."""

    @abstractmethod
    def __len__(self) -> int:
        """K."""

    @abstractmethod
    def times(self, x: FloatArray, kind: IntArray | None) -> FloatArray:
        """Each row of `x` `(C, k)` times its own one; `kind` as in `Family`."""

    def times_columns(self, cells: FloatArray, kinds: IntArray) -> FloatArray:
        """The precisions of some kinds `(C,)` times cells `(k, C)`, one column each."""
        return np.ascontiguousarray(self.times(np.ascontiguousarray(cells.T), kinds).T)

    @abstractmethod
    def diagonals(self) -> FloatArray:
        """`(K, k)`."""

    @abstractmethod
    def matrices(self) -> FloatArray:
        """All numbers `(K, k, k)`."""

    @abstractmethod
    def on(self, cells: IntArray) -> Precisions:
        """The same on some of the cells, numbered from 0 to k - 1."""

    def least(self) -> float:
        """At most the least eigenvalue of any."""
        return float(np.linalg.eigvalsh(self.matrices())[:, 0].min())

    def entries(self, kind: int, cells: IntArray) -> FloatArray:
        """The entries `(n, n)` of one of them on some cells, numbered from 0 to k - 1."""
        return self.matrices()[kind][cells[:, None], cells[None, :]]

    def principal(self, kinds: IntArray, cells: IntArray, *, single: bool) -> Matrices:
        """The entries `(m, n, n)` of those of some kinds `(m,)` on the cells `(m, n)` of each.

        In single precision where `single` says so; what is quick to look up may be in double precision nevertheless.
        """
        out = np.empty((*cells.shape, cells.shape[1]), dtype=np.float32 if single else np.float64)
        for own, kind, at in zip(out, kinds, cells, strict=True):
            own[:] = self.entries(int(kind), at)
        return out


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

    def diagonals(self) -> FloatArray:
        """See `Precisions`."""
        return np.diagonal(self.numbers, axis1=1, axis2=2)

    def matrices(self) -> FloatArray:
        """See `Precisions`."""
        return self.numbers

    def on(self, cells: IntArray) -> Precisions:
        """See `Precisions`."""
        return Dense(self.numbers[:, cells[:, None], cells[None, :]])

    def principal(self, kinds: IntArray, cells: IntArray, *, single: bool) -> Matrices:
        """See `Precisions`."""
        if cells.shape[1] >= LARGE:
            return super().principal(kinds, cells, single=single)
        return self.numbers.take(places(kinds, cells, self.numbers.shape[-1]))


@dataclass(frozen=True, eq=False)
class InBlocks(Precisions):
    """Precisions on k of a schema's cells in few and small blocks, of which what is asked for is worked out.

    Attributes:
        basis: in which they are stated.
        blocks: `(K, n_blocks, a, a)` on all cells.
        cells: `(k,)` the cells.
    """

    basis: Basis
    blocks: FloatArray
    cells: IntArray

    def __len__(self) -> int:
        return len(self.blocks)

    @cached_property
    def _table(self) -> FloatArray:
        return self.basis.patterns_of(self.blocks)

    def on(self, cells: IntArray) -> Precisions:
        """See `Precisions`."""
        return replace(self, cells=self.cells[cells])

    def diagonals(self) -> FloatArray:
        """See `Precisions`."""
        asymmetric = self.basis.cell_blocks[0][self.cells]
        return np.diagonal(self._table[:, -1], axis1=1, axis2=2)[:, asymmetric]

    def least(self) -> float:
        """See `Precisions`; on some of the cells it is no less than on all."""
        return float(np.linalg.eigvalsh(self.blocks)[..., 0].min())

    def entries(self, kind: int, cells: IntArray) -> FloatArray:
        """See `Precisions`."""
        return self.basis.dense(self._table[kind : kind + 1], self.cells[cells])[0]

    def matrices(self) -> FloatArray:
        """See `Precisions`."""
        return self.basis.dense(self._table, self.cells)

    def times(self, x: FloatArray, kind: IntArray | None) -> FloatArray:
        """See `Precisions`; some vectors at a time."""
        kinds, out = kinds_of(kind, len(self), len(x)), np.empty_like(x)
        n_cells = len(self.basis.cell_blocks[0])
        for rows in chunks(len(x), self.blocks[0].size + n_cells):
            whole = np.zeros((len(x[rows]), n_cells))
            whole[:, self.cells] = x[rows]
            folded = self.basis.apply(self.blocks, self.basis.fold(whole), kinds[rows])
            out[rows] = self.basis.unfold(folded)[:, self.cells]
        return out


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
