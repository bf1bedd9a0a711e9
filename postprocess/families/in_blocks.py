"""Precisions in the block basis: of large families, in place of a number for each two of their cells.

A matrix of all cells of a wide schema has few and small blocks (`postprocess.algebra`); on some of the cells it has
none, and as many numbers as the square of these. So it stays in blocks, and what is asked for is worked out: its
product with vectors that are zero in all other cells, and its entries on the few cells that are free in one child.

On a symmetric attribute of n values every block acts on "constant" or on "sums to zero" alone. An orthonormal matrix
whose first row is constant (Helmert's) turns the first into one coordinate and the second into n - 1. With one such
matrix for each symmetric attribute a block is multiplied by its own coordinates and by no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import helmert

from postprocess.algebra import Basis, chunks
from postprocess.arrays import FloatArray, IntArray
from postprocess.families.cholesky import Matrices
from postprocess.families.precisions import Precisions, kinds_of

#: Attributes are transformed by one matrix together as long as it has no more rows.
TOGETHER = 32


class Coordinates:
    """The orthogonal coordinates of a basis, for vectors `(..., a, m)`: folded, the symmetric attributes together.

    Attributes:
        of_block: which of the m coordinates each block acts on.
    """

    def __init__(self, basis: Basis) -> None:
        self.matrices: list[FloatArray] = []
        block = np.zeros(1, dtype=np.int64)
        for size in basis.symmetric_shape:
            own = np.asarray(helmert(size, full=True), dtype=np.float64)
            if self.matrices and len(self.matrices[-1]) * size <= TOGETHER:
                self.matrices[-1] = np.asarray(np.kron(self.matrices[-1], own), dtype=np.float64)
            else:
                self.matrices.append(own)
            block = (2 * block[:, None] + (np.arange(size) > 0)[None, :]).ravel()
        self.of_block: list[IntArray] = [np.flatnonzero(block == number) for number in range(basis.n_blocks)]

    def times(self, blocks: Matrices, cells: Matrices) -> Matrices:
        """The matrix with the blocks `(n_blocks, a, a)` times cells `(..., a, m)`, in the precision of the cells."""
        turned = self._turned(cells, 1)
        out = np.empty_like(turned)
        for block, own in zip(blocks, self.of_block, strict=True):
            out[..., own] = block @ turned[..., own]
        return self._turned(out, 0)

    def _turned(self, cells: Matrices, axis: int) -> Matrices:
        """The vectors turned by all matrices, `axis` 1, or by their transposes, 0; each moves its axis to the end."""
        rows, out = cells.size // cells.shape[-1], cells
        for matrix in self.matrices:
            turn = (matrix.T if axis else matrix).astype(cells.dtype, copy=False)
            out = np.swapaxes(out.reshape(rows, len(matrix), -1), 1, 2) @ turn
        return out.reshape(cells.shape)


@dataclass(frozen=True, eq=False)
class InBlocks(Precisions):
    """Precisions on k of a schema's cells.

    Attributes:
        basis: in which they are stated.
        blocks: `(K, n_blocks, a, a)` on all cells.
        cells: `(k,)` the cells.
        table: their `pattern_table`, of a schema whose small families have matrices; None of wider ones.
    """

    basis: Basis
    blocks: FloatArray
    cells: IntArray
    table: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.blocks)

    @cached_property
    def coordinates(self) -> Coordinates:
        """Of the basis."""
        return Coordinates(self.basis)

    @cached_property
    def places(self) -> IntArray:
        """Where the cells are among all cells in the order of the basis, `(k,)`."""
        asymmetric, symmetric = self.basis.cell_blocks
        shape = self.basis.n_asymmetric, *self.basis.symmetric_shape
        return np.ravel_multi_index((asymmetric[self.cells], *symmetric[self.cells].T), shape)

    @cached_property
    def folded_shape(self) -> tuple[int, int]:
        """Asymmetric cells, and symmetric ones: those of all cells in the order of the basis."""
        asymmetric = self.basis.n_asymmetric
        return asymmetric, len(self.basis.cell_blocks[0]) // asymmetric

    @cached_property
    def _tables(self) -> FloatArray:
        return self.basis.patterns_of(self.blocks) if self.table is None else self.table

    def diagonals(self) -> FloatArray:
        """See `Precisions`."""
        asymmetric = self.basis.cell_blocks[0][self.cells]
        return np.diagonal(self._tables[:, -1], axis1=1, axis2=2)[:, asymmetric]

    def entries(self, kind: int, cells: IntArray) -> FloatArray:
        """See `Precisions`."""
        return self.basis.dense(self._tables[kind : kind + 1], self.cells[cells])[0]

    def matrices(self) -> FloatArray:
        """See `Precisions`."""
        return self.basis.dense(self._tables, self.cells)

    def mean(self, weights: FloatArray) -> FloatArray:
        """See `Precisions`; without the matrices of each."""
        return InBlocks(self.basis, np.tensordot(weights, self.blocks, 1)[None], self.cells).matrices()[0]

    def times(self, x: FloatArray, kind: IntArray | None) -> FloatArray:
        """See `Precisions`."""
        kinds = kinds_of(kind, len(self), len(x))
        if self.table is not None:
            return self._times_each(kinds, x)
        out = np.empty_like(x)
        for number in np.unique(kinds):
            members = kinds == number
            out[members] = self._times_one(int(number), x[members])
        return out

    def _times_one(self, kind: int, x: FloatArray) -> FloatArray:
        """One of them times vectors `(m, k)`."""
        whole = np.zeros((len(x), self.folded_shape[0] * self.folded_shape[1]))
        whole[:, self.places] = x
        folded = self.coordinates.times(self.blocks[kind], whole.reshape(len(whole), *self.folded_shape))
        return np.asarray(folded.reshape(whole.shape)[:, self.places], dtype=np.float64)

    def _times_each(self, kinds: IntArray, x: FloatArray) -> FloatArray:
        """Vectors `(m, k)`, each times its own of them, by the kinds `(m,)`; some at a time."""
        out = np.empty_like(x)
        n_cells = self.folded_shape[0] * self.folded_shape[1]
        for rows in chunks(len(x), self.blocks[0].size + n_cells):
            whole = np.zeros((len(x[rows]), n_cells))
            whole[:, self.places] = x[rows]
            folded = whole.reshape(len(whole), self.folded_shape[0], *self.basis.symmetric_shape)
            out[rows] = self.basis.apply(self.blocks, folded, kinds[rows]).reshape(whole.shape)[:, self.places]
        return out
