"""The block-diagonal basis in which every matrix of the estimation is small.

An attribute that every measured query either keeps whole or sums out is *symmetric*: on it, only the subspaces
"constant" and "sums to zero" are ever distinguished. With s symmetric attributes, the precision of the measurements is

    H = sum over subsets B of the symmetric attributes of  H_B (x) P_B,
    P_B = product over symmetric attributes j of (I - 11'/n_j if j in B else 11'/n_j),

with 1 the vector of ones and H_B of the size a of the remaining, *asymmetric*, attributes taken together. The P_B are
orthogonal projectors, so sums, products and inverses go block by block. Cells are the pair (asymmetric cell,
symmetric cell); arrays over cells have the shape `(..., a, n_1, ..., n_s)` here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.marginal import Marginal

#: Numbers of matrices that are looked up, or worked on, at a time.
CHUNK_NUMBERS = 4_000_000
#: Rows from which on blocks are large.
LARGE = 64


def chunks(n: int, numbers: int, most: int | None = None) -> Iterator[slice]:
    """Runs of `range(n)`, each short enough for as many matrices of `numbers` numbers to be held at once, or `most`."""
    step = max(1, (CHUNK_NUMBERS if most is None else most) // max(1, numbers))
    return (slice(first, min(first + step, n)) for first in range(0, n, step))


def symmetrise(matrices: NDArray[Any]) -> NDArray[Any]:
    """The symmetric part of stacked square matrices."""
    return 0.5 * (matrices + np.swapaxes(matrices, -1, -2))


def products(matrices: FloatArray, classes: IntArray, vectors: FloatArray) -> FloatArray:
    """The matrices `(n_classes, g, g)` of the classes times vectors `(n, g)`, a few vectors at a time."""
    out = np.empty_like(vectors)
    for rows in chunks(len(vectors), vectors.shape[1] ** 2):
        out[rows] = np.matmul(matrices[classes[rows]], vectors[rows, :, None])[:, :, 0]
    return out


def diagonals(rows: FloatArray, blocks: FloatArray) -> FloatArray:
    """The diagonals `(n, n_blocks, g)` of R B R' for rows R `(g, a)` and blocks B `(n, n_blocks, a, a)`.

    Of large blocks by products of matrices, some at a time; they take a fiftieth of the time that sums number by
    number do, which small ones keep, to the same bits.
    """
    if rows.shape[1] < LARGE:
        return np.einsum("gi,nbij,gj->nbg", rows, blocks, rows)
    out = np.empty((*blocks.shape[:2], len(rows)))
    for some in chunks(len(blocks), blocks.shape[1] * rows.size):
        out[some] = np.einsum("nbgj,gj->nbg", rows @ blocks[some], rows)
    return out


def summed(folded: FloatArray, keep: BoolArray) -> FloatArray:
    """Folded histograms `(n, a, n_1, ...)` summed over the symmetric attributes outside `keep`; lengths of 1 stay."""
    axes = tuple(2 + int(j) for j in np.flatnonzero(~keep))
    return folded.sum(axis=axes, keepdims=True) if axes else folded


@dataclass(frozen=True, eq=False)
class Basis:
    """The split of a schema's attributes into symmetric and asymmetric ones.

    Attributes:
        shape: number of values of each attribute, in the schema's order.
        symmetric: positions of the symmetric attributes.
    """

    shape: tuple[int, ...]
    symmetric: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], marginals: Sequence[Marginal], keep_whole: Sequence[int] = ()) -> Basis:
        """The finest split for `marginals`; attributes in `keep_whole` are taken as asymmetric in any case."""
        symmetric = []
        for j, n in enumerate(shape):
            sizes = {marginal.sizes[j] for marginal in marginals}
            partial = any(marginal.is_partial(j) for marginal in marginals)
            if j not in keep_whole and sizes <= {1, n} and not partial:
                symmetric.append(j)
        return cls(shape, tuple(symmetric))

    @property
    def asymmetric(self) -> tuple[int, ...]:
        """Positions of the asymmetric attributes."""
        return tuple(j for j in range(len(self.shape)) if j not in self.symmetric)

    @property
    def n_asymmetric(self) -> int:
        """a, the number of combinations of the asymmetric attributes; the size of the blocks."""
        return math.prod(self.shape[j] for j in self.asymmetric)

    @property
    def symmetric_shape(self) -> tuple[int, ...]:
        """Number of values of each symmetric attribute."""
        return tuple(self.shape[j] for j in self.symmetric)

    @property
    def n_blocks(self) -> int:
        """Number of blocks: the subsets of the symmetric attributes."""
        return 1 << len(self.symmetric)

    @cached_property
    def subsets(self) -> BoolArray:
        """Row b: which symmetric attributes are in subset b, `(n_blocks, s)`; row 0 is the empty set."""
        places = np.arange(len(self.symmetric) - 1, -1, -1)
        return (np.arange(self.n_blocks)[:, None] >> places[None, :]) % 2 == 1

    @cached_property
    def _contains(self) -> BoolArray:
        """`(n_blocks, n_blocks)`: row b, column k: subset k is part of subset b."""
        return np.asarray((~self.subsets[None, :, :] | self.subsets[:, None, :]).all(axis=2))

    @cached_property
    def to_marginal_form(self) -> FloatArray:
        """`(n_blocks, n_blocks)` T: sum_B H_B (x) P_B = sum_K (sum_B T[K, B] H_B) (x) (I on K, 11' elsewhere)."""
        sizes = np.array(self.symmetric_shape, dtype=float)
        inverse_outside = np.array([np.prod(1.0 / sizes[~keep]) for keep in self.subsets])
        sign = np.where((self.subsets.sum(1)[None, :] - self.subsets.sum(1)[:, None]) % 2, -1.0, 1.0)
        return np.where(self._contains.T, sign * inverse_outside[:, None], 0.0)

    @cached_property
    def to_pattern_form(self) -> FloatArray:
        """`(n_blocks, n_blocks)`: row e, of which blocks the entries of a `pattern_table` are made."""
        return self._contains.astype(np.float64) @ self.to_marginal_form

    @cached_property
    def cell_blocks(self) -> tuple[IntArray, IntArray]:
        """For each cell of the schema: its asymmetric cell `(n_cells,)`, its symmetric values `(n_cells, s)`."""
        codes = np.stack(np.unravel_index(np.arange(math.prod(self.shape)), self.shape), axis=1)
        asymmetric = np.zeros(len(codes), dtype=np.int64)
        for j in self.asymmetric:
            asymmetric = asymmetric * self.shape[j] + codes[:, j]
        return asymmetric, codes[:, list(self.symmetric)].astype(np.int64)

    def fold(self, cells: FloatArray) -> FloatArray:
        """Cells `(n, n_cells)` in the schema's order as `(n, a, n_1, ..., n_s)`."""
        shaped = cells.reshape(-1, *self.shape)
        moved = shaped.transpose(0, *(1 + j for j in self.asymmetric), *(1 + j for j in self.symmetric))
        return moved.reshape(len(cells), self.n_asymmetric, *self.symmetric_shape)

    def unfold(self, folded: FloatArray) -> FloatArray:
        """The inverse of `fold`: `(n, n_cells)`."""
        return self.in_order(folded, self.shape)

    def in_order(self, folded: NDArray[Any], sizes: Sequence[int]) -> NDArray[Any]:
        """Numbers of all combinations of groups, asymmetric attributes first, in the schema's order: `(n, size)`.

        `sizes` are the numbers of groups of each attribute, in the schema's order.
        """
        order = (*self.asymmetric, *self.symmetric)
        shaped = folded.reshape(len(folded), *(sizes[j] for j in order))
        return shaped.transpose(0, *(1 + int(j) for j in np.argsort(order))).reshape(len(folded), -1)

    def recode(self, marginal: Marginal) -> FloatArray:
        """The marginal's matrix on the asymmetric attributes alone, `(asymmetric answers, a)` zeros and ones.

        Rows of answers that were not measured are zeros.
        """
        matrix: FloatArray = np.ones((1, 1))
        for j in self.asymmetric:
            indicator = np.zeros((marginal.sizes[j], self.shape[j]))
            indicator[marginal.groups[j], np.arange(self.shape[j])] = 1.0
            if marginal.answered:
                indicator *= marginal.answered[j][:, None]
            matrix = np.asarray(np.kron(matrix, indicator), dtype=float)
        return matrix

    def kept(self, marginal: Marginal) -> BoolArray:
        """Which symmetric attributes the marginal keeps whole, `(s,)`."""
        return np.array([marginal.sizes[j] > 1 or self.shape[j] == 1 for j in self.symmetric], dtype=bool)

    def block_scale(self, marginal: Marginal) -> FloatArray:
        """`(n_blocks,)`: A'A = recode'recode (x) sum_B scale[B] P_B for the marginal's matrix A."""
        kept = self.kept(marginal)
        return np.where(self._within(kept), float(self._outside(kept)), 0.0)

    def _within(self, keep: BoolArray) -> BoolArray:
        """Which blocks are of subsets of the symmetric attributes in `keep`, `(n_blocks,)`."""
        return np.asarray(~(self.subsets & ~keep[None, :]).any(axis=1))

    def _outside(self, keep: BoolArray) -> int:
        """Combinations of the symmetric attributes outside `keep`."""
        return math.prod(n for n, kept in zip(self.symmetric_shape, keep, strict=True) if not kept)

    def kept_shape(self, keep: BoolArray) -> tuple[int, ...]:
        """Values of each symmetric attribute, 1 of those outside `keep`."""
        return tuple(n if kept else 1 for n, kept in zip(self.symmetric_shape, keep, strict=True))

    def precision(self, marginals: Sequence[tuple[Marginal, float]]) -> FloatArray:
        """Blocks `(n_blocks, a, a)` of sum A'A / variance over (marginal, variance)."""
        blocks = np.zeros((self.n_blocks, self.n_asymmetric, self.n_asymmetric))
        for marginal, variance in marginals:
            recode = self.recode(marginal)
            blocks += self.block_scale(marginal)[:, None, None] * (recode.T @ recode) / variance
        return blocks

    def apply(self, blocks: FloatArray, folded: FloatArray, classes: IntArray | None = None) -> FloatArray:
        """Matrix times vectors: blocks `(n or 1, n_blocks, a, a)`, vectors `(n, a, n_1, ..., n_s)`.

        Args:
            blocks: of the matrices.
            folded: the vectors, as `fold` gives them.
            classes: `(n,)` which of the blocks `(n_classes, n_blocks, a, a)` each vector is multiplied by; the
                matrices of a few vectors are looked up at a time.
        """
        if classes is not None:
            out = np.empty_like(folded)
            for rows in chunks(len(folded), self.n_blocks * self.n_asymmetric**2):
                used, local = np.unique(classes[rows], return_inverse=True)
                out[rows] = self._apply(blocks[used], folded[rows], local)
            return out
        return self._apply(blocks, folded)

    def _apply(self, blocks: FloatArray, folded: FloatArray, of: IntArray | slice = slice(None)) -> FloatArray:
        marginal_form = np.einsum("kb,nbij->nkij", self.to_marginal_form, blocks)
        out = np.zeros_like(folded)
        n, a = folded.shape[:2]
        for k, keep in enumerate(self.subsets):
            summed_axes = tuple(2 + j for j in np.flatnonzero(~keep))
            summed = folded.sum(axis=summed_axes, keepdims=True) if summed_axes else folded
            out += (marginal_form[of, k] @ summed.reshape(n, a, -1)).reshape(summed.shape)
        return out

    def pattern_table(self, blocks: FloatArray) -> FloatArray:
        """`(n, n_blocks, a, a)`: entry [:, e, i, j] of the matrix for two cells with asymmetric cells i and j.

        e is the subset of the symmetric attributes on which the two cells agree.
        """
        table: FloatArray = np.einsum("pk,kb,nbij->npij", self._contains * 1.0, self.to_marginal_form, blocks)
        return table

    def patterns_of(self, blocks: FloatArray) -> FloatArray:
        """A `pattern_table` by two products, for large blocks; its last bits may be others."""
        return np.einsum("pb,nbij->npij", self.to_pattern_form, blocks, optimize=True)

    def dense(self, table: FloatArray, cells: IntArray) -> FloatArray:
        """The matrices `(n, k, k)` on k of the cells, in C order, looked up in a `pattern_table`."""
        asymmetric, symmetric = self.cell_blocks
        rows, values = asymmetric[cells], symmetric[cells]
        flat = table.reshape(len(table), -1)
        out = np.empty((len(table), len(cells), len(cells)))
        for some in chunks(len(cells), len(cells)):
            pattern = np.zeros((len(cells[some]), len(cells)), dtype=np.int64)
            for j in range(len(self.symmetric)):
                pattern = 2 * pattern + (values[some, None, j] == values[None, :, j])
            index = (pattern * table.shape[-1] + rows[some, None]) * table.shape[-1] + rows[None, :]
            for number, own in enumerate(flat):
                own.take(index, out=out[number, some], mode="clip")  # no index is outside; "raise" would copy
        return out

    def restricted(self, blocks: FloatArray, cells: IntArray) -> FloatArray:
        """The matrices `(n, k, k)` on k of the cells, from blocks `(n, n_blocks, a, a)`."""
        return self.dense(self.pattern_table(blocks), cells)

    def summed_to(self, keep: BoolArray) -> tuple[Basis, IntArray]:
        """The basis left when the symmetric attributes outside `keep` are summed out, and its blocks' numbers here.

        Summing a vector V z over an attribute leaves the blocks without it: the same V_B act on the sums of z.
        """
        shape = (self.n_asymmetric, *(n for n, kept in zip(self.symmetric_shape, keep, strict=True) if kept))
        return Basis(shape, tuple(range(1, len(shape)))), np.flatnonzero(self._within(keep))

    def answers_in_order(self, marginal: Marginal, summed: FloatArray) -> FloatArray:
        """Answers `(n, size)` from histograms `(n, a, n_1 or 1, ...)`, summed over symmetric attributes that it sums.

        The marginal may recode symmetric attributes, or sum out those that are not summed yet.
        """
        shaped = summed
        for axis, j in enumerate(self.symmetric, start=2):
            group = marginal.groups[j]
            if shaped.shape[axis] == len(group) and not np.array_equal(group, np.arange(len(group))):
                indicator = np.arange(marginal.sizes[j])[:, None] == group
                shaped = np.moveaxis(np.tensordot(shaped, indicator * 1.0, axes=(axis, 1)), -1, axis)
        folded = self.recode(marginal) @ shaped.reshape(len(summed), self.n_asymmetric, -1)
        return self.in_order(folded, marginal.sizes)

    def answer_covariances(self, blocks: FloatArray, marginal: Marginal) -> FloatArray:
        """Covariances `(n, size, size)` of a marginal's answers under covariances `(n, n_blocks, a, a)`.

        The marginal must keep whole or sum out each symmetric attribute.
        """
        keep = self.kept(marginal)
        small, numbers = self.summed_to(keep)
        recode = self.recode(marginal)
        outside = self._outside(keep)
        answers = Basis((len(recode), *small.shape[1:]), small.symmetric)
        matrices = answers.restricted(outside * (recode @ blocks[:, numbers] @ recode.T), np.arange(marginal.size))
        order = self.answer_order(marginal)
        return matrices[:, order[:, None], order[None, :]]

    def back_project(self, marginal: Marginal, answers: NDArray[np.generic], keep: BoolArray) -> FloatArray:
        """A'y for answers `(n, size)`, summed over the symmetric attributes outside `keep`: `(n, a, kept sizes)`.

        Summed-out axes have length 1. With `keep` all True this is A'y on all cells.
        """
        projected = self.projected(marginal, answers, keep)
        return np.broadcast_to(projected, (*projected.shape[:2], *self.kept_shape(keep)))

    def projected(self, marginal: Marginal, answers: NDArray[np.generic], keep: BoolArray) -> FloatArray:
        """As `back_project`, where axes on which nothing varies have length 1 too."""
        n = len(answers)
        shaped = answers.reshape(n, *marginal.sizes)
        order = (*self.asymmetric, *self.symmetric)
        recode = self.recode(marginal)
        sizes = tuple(marginal.sizes[j] for j in self.symmetric)
        folded = shaped.transpose(0, *(1 + j for j in order)).reshape(n, len(recode), *sizes)
        held = self.kept(marginal)
        factor = 1.0
        for j, (is_held, is_kept) in enumerate(zip(held, keep, strict=True)):
            if is_held and not is_kept:
                folded = folded.sum(axis=2 + j, keepdims=True)
            elif not is_held and not is_kept:
                factor *= self.symmetric_shape[j]
        flat = recode.T @ folded.reshape(n, len(recode), -1).astype(np.float64) * factor
        return flat.reshape(n, self.n_asymmetric, *folded.shape[2:])

    def answer_variances(self, blocks: FloatArray, marginal: Marginal) -> FloatArray:
        """Variances `(n, size)` of a marginal's answers under covariances `(n, n_blocks, a, a)`.

        The marginal may recode symmetric attributes: groups of g of n values have g^2/n on "constant" and
        g - g^2/n on "sums to zero".
        """
        recode, factors = self.answer_factors(marginal)
        diagonal = diagonals(recode, blocks)
        folded = np.einsum("nbg,bf->ngf", diagonal, factors)
        return folded.reshape(len(blocks), -1)[:, self.answer_order(marginal)]

    def answer_factors(self, marginal: Marginal) -> tuple[FloatArray, FloatArray]:
        """The marginal's matrix on the asymmetric attributes `(G, a)`, and the parts of its answers in each block.

        The variance of the answer (g, f) is the sum over blocks b of `factors[b, f]` times g' V_b g; `factors` is
        `(n_blocks, F)`, F the answers over the symmetric attributes.
        """
        factors: FloatArray = np.ones((1, 1))
        # The subsets are in the order of this product: outside and inside of the first attribute, then of the next.
        for j, n in zip(self.symmetric, self.symmetric_shape, strict=True):
            group = np.bincount(marginal.groups[j], minlength=marginal.sizes[j]).astype(np.float64)
            of_attribute = np.stack([group**2 / n, group - group**2 / n])
            factors = np.asarray(np.kron(factors, of_attribute), dtype=float)
        return self.recode(marginal), factors

    def answer_order(self, marginal: Marginal) -> IntArray:
        """For each answer in the schema's order, its place among the answers (g, f) of `answer_factors`."""
        return self.in_order(np.arange(marginal.size)[None, :], marginal.sizes)[0]
