"""Precisions c I + A'MA: a number of each cell, and weights on few sums of cells, or on each sum of a wide query.

Every matrix of the estimation is made of those of the measured queries (`postprocess.algebra`). If the detail is
measured, it is a multiple of the identity, which is the detail's part, and what coarser queries and their products add:

    H = c I + sum over wide queries of  w A_q'A_q  + A'N A,      A the sums over the groups of partitions, 0 and 1.

91 ages x 2 sexes x 19 groups have 3,458 cells, but only 201 such sums: a product with H takes a hundredth of the
operations that a matrix of one number for each two cells does, on any of the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

import numpy as np
import scipy.sparse as sp
from scipy.linalg import block_diag

from postprocess.algebra import Basis, chunks
from postprocess.arrays import BoolArray, FloatArray, IntArray, largest_of
from postprocess.families.precisions import Precisions, kinds_of
from postprocess.marginal import each_in_one

#: Combinations of the asymmetric attributes above which no partitions are looked for.
MOST_ASYMMETRIC = 512
#: Numbers in the weights of one kind above which they are not made.
MOST_WEIGHTS = 1 << 25
#: Bytes for each two of the sums: the weights of a kind and their copies.
WEIGHT_BYTES = 24.0
#: Bytes of tables whose sums are remembered.
MOST_REMEMBERED = 1 << 20
#: Cells of a sum that are added one after the other.
PIECE = 256
#: Differences of entries that count as none, relative to the largest.
SAME = 1e-13


def sums_over(group: IntArray, size: int) -> sp.csr_array:
    """The sums over groups of cells, `(size, k)` zeros and ones."""
    return sp.csr_array((np.ones(len(group)), (group, np.arange(len(group)))), shape=(size, len(group)))


class InPieces:
    """Sums `(s, k)` of cells, zeros and ones, that are added in pieces.

    What rounding leaves in a sum is in the gradient of each of its cells. Added one after the other it grows as the
    number of these, in pieces as the longer of a piece and of how many pieces there are (Higham 1993, "The accuracy of
    floating point summation").
    """

    def __init__(self, sums: sp.csr_array) -> None:
        n = -(-np.diff(sums.indptr) // PIECE)
        before = np.append(0, np.cumsum(n))
        rows = np.repeat(np.arange(len(n)), n)
        starts = sums.indptr[rows] + PIECE * (np.arange(before[-1]) - before[rows])
        shape = int(before[-1]), sums.shape[1]
        self._pieces = sp.csr_array((sums.data, sums.indices, np.append(starts, sums.nnz)), shape=shape)
        self._of_rows = sp.csr_array((np.ones(shape[0]), np.arange(shape[0]), before), shape=(len(n), shape[0]))

    def of(self, cells: FloatArray) -> FloatArray:
        """`(s, C)` of cells `(k, C)`."""
        return self._of_rows @ (self._pieces @ cells)


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
class SumWeights(Precisions):
    """K precisions c I + sum of w A_q'A_q + A'N A on the same k cells, with few sums A.

    Attributes:
        scale: `(K,)` c.
        wide: the queries with one weight w each, the same in all K.
        few: A, `(s, k)` zeros and ones.
        joint: N, `(K, s, s)`.
        leasts: `(K,)` at most the least eigenvalue of each.
    """

    scale: FloatArray
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

    def __len__(self) -> int:
        return len(self.scale)

    def on(self, cells: IntArray | BoolArray) -> SumWeights:
        """See `Precisions`."""
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

    def times(self, x: FloatArray, kind: IntArray | None) -> FloatArray:
        """See `Precisions`."""
        kinds = kinds_of(kind, len(self), len(x))
        return np.ascontiguousarray(self.times_columns(np.ascontiguousarray(x.T), kinds).T)

    def times_columns(self, cells: FloatArray, kinds: IntArray) -> FloatArray:
        """See `Precisions`."""
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
        # Of each cell the sums that it is in, made up to as many by one without weights.
        count, (n_sums, n_cells) = np.diff(self.spread.indptr), self.few.shape
        cell, sums = np.repeat(np.arange(n_cells), count), np.full((n_cells, int(count.max(initial=0))), n_sums)
        sums[cell, np.arange(len(cell)) - self.spread.indptr[cell]] = self.spread.indices
        joint, few = np.pad(self.joint, ((0, 0), (0, 1), (0, 1))), np.zeros((len(self), n_cells))
        for some in chunks(n_cells, len(self) * sums.shape[1] ** 2):
            few[:, some] = joint[:, sums[some, :, None], sums[some, None, :]].sum(axis=(2, 3))
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

    def principal(self, kinds: IntArray, cells: IntArray) -> FloatArray:
        """See `Precisions`."""
        parts = ((self.on(at), [kind]) for kind, at in zip(kinds, cells, strict=True))
        return np.stack([replace(p, scale=p.scale[kind], joint=p.joint[kind]).matrices()[0] for p, kind in parts])


@dataclass(frozen=True, eq=False)
class Partition:
    """Weights on the sums over the groups of a partition.

    Attributes:
        group: `(n_cells,)` cell -> group.
        size: the number of groups.
        weights: the weights `(m, g, g)` of some kinds `(m,)` on some groups `(g,)`.
    """

    group: IntArray
    size: int
    weights: Callable[[IntArray, IntArray], FloatArray]


@dataclass(frozen=True, eq=False)
class FewSums:
    """Precisions on all cells of a schema that are a multiple of the identity and weights on partitions of the cells.

    Attributes:
        scale: `(K,)` the multiple.
        partitions: of the cells; one at least.
    """

    scale: FloatArray
    partitions: tuple[Partition, ...]

    @classmethod
    def of(cls, basis: Basis, table: FloatArray) -> FewSums | None:
        """From a `Basis.pattern_table` `(K, n_blocks, a, a)`.

        A partition is by the values of some symmetric attributes and by asymmetric cells that are alike. None where the
        precisions have no such form, or have it with too many sums.
        """
        if basis.n_asymmetric > MOST_ASYMMETRIC:
            return None
        forms = _by_subset(basis, table)
        tolerance = SAME * largest_of(table)
        scale = np.asarray(np.linalg.eigvalsh(forms[:, -1])[:, 0], dtype=np.float64)
        if scale.min() <= tolerance:
            return None
        forms[:, -1] -= scale[:, None, None] * np.eye(basis.n_asymmetric)
        found: list[tuple[int, IntArray, list[int]]] = []
        for subset in sorted(range(basis.n_blocks), key=lambda number: -int(basis.subsets[number].sum())):
            if np.abs(forms[:, subset]).max() <= tolerance:
                continue
            classes = _classes_of_forms(forms[:, subset], tolerance)
            for finer, of_finer, within in found:
                if not (basis.subsets[subset] & ~basis.subsets[finer]).any() and each_in_one(of_finer, classes):
                    within.append(subset)
                    break
            else:
                found.append((subset, classes, [subset]))
        groups = [
            (classes.max() + 1) * int(np.prod(np.array(basis.symmetric_shape)[basis.subsets[subset]]))
            for subset, classes, _ in found
        ]
        if not found or sum(size**2 for size in groups) > MOST_WEIGHTS:
            return None
        return cls(scale, tuple(_partition(basis, forms, *one) for one in found))

    def on(self, kinds: IntArray, cells: IntArray, leasts: FloatArray | None = None) -> SumWeights:
        """Some of the precisions on some of the cells; `leasts` as of `SumWeights.made`."""
        sums, weights = [], []
        for partition in self.partitions:
            present, group = np.unique(partition.group[cells], return_inverse=True)
            sums.append(sums_over(group, len(present)))
            weights.append(partition.weights(kinds, present))
        joint = np.stack([block_diag(*own) for own in zip(*weights, strict=True)])
        return SumWeights.made(self.scale[kinds], [], sp.csr_array(sp.vstack(sums)), joint, leasts)


def few_sums_of(basis: Basis, table: FloatArray) -> FewSums | None:
    """As `FewSums.of`; what few classes have, as those of leaves, is the same in many batches, and found once."""
    if table.nbytes > MOST_REMEMBERED:
        return FewSums.of(basis, table)
    return _remembered(basis.shape, basis.symmetric, table.shape, table.tobytes())


@lru_cache(maxsize=16)
def _remembered(
    shape: tuple[int, ...], symmetric: tuple[int, ...], of_table: tuple[int, ...], numbers: bytes
) -> FewSums | None:
    return FewSums.of(Basis(shape, symmetric), np.frombuffer(numbers, dtype=np.float64).reshape(of_table))


def _by_subset(basis: Basis, table: FloatArray) -> FloatArray:
    """`(K, n_blocks, a, a)`: what cells that agree on a subset of the attributes have more than on each smaller one."""
    forms = table.copy()
    for j in range(len(basis.symmetric)):
        inside = np.flatnonzero(basis.subsets[:, j])
        forms[:, inside] -= forms[:, inside - (1 << (len(basis.symmetric) - 1 - j))]
    return forms


def _classes_of_forms(forms: FloatArray, tolerance: float) -> IntArray:
    """Which asymmetric cells have the same entries in symmetric matrices `(K, a, a)`: a number from 0 of each."""
    number = np.full(forms.shape[1], -1)
    rows = np.swapaxes(forms, 0, 1)
    for new in range(len(rows)):
        left = np.flatnonzero(number < 0)
        if not len(left):
            break
        same = np.abs(rows[left] - rows[left[0]]).max(axis=(1, 2)) <= tolerance
        number[left[same]] = new
    return number


def _partition(basis: Basis, forms: FloatArray, subset: int, classes: IntArray, within: Sequence[int]) -> Partition:
    """The weights of some subsets on the partition by `subset` and `classes`, which refines those by each of them."""
    asymmetric, symmetric = basis.cell_blocks
    key = classes[asymmetric]
    for j in np.flatnonzero(basis.subsets[subset]):
        key = key * basis.symmetric_shape[j] + symmetric[:, j]
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return Partition(group, len(first), partial(_weights, basis, forms, first, within))


def _weights(
    basis: Basis, forms: FloatArray, first: IntArray, within: Sequence[int], kinds: IntArray, groups: IntArray
) -> FloatArray:
    """`(m, g, g)` of some kinds `(m,)` and groups `(g,)`, a cell of each of which is in `first`."""
    asymmetric, symmetric = basis.cell_blocks
    cells = first[groups]
    own, weights = asymmetric[cells], np.zeros((len(kinds), len(cells), len(cells)))
    for one in within:
        agree = np.ones((len(cells), len(cells)), dtype=bool)
        for j in np.flatnonzero(basis.subsets[one]):
            agree &= symmetric[cells, None, j] == symmetric[None, cells, j]
        weights += np.where(agree, forms[kinds, one][:, own[:, None], own[None, :]], 0.0)
    return weights
