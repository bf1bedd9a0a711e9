"""Precisions that are weights on the sums of queries: of each cell, of each sum, and of each two of few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from postprocess.arrays import FloatArray, IntArray
from postprocess.families.few_sums import FewSums, sums_over


@dataclass(frozen=True, eq=False)
class Weighted:
    """The sums over the groups of a query, `(k,)` cell -> group, with one weight for all of them."""

    group: IntArray
    size: int
    weight: float

    @cached_property
    def sums(self) -> sp.csr_array:
        """`(size, k)`."""
        return sums_over(self.group, self.size)


@dataclass(frozen=True, eq=False)
class SumWeights(FewSums):
    """K precisions c I + sum of w A_q'A_q + A'N A on the same k cells, with few sums A.

    Attributes:
        wide: the queries with one weight w each, the same in all K.
        few: A, `(s, k)` zeros and ones.
        joint: N, `(K, s, s)`.
    """

    wide: tuple[Weighted, ...]
    few: sp.csr_array
    joint: FloatArray

    @classmethod
    def made(
        cls, scale: FloatArray, wide: Sequence[tuple[IntArray, float]], few: sp.csr_array, joint: FloatArray
    ) -> SumWeights:
        """From the cells' answers of each wide query with its weight; sums that no cell is in are left out."""
        present = np.flatnonzero(np.diff(few.indptr))
        weighted = []
        for answers, weight in wide:
            found, group = np.unique(answers, return_inverse=True)
            weighted.append(Weighted(group.ravel().astype(np.int64), len(found), weight))
        return cls(scale, (), tuple(weighted), few[present], joint[:, present[:, None], present[None, :]])

    @property
    def coarser(self) -> float:
        """See `FewSums`: a tenth of what tells signs is left; less is rounding, of sums over a million cells."""
        return 100.0

    @property
    def patience(self) -> int:
        """See `FewSums`; there are as many directions of large precision as sums, in each child."""
        return 12

    @cached_property
    def _spread(self) -> sp.csr_array:
        return sp.csr_array(self.few.T)

    @property
    def n_sums(self) -> int:
        """Sums of all queries."""
        return int(self.few.shape[0]) + sum(one.size for one in self.wide)

    def times(self, cells: FloatArray, kinds: IntArray) -> FloatArray:
        """The precisions of some kinds `(C,)` times cells `(k, C)`, one column each."""
        out = self.scale[kinds] * cells
        for one in self.wide:
            out += one.weight * (one.sums @ cells)[one.group]
        sums = self.few @ cells
        weighted = np.empty_like(sums)
        for kind in range(len(self.scale)):
            columns = np.flatnonzero(kinds == kind)
            weighted[:, columns] = self.joint[kind] @ sums[:, columns]
        return np.asarray(out + self._spread @ weighted)

    def mean(self, weights: FloatArray) -> FloatArray:
        """All numbers of their mean `(k, k)` with weights `(K,)`."""
        joint = np.tensordot(weights, self.joint, 1)[None]
        return replace(self, scale=weights @ self.scale[:, None], joint=joint).matrices()[0]

    def diagonals(self) -> FloatArray:
        """`(K, k)`."""
        own = sum(one.weight for one in self.wide)
        few = np.stack([(self._spread @ joint * self._spread.toarray()).sum(axis=1) for joint in self.joint])
        return np.asarray(self.scale[:, None] + own + few)

    def matrices(self) -> FloatArray:
        """All numbers `(K, k, k)`."""
        k = self.few.shape[1]
        out = np.zeros((len(self.scale), k, k))
        for one in self.wide:
            out += one.weight * (one.group[:, None] == one.group[None, :])
        out += np.stack([self._spread @ joint @ self.few for joint in self.joint])
        out[:, np.arange(k), np.arange(k)] += self.scale[:, None]
        return out
