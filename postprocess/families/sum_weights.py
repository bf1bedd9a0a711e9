"""Precisions c I + A'MA: a number of each cell, and weights on sums of cells.

Every matrix of the estimation is made of those of the measured queries (`postprocess.algebra`). If the detail is
measured, it is a multiple of the identity, which is the detail's part, and what coarser queries and their products add.

Where these are known by their blocks (`MeasuredWeights`), let S be a set of symmetric attributes and A_S the sums over
the cells that have the same values of these, and asymmetric cells that are alike. Then

    H = c I + sum over S of  A_S' (I x F_S) A_S,

with the same small matrix F_S for all values. 91 ages x 2 sexes x 19 groups have 3,458 cells, but 201 such sums: a
product with H takes a hundredth of the operations that a matrix of one number for each two cells does, on any of the
cells. At wide levels (`postprocess.sums`) they are

    H = c I + sum over wide queries of  w A_q'A_q  + A'N A,      A few sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from postprocess.algebra import Basis, chunks
from postprocess.arrays import BoolArray, FloatArray, IntArray, largest_of
from postprocess.families.precisions import Precisions
from postprocess.marginal import each_in_one

#: Children for each different precision from which on those of each are worked on together.
FEW_KINDS = 8
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
        self._each_is_one = bool((n == 1).all())
        before = np.append(0, np.cumsum(n))
        rows = np.repeat(np.arange(len(n)), n)
        starts = sums.indptr[rows] + PIECE * (np.arange(before[-1]) - before[rows])
        shape = int(before[-1]), sums.shape[1]
        self._pieces = sp.csr_array((sums.data, sums.indices, np.append(starts, sums.nnz)), shape=shape)
        self._of_rows = sp.csr_array((np.ones(shape[0]), np.arange(shape[0]), before), shape=(len(n), shape[0]))

    def of(self, cells: FloatArray) -> FloatArray:
        """`(s, C)` of cells `(k, C)`."""
        pieces = self._pieces @ cells
        return pieces if self._each_is_one else self._of_rows @ pieces


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
        """The same on some of the cells, numbered from 0 to k - 1."""
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


@dataclass(frozen=True, eq=False)
class Part:
    """What precisions on all cells of a schema have for one set S of symmetric attributes.

    Attributes:
        subset: `(s,)` which attributes are in S.
        classes: `(a,)` a number from 0 of each asymmetric cell, the same of those that are alike.
        forms: F_S of each precision, `(K, g, g)` on the g classes.
    """

    subset: BoolArray
    classes: IntArray
    forms: FloatArray


@dataclass(frozen=True, eq=False)
class MeasuredWeights:
    """Precisions on all cells of a schema, by their blocks.

    Attributes:
        basis: in which they are stated.
        blocks: `(K, n_blocks, a, a)`.
    """

    basis: Basis
    blocks: FloatArray

    @cached_property
    def table(self) -> FloatArray:
        """The `Basis.patterns_of` them."""
        return self.basis.patterns_of(self.blocks)

    @cached_property
    def leasts(self) -> FloatArray:
        """The least eigenvalues, `(K,)`."""
        return np.asarray(np.linalg.eigvalsh(self.blocks).min(axis=(1, 2)), dtype=np.float64)

    @cached_property
    def parts(self) -> tuple[FloatArray, tuple[Part, ...]]:
        """c of each `(K,)`, and the parts that are not 0."""
        forms = np.einsum("pb,nbij->npij", self.basis.to_marginal_form, self.blocks, optimize=True)
        tolerance = SAME * largest_of(self.table)
        scale = np.maximum(np.linalg.eigvalsh(forms[:, -1])[:, 0], 0.0)
        forms[:, -1] -= scale[:, None, None] * np.eye(self.basis.n_asymmetric)
        parts = []
        for subset, own in zip(self.basis.subsets, np.swapaxes(forms, 0, 1), strict=True):
            if np.abs(own).max() > tolerance:
                classes = _classes_of_forms(own, tolerance)
                _, first = np.unique(classes, return_index=True)
                parts.append(Part(subset, classes, np.ascontiguousarray(own[:, first[:, None], first[None, :]])))
        return scale, tuple(parts)


@dataclass(frozen=True, eq=False)
class OnCells(Precisions):
    """Some precisions of a schema on some of its cells.

    Attributes:
        weights: of the schema.
        numbers: `(K,)` which of its precisions they are.
        cells: `(k,)`.
    """

    weights: MeasuredWeights
    numbers: IntArray
    cells: IntArray

    def __len__(self) -> int:
        return len(self.numbers)

    def least(self) -> float:
        """See `Precisions`; on some of the cells it is no less than on all."""
        return float(self.weights.leasts[self.numbers].min())

    def matrices(self) -> FloatArray:
        """See `Precisions`."""
        return self.weights.basis.dense(self.weights.table[self.numbers], self.cells)

    def diagonals(self) -> FloatArray:
        """See `Precisions`."""
        asymmetric = self.weights.basis.cell_blocks[0][self.cells]
        return np.diagonal(self.weights.table[self.numbers, -1], axis1=1, axis2=2)[:, asymmetric]

    @cached_property
    def _parts(self) -> list[tuple[IntArray, InPieces, FloatArray]]:
        """Of each part the sum that each cell is in `(k,)`, all n g sums, and the forms `(K, g, g)`."""
        asymmetric, symmetric = (each[self.cells] for each in self.weights.basis.cell_blocks)
        out = []
        for part in self.weights.parts[1]:
            _, values = np.unique(symmetric[:, part.subset], axis=0, return_inverse=True)
            g = part.forms.shape[-1]
            at = values.ravel() * g + part.classes[asymmetric]
            out.append((at, InPieces(sums_over(at, (int(values.max(initial=0)) + 1) * g)), part.forms[self.numbers]))
        return out

    def times_columns(self, cells: FloatArray, kinds: IntArray) -> FloatArray:
        """See `Precisions`."""
        out, columns = self.weights.parts[0][self.numbers][kinds] * cells, cells.shape[1]
        for at, sums, forms in self._parts:
            g = forms.shape[-1]
            by_column = np.ascontiguousarray(sums.of(cells).reshape(-1, g, columns).transpose(2, 0, 1))
            if len(forms) * FEW_KINDS > columns:
                weighted = by_column @ forms[kinds]
            else:
                weighted = np.empty_like(by_column)
                for kind, form in enumerate(forms):
                    weighted[kinds == kind] = by_column[kinds == kind] @ form
            out += weighted.transpose(1, 2, 0).reshape(-1, columns)[at]
        return out


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
