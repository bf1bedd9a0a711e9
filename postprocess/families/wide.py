"""Which cells of a wide area at the top have persons: ADMM in the block basis finds them, the exact method proves them.

Nothing is above the area, so that all its possible cells are in one problem,

    minimise 1/2 x'Hx - l'x   subject to   0 <= x <= upper   and   lower <= sums of x over groups of cells <= upper,

and a matrix of one number for each two of them has gigabytes from some ten thousand cells on. But H has few and small
blocks (`postprocess.algebra`), and in the solution most cells are empty. So

1. ADMM (Boyd et al. 2011, section 5.2) with the resolvent of H in the block basis finds about where x is positive;
2. the exact method (`active_set`) solves the problem on these cells alone;
3. the gradient of the Lagrangian in **all** cells, one product with the blocks, says which others would have to be
   positive: these are added, and 2 is repeated, until there are none.

The solution on the cells that are left, with 0 in all others, then satisfies the optimality conditions of the whole
problem, and as H is definite there is only one such x: where ADMM stood does not matter. Memory is that of the square
of the number of positive cells.

(H + s M)^-1 for matrices H and M in the block basis is worked out by orthogonal transforms (`InBlocks`).

Precisions in the block basis: of large families, in place of a number for each two of their cells.

A matrix of all cells of a wide schema has few and small blocks (`postprocess.algebra`); on some of the cells it has
none, and as many numbers as the square of these. So it stays in blocks, and what is asked for is worked out: its
product with vectors that are zero in all other cells, and its entries on the few cells that are free in one child.

On a symmetric attribute of n values every block acts on "constant" or on "sums to zero" alone. An orthonormal matrix
whose first row is constant (Helmert's) turns the first into one coordinate and the second into n - 1. With one such
matrix for each symmetric attribute a block is multiplied by its own coordinates and by no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert

from postprocess.algebra import Basis, chunks
from postprocess.arrays import Arrays, FloatArray, IntArray, largest_of
from postprocess.errors import SolverError
from postprocess.families.active_set import SIGN, Guess, solve_exactly
from postprocess.families.family import Family, GroupRange
from postprocess.families.large import step_of
from postprocess.families.precisions import Dense, Matrices, Precisions, kinds_of
from postprocess.families.progress import Standing, Watch
from postprocess.marginal import Marginal

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


#: Possible cells at the top up to which all are solved together, with a number for each two of them.
WIDE = 4096
RELAXATION = 1.6
#: Iterations after which the exact solution is tried; after the last one the area is given up.
TRY_AT = (400, 800, 1600, 3200, 6400)
#: Iterations at which the penalty may be doubled or halved.
ADAPT_AT = (50, 100, 200, 400, 800, 1600, 3200)
#: The least eigenvalue of the precision that the first penalty is chosen by, as a share of the largest.
LEAST = 1e-12
#: One residual is this many times the other before the penalty is changed.
UNEVEN = 10.0
#: Cells that were missed, as a share of those taken and in any case, from which on it is sooner to let ADMM find them.
MOST_MISSING, FEW_CELLS = 0.5, 50
#: Rounds in which empty cells are taken out again; later ones only add, so that there is an end.
LEAVING = 4
#: Bytes of the exact method for each two of the cells that are in the problem: nearly two matrices.
SQUARE_BYTES = 15.0


@dataclass(frozen=True, eq=False)
class AnswerLimits:
    """Limits of a query's answers, `(size,)` each; equal ones are held."""

    marginal: Marginal
    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, eq=False)
class WideArea:
    """The problem of an area at the top.

    Attributes:
        name: level and geocode, for messages.
        basis: in which the precision is stated.
        blocks: `(n_blocks, a, a)` of the precision, which is definite.
        linear: `(n_cells,)`, of all cells of the schema.
        upper: `(n_cells,)`; 0 where a cell is impossible, or one of its sums is to be 0.
        sums: limits of queries' answers, whose queries keep whole or sum out the symmetric attributes of the basis.
    """

    name: str
    basis: Basis
    blocks: FloatArray
    linear: FloatArray
    upper: FloatArray
    sums: tuple[AnswerLimits, ...]

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """All arrays of the problem."""
        limits = (limit for one in self.sums for limit in (one.lower, one.upper))
        return (self.blocks, self.linear, self.upper, *limits)

    def times(self, x: FloatArray) -> FloatArray:
        """The precision times cells `(n_cells,)`."""
        return self.basis.unfold(self.basis.apply(self.blocks[None], self.basis.fold(x[None, :])))[0]

    def on(self, cells: IntArray, table: FloatArray) -> Family:
        """The problem on some cells, the others empty; `table` is the `pattern_table` of the blocks."""
        return Family(
            name=self.name,
            precision=Dense(self.basis.dense(table, cells)),
            linear=self.linear[None, cells],
            upper=self.upper[None, cells],
            parent=None,
            ranges=tuple(
                GroupRange(one.marginal.cell_answer[cells], one.lower[None, :], one.upper[None, :]) for one in self.sums
            ),
        )


def positive_cells(area: WideArea) -> IntArray:
    """The cells that are positive in the solution, in order.

    Raises:
        SolverError: they were not found.
    """
    table = area.basis.pattern_table(area.blocks[None])
    for x in _iterates(area):
        solution = _proved(area, table, x)
        if solution is not None:
            return np.flatnonzero(solution > 0)
    raise SolverError(f"{area.name}: the cells with persons were not found in {TRY_AT[-1]:,} iterations")


