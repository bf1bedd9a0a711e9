"""The inverse of a precision that is weights on nested queries and few sums, on any cells, without a matrix of them.

With F the cells that are not fixed at 0, the stationary point of the objective with held sums needs the inverse of

    H = c I + sum_q w_q A_q'A_q + A'N A    on F.

Where the queries q are nested, each adds to the inverse B of those before, finest first, a number for each group: with
b = B 1 and d = A_q b, of a group the sum,

    (B^-1 + w A_q'A_q)^-1 = B - diag(b) A_q' diag(w / (1 + w d)) A_q diag(b),   b -> b / (1 + w d),

and A'N A, of few sums, is added by Woodbury's identity. So a solution takes a few products with sparse matrices. A
query that does not nest with the others is left to conjugate gradients, with this inverse as their preconditioner;
where all nest, these correct rounding and end after a step or two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from postprocess.arrays import FloatArray, IntArray
from postprocess.sums.weights import SumWeights


class Inverse:
    """The inverse of the first of some precisions, of its wide queries with these numbers alone, which nest."""

    def __init__(self, quadratic: SumWeights, chain: Sequence[int]) -> None:
        self.scale = float(quadratic.scale[0])
        self.few, self.spread = few, spread = quadratic.few, quadratic.spread
        b: FloatArray = np.full(few.shape[1], 1.0 / self.scale)
        self.parts: list[tuple[IntArray, int, FloatArray, FloatArray]] = []
        covariance = (few @ spread).toarray() / self.scale
        for one in (quadratic.wide[number] for number in chain):
            group = one.group
            sums = np.bincount(group, b, one.size)
            share = np.asarray(one.weight / (1.0 + one.weight * sums), dtype=np.float64)
            self.parts.append((group, one.size, b, share))
            on_sums = sp.csr_array((b, (group, np.arange(len(group)))), shape=(one.size, len(group))) @ spread
            covariance -= (on_sums.T @ (sp.diags_array(share) @ on_sums)).toarray()
            b = np.asarray(b / (1.0 + one.weight * sums)[group], dtype=np.float64)
        joint = quadratic.joint[0]
        self.inner = joint @ np.linalg.inv(np.eye(len(covariance)) + covariance @ joint)

    def times(self, vector: FloatArray) -> FloatArray:
        """The inverse times a vector `(k,)`."""
        out = self._of_chain(vector)
        return np.asarray(out - self._of_chain(self.spread @ (self.inner @ (self.few @ out))))

    def _of_chain(self, vector: FloatArray) -> FloatArray:
        """The inverse without the few sums."""
        out = vector / self.scale
        for group, size, b, share in self.parts:
            out = out - b * (share * np.bincount(group, out, size))[group]
        return np.asarray(out)
