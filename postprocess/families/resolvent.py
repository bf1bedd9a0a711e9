"""(H + s M)^-1 for matrices H and M in the block basis, by orthogonal transforms of the symmetric attributes.

On a symmetric attribute of n values every block acts on "constant" or on "sums to zero" alone. An orthonormal matrix
whose first row is constant (Helmert's) turns the first into one coordinate and the second into n - 1. With one such
matrix for each symmetric attribute a block is multiplied by its own coordinates and by no others.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import helmert

from postprocess.algebra import Basis
from postprocess.arrays import FloatArray, IntArray

#: Attributes are transformed by one matrix together as long as it has no more rows.
TOGETHER = 32


class Coordinates:
    """The orthogonal coordinates of a basis, for vectors `(a, m)`: folded, the symmetric attributes taken together.

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

    def times(self, blocks: FloatArray, cells: FloatArray) -> FloatArray:
        """The matrix with the blocks `(n_blocks, a, a)` times cells `(a, m)`."""
        turned = self._turned(cells, 1)
        out = np.empty_like(turned)
        for block, own in zip(blocks, self.of_block, strict=True):
            out[:, own] = block @ turned[:, own]
        return self._turned(out, 0)

    def _turned(self, cells: FloatArray, axis: int) -> FloatArray:
        """The vectors turned by all matrices, `axis` 1, or by their transposes, 0; each moves its axis to the end."""
        out = cells
        for matrix in self.matrices:
            n = len(matrix)
            turn = matrix.T if axis else matrix
            out = np.swapaxes(out.reshape(len(cells), n, -1), 1, 2) @ turn
        return out.reshape(cells.shape)
