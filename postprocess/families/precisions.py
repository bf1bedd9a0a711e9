"""The precisions of a family's children: what is asked of them in any form, and the plainest form, matrices.

Others take less memory or fewer operations: blocks (`in_blocks`), and weights on sums of cells (`few_sums`,
`postprocess.sums.weights`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from postprocess.arrays import FloatArray, IntArray
from postprocess.families.cholesky import Matrices

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

    @abstractmethod
    def diagonals(self) -> FloatArray:
        """`(K, k)`."""

    @abstractmethod
    def matrices(self) -> FloatArray:
        """All numbers `(K, k, k)`."""

    def mean(self, weights: FloatArray) -> FloatArray:
        """All numbers of their mean `(k, k)` with weights `(K,)`."""
        return np.tensordot(weights, self.matrices(), 1)

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

    def mean(self, weights: FloatArray) -> FloatArray:
        """See `Precisions`; of one, itself."""
        return self.numbers[0] if len(self) == 1 else super().mean(weights)

    def principal(self, kinds: IntArray, cells: IntArray, *, single: bool) -> Matrices:
        """See `Precisions`."""
        if cells.shape[1] >= LARGE:
            return super().principal(kinds, cells, single=single)
        return self.numbers.take(places(kinds, cells, self.numbers.shape[-1]))


def places(numbers: IntArray, cells: IntArray, k: int) -> IntArray:
    """Where the pairs of some cells `(m, n)` are in stacked `(k, k)` matrices, of the given `numbers`: `(m, n, n)`."""
    return ((numbers[:, None] * k + cells) * k)[:, :, None] + cells[:, None, :]


def kinds_of(kind: IntArray | None, n_kinds: int, n_children: int) -> IntArray:
    """Which precision each child has, `(C,)`, where `kind` is that, or None: all share one, or each has its own."""
    if kind is not None:
        return kind
    return np.zeros(n_children, dtype=np.int64) if n_kinds == 1 else np.arange(n_children)