def _proved(area: WideArea, table: FloatArray, x: FloatArray) -> FloatArray | None:
    """The solution `(n_cells,)` from a guess of it, whose positive cells count; None where it was too far off."""
    tolerance = SIGN * max(1.0, largest_of(area.linear))
    inside = x > 0
    turn = 0
    while True:
        turn += 1
        cells = np.flatnonzero(inside)
        x, multipliers = np.zeros_like(x), np.zeros(sum(len(one.lower) for one in area.sums))
        if len(cells):
            family = area.on(cells, table)
            (exact,) = solve_exactly([family], [Guess.none_active(family)])
            if exact is None:
                return None
            x[cells], multipliers = exact.x[0], exact.multipliers[0]
        elif any((one.lower > 0).any() for one in area.sums):
            return None
        missing = ~inside & (area.upper > 0) & (_gradient(area, x, multipliers) < -tolerance)
        if not missing.any():
            return x
        if np.count_nonzero(missing) > MOST_MISSING * len(cells) + FEW_CELLS:
            return None
        inside = missing | (x > 0 if turn <= LEAVING else inside)


def _gradient(area: WideArea, x: FloatArray, multipliers: FloatArray) -> FloatArray:
    """The gradient of the Lagrangian in all cells, `(n_cells,)`."""
    gradient = area.times(x) - area.linear
    first = 0
    for one in area.sums:
        gradient -= multipliers[first : first + len(one.lower)][one.marginal.cell_answer]
        first += len(one.lower)
    return gradient


def _iterates(area: WideArea) -> Iterator[FloatArray]:
    """The non-negative iterates of ADMM `(n_cells,)` at which the exact solution is tried."""
    basis, coordinates = area.basis, Coordinates(area.basis)
    # All vectors are in the order of the basis.
    cells = basis.fold(np.arange(len(area.linear), dtype=np.float64)[None, :])[0].astype(np.int64).ravel()
    shape = basis.n_asymmetric, -1
    linear, limits = area.linear[cells], (np.zeros(len(cells)), area.upper[cells])
    answers_of = [one.marginal.cell_answer[cells] for one in area.sums]

    def times(blocks: NDArray[np.floating], x: FloatArray) -> FloatArray:
        return np.asarray(coordinates.times(blocks, x.reshape(shape)), dtype=np.float64).ravel()

    def answers(x: FloatArray) -> list[FloatArray]:
        return [
            np.bincount(of, x, len(one.lower)).astype(np.float64) for of, one in zip(answers_of, area.sums, strict=True)
        ]

    values = np.linalg.eigvalsh(area.blocks)
    penalty = float(np.sqrt(max(values.min(), LEAST * values.max()) * values.max()))
    grams = basis.precision([(one.marginal, 1.0) for one in area.sums]) + np.eye(basis.n_asymmetric)
    watch, first = Watch(area.name), 1
    standing = Standing("admm", lambda: area.arrays)
    if (kept := standing.found()) is not None:
        first, penalty, z, u = int(kept["iteration"]), float(kept["penalty"]), kept["z"], kept["u"]
        w, v = ([kept[f"{name}-{i}"] for i in range(len(area.sums))] for name in "wv")
    else:
        z = np.clip(times(np.linalg.inv(area.blocks), linear), *limits)
        u = np.zeros_like(z)
        w = [np.clip(at, one.lower, one.upper) for at, one in zip(answers(z), area.sums, strict=True)]
        v = [np.zeros_like(at) for at in w]
    resolvent = np.linalg.inv(area.blocks + penalty * grams)

    def arrays(iteration: int) -> Arrays:
        of_sums = {f"{name}-{i}": at for name, all_of in (("w", w), ("v", v)) for i, at in enumerate(all_of)}
        return {"iteration": np.array(iteration), "penalty": np.array(penalty), "z": z, "u": u, **of_sums}

    for iteration in range(first, TRY_AT[-1] + 1):
        standing.at(partial(arrays, iteration))
        pulled = z - u
        for of, at, off in zip(answers_of, w, v, strict=True):
            pulled += (at - off)[of]
        x = times(resolvent, linear + penalty * pulled)
        sums = answers(x)
        before = [z, *w]
        watch.at(partial(step_of, iteration, x, z))
        z, u = _clipped(x, z, u, limits)
        for i, one in enumerate(area.sums):
            w[i], v[i] = _clipped(sums[i], w[i], v[i], (one.lower, one.upper))
        if iteration in ADAPT_AT:
            primal = max(largest_of(one - other) for one, other in zip([x, *sums], [z, *w], strict=True))
            dual = max(largest_of(one - other) for one, other in zip(before, [z, *w], strict=True))
            change = 2.0 if primal > UNEVEN * dual else 0.5 if dual > UNEVEN * primal else 1.0
            if change != 1.0:
                penalty, u, v = penalty * change, u / change, [off / change for off in v]
                resolvent = np.linalg.inv(area.blocks + penalty * grams)
        if iteration in TRY_AT:
            found = np.empty_like(z)
            found[cells] = z
            yield found


def _clipped(
    x: FloatArray, before: FloatArray, off: FloatArray, limits: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """The next point within the limits, and its scaled multiplier."""
    off = off + RELAXATION * x + (1.0 - RELAXATION) * before
    point = np.clip(off, *limits)
    return point, off - point
