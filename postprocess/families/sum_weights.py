"""Precisions that are weights on the sums of queries: of each cell, of each sum, and of each two of few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.families.few_sums import InPieces, OnSums, sums_over
from postprocess.marginal import each_in_one


@dataclass(frozen=True, eq=False)
class Weighted:
    """The sums over the groups of a query, `(k,)` cell -> group, with one weight for all of them."""

    group: IntArray
    size: int
    weight: float

    @cached_property
    def sums(self) -> InPieces:
        """Of cells."""
        return InPieces(sums_over(self.group, self.size))


@dataclass(frozen=True, eq=False)
class SumWeights(OnSums):
    """K precisions c I + sum of w A_q'A_q + A'N A on the same k cells, with few sums A.

    Attributes:
        wide: the queries with one weight w each, the same in all K.
        few: A, `(s, k)` zeros and ones.
        joint: N, `(K, s, s)`.
        leasts: `(K,)` at most the least eigenvalue of each.
    """

    wide: tuple[Weighted, ...]
    few: sp.csr_array
    joint: FloatArray
    leasts: FloatArray

    @classmethod
    def made(
        cls,
        scale: FloatArray,
        wide: Sequence[tuple[IntArray, float]],
        few: sp.csr_array,
        joint: FloatArray,
        leasts: FloatArray | None = None,
    ) -> SumWeights:
        """From the cells' answers of each wide query with its weight; sums that no cell is in are left out.

        `leasts` are c by default, which they are where N is not negative.
        """
        present = np.flatnonzero(np.diff(few.indptr))
        weighted = []
        for answers, weight in wide:
            found, group = np.unique(answers, return_inverse=True)
            weighted.append(Weighted(group, len(found), weight))
        of_present = joint[:, present[:, None], present[None, :]]
        return cls(scale, tuple(weighted), few[present], of_present, scale if leasts is None else leasts)

    def on(self, cells: BoolArray) -> SumWeights:
        """The same on some of the cells."""
        wide = tuple(replace(one, group=one.group[cells]) for one in self.wide)
        return replace(self, wide=wide, few=sp.csr_array(self.spread[cells].T))

    @cached_property
    def nested(self) -> tuple[int, ...]:
        """The numbers of the wide queries of a chain, finest first, each of whose groups are in one of the next."""
        chain: list[int] = []
        for number in sorted(range(len(self.wide)), key=lambda each: -self.wide[each].size):
            if not chain or each_in_one(self.wide[chain[-1]].group, self.wide[number].group):
                chain.append(number)
        return tuple(chain)

    @cached_property
    def spread(self) -> sp.csr_array:
        """A' `(k, s)`."""
        return sp.csr_array(self.few.T)

    @cached_property
    def few_sums(self) -> InPieces:
        """A, of cells."""
        return InPieces(self.few)

    def least(self) -> float:
        """See `Precisions`."""
        return float(self.leasts.min())

    def times_columns(self, cells: FloatArray, kinds: IntArray) -> FloatArray:
        """See `OnSums`."""
        out = self.scale[kinds] * cells
        for one in self.wide:
            out += one.weight * one.sums.of(cells)[one.group]
        sums = self.few_sums.of(cells)
        weighted = np.empty_like(sums)
        for kind in range(len(self.scale)):
            columns = np.flatnonzero(kinds == kind)
            weighted[:, columns] = self.joint[kind] @ sums[:, columns]
        return out + self.spread @ weighted

    def diagonals(self) -> FloatArray:
        """See `Precisions`."""
        own = sum(one.weight for one in self.wide)
        few = np.stack([(self.spread @ joint * self.spread.toarray()).sum(axis=1) for joint in self.joint])
        return self.scale[:, None] + own + few

    def matrices(self) -> FloatArray:
        """See `Precisions`."""
        k = self.few.shape[1]
        out = np.zeros((len(self.scale), k, k))
        for one in self.wide:
            out += one.weight * (one.group[:, None] == one.group[None, :])
        out += np.stack([self.spread @ joint @ self.few for joint in self.joint])
        out[:, np.arange(k), np.arange(k)] += self.scale[:, None]
        return out
