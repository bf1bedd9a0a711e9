"""Precisions that are a number of each cell plus weights on few sums of cells, and large families that have them.

Every matrix of the estimation is made of those of the measured queries (`postprocess.algebra`). If the detail is
measured, it is a multiple of the identity, which is the detail's part, and what coarser queries and their products add:

    H = c I + sum over partitions of  A' M A,      A the sums over the groups of a partition, 0 and 1.

91 ages x 2 sexes x 19 groups have 3,458 cells, but only 201 such sums: a product with H takes a hundredth of the
operations that a matrix of one number for each two cells does, on any of the cells.

Large families whose precisions are weights on few sums of cells: projected conjugate gradients, and an active set.

The eigenvalues of such precisions (`few_sums`) lie close together: c is the least and belongs to most of them. So with
some cells fixed at 0 the stationary point of a family is found by conjugate gradients among the directions that change
none of the parent's sums and no held one (Gould, Hribar and Nocedal 2001); no matrix of cells is needed. Which cells
are 0 is found as in `active_set`, by the primal-dual active set method, from all cells free: negative ones are fixed,
and those released whose multiplier has the wrong sign. While many change a round is solved to a tenth only; the last
ones are to rounding error, so that the result satisfies the optimality conditions in all cells: it is the same solution
as by matrices. Families with ranges, with an upper limit that is reached, or whose rounds do not end are left to these.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
import scipy.sparse as sp

from postprocess.algebra import Basis
from postprocess.arrays import Arrays, BoolArray, FloatArray, IntArray, largest_of
from postprocess.families.active_set import FEASIBLE, GRADIENT, MET, SIGN, ExactSolution
from postprocess.families.family import Family, clipped, is_large
from postprocess.families.precisions import Precisions, kinds_of
from postprocess.families.progress import Standing, Watch
from postprocess.marginal import each_in_one

#: Combinations of the asymmetric attributes above which no partitions are looked for.
MOST_ASYMMETRIC = 512
#: Numbers in the weights above which they are not made.
MOST_WEIGHTS = 1 << 25
#: Bytes of tables whose sums are remembered.
MOST_REMEMBERED = 1 << 20
#: Cells of a sum that are added one after the other.
PIECE = 256
#: Differences of entries that count as none, relative to the largest.
SAME = 1e-13


@dataclass(frozen=True, eq=False)
class Partition:
    """Weights on the sums over the groups of a partition.

    Attributes:
        group: `(k,)` cell -> group.
        size: g, the number of groups.
        made: the weights, which are worked out when they are first asked for: where the sums are not few, never.
    """

    group: IntArray
    size: int
    made: Callable[[], FloatArray]

    @cached_property
    def weights(self) -> FloatArray:
        """`(K, g, g)`."""
        return self.made()


@dataclass(frozen=True, eq=False)
class OnSums(Precisions):
    """Precisions that are a multiple of the identity plus weights on sums of cells, whose matrices are not made.

    Attributes:
        scale: `(K,)` the multiple of the identity.
    """

    scale: FloatArray

    def __len__(self) -> int:
        return len(self.scale)

    @abstractmethod
    def times_columns(self, cells: FloatArray, kinds: IntArray) -> FloatArray:
        """The precisions of some kinds `(C,)` times cells `(k, C)`, one column each."""

    def times(self, x: FloatArray, kind: IntArray | None) -> FloatArray:
        """See `Precisions`."""
        kinds = kinds_of(kind, len(self), len(x))
        return np.ascontiguousarray(self.times_columns(np.ascontiguousarray(x.T), kinds).T)

    def least(self) -> float:
        """See `Precisions`; the multiples of the identity, where no weights are negative."""
        return float(self.scale.min())


@dataclass(frozen=True, eq=False)
class FewSums(OnSums):
    """Precisions that are weights on the sums over the groups of partitions.

    Attributes:
        partitions: of the cells; one at least.
    """

    partitions: tuple[Partition, ...]

    @classmethod
    def of(cls, basis: Basis, table: FloatArray) -> FewSums | None:
        """On all cells of a schema, from a `Basis.pattern_table` `(K, n_blocks, a, a)`.

        A partition is by the values of some symmetric attributes and by asymmetric cells that are alike. None where the
        precisions have no such form, or not with few sums.
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
        if not found or len(table) * sum(size**2 for size in groups) > MOST_WEIGHTS:
            return None
        return cls(scale, tuple(_partition(basis, forms, *one) for one in found))

    def n_sums_on(self, cells: IntArray) -> int:
        """Groups of all partitions on some of the cells."""
        return sum(len(np.unique(partition.group[cells])) for partition in self.partitions)

    def on(self, kinds: IntArray, cells: IntArray) -> FewSums:
        """Some of the precisions, on some of the cells."""
        partitions = []
        for partition in self.partitions:
            present, group = np.unique(partition.group[cells], return_inverse=True)
            weights = partition.weights[kinds][:, present[:, None], present[None, :]]
            partitions.append(Partition(group, len(present), partial(np.asarray, weights)))
        return FewSums(self.scale[kinds], tuple(partitions))

    def mean(self, weights: FloatArray) -> FloatArray:
        """See `Precisions`; without the matrices of each."""
        parts = [
            Partition(p.group, p.size, partial(np.tensordot, weights[None], p.weights, 1)) for p in self.partitions
        ]
        return FewSums(weights @ self.scale[:, None], tuple(parts)).matrices()[0]

    def diagonals(self) -> FloatArray:
        """See `Precisions`."""
        out = np.repeat(self.scale[:, None], len(self.partitions[0].group), axis=1)
        for partition in self.partitions:
            out += np.diagonal(partition.weights, axis1=1, axis2=2)[:, partition.group]
        return out

    def matrices(self) -> FloatArray:
        """See `Precisions`."""
        k = len(self.partitions[0].group)
        out = np.zeros((len(self.scale), k, k))
        for partition in self.partitions:
            out += partition.weights[:, partition.group[:, None], partition.group[None, :]]
        out[:, np.arange(k), np.arange(k)] += self.scale[:, None]
        return out

    @cached_property
    def _sums(self) -> sp.csr_array:
        """The sums of all partitions, `(n_sums, k)`."""
        return sp.csr_array(sp.vstack([sums_over(p.group, p.size) for p in self.partitions]))

    @cached_property
    def _spread(self) -> sp.csr_array:
        return sp.csr_array(self._sums.T)

    def times_columns(self, cells: FloatArray, kinds: IntArray) -> FloatArray:
        """See `OnSums`."""
        out = self.scale[kinds] * cells
        sums = self._sums @ cells
        weighted = np.empty_like(sums)
        first = 0
        for partition in self.partitions:
            rows = slice(first, first + partition.size)
            if len(self.scale) == 1:
                weighted[rows] = partition.weights[0] @ sums[rows]
            else:
                for kind in range(len(self.scale)):
                    columns = np.flatnonzero(kinds == kind)
                    weighted[rows, columns] = partition.weights[kind] @ sums[rows, columns]
            first = rows.stop
        return out + self._spread @ weighted


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


def _weights(basis: Basis, forms: FloatArray, first: IntArray, within: Sequence[int]) -> FloatArray:
    """`(K, g, g)` of the groups in which the cells `first` `(g,)` are."""
    asymmetric, symmetric = basis.cell_blocks
    weights = np.zeros((len(forms), len(first), len(first)))
    for one in within:
        agree = np.ones((len(first), len(first)), dtype=bool)
        for j in np.flatnonzero(basis.subsets[one]):
            agree &= symmetric[first, None, j] == symmetric[None, first, j]
        own = asymmetric[first]
        weights += np.where(agree, forms[:, one][:, own[:, None], own[None, :]], 0.0)
    return weights


#: Sums for each cell of a family up to which it is solved in this way; cells from which on an area without a parent is.
MOST_SUMS, LARGE_ALONE = 0.5, 1000


def is_projected(n_children: int, n_cells: int, *, has_parent: bool) -> bool:
    """Whether a family is large enough to be solved in this way."""
    return is_large(n_children, n_cells, has_parent=True) if has_parent else n_cells > LARGE_ALONE


