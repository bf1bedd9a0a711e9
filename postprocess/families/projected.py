"""The solutions of large areas and families, without a matrix of cells, to 1e-5 persons in every cell.

Which cells are 0 is found by the primal-dual active set method, from all possible cells free: negative ones are fixed
at 0, and those released whose multiplier has the wrong sign. With the free cells given, the stationary point is found
by conjugate gradients among the directions that change none of the parent's sums and no held one (Gould, Hribar and
Nocedal 2001): the eigenvalues of precisions that are weights on few sums (`sum_weights`) lie close together, since c is
the least and belongs to most of them. Of an area with wide queries they go by the inverse of its precision (`Inverse`),
so that they end after a step or two. A round goes on from the one before; while many cells change it leaves a tenth of
what it began with, and the last one is to rounding error. Where rounds go round in a circle, only the worst half of the
cells are changed, then the worst quarter, and so on; and what free cells in several parts leave open is settled
(`Parts`).

**What a solution is worth** (`distance`). Let x keep the fixed sums, and g be the objective's gradient at x less any
multipliers of these sums. Then x is the exact solution for linear terms that differ from the family's by d, which is g
where x > 0, and min(g, 0) where x = 0. As every precision is at least c times the identity, the exact solution x* of
the family itself has

    |x - x*| <= |d| / c    in the Euclidean norm over all cells of all children, and so in each cell.

One product with the precisions gives this bound, over all possible cells. A solution with a larger one than `ALLOWED`
is not accepted.

The inverse of a precision that is weights on nested queries and few sums, on any cells, without a matrix of them.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from postprocess.arrays import BoolArray, FloatArray, IntArray, largest_of
from postprocess.families.active_set import MET, ExactSolution
from postprocess.families.family import Family, clipped
from postprocess.families.progress import Standing, Watch
from postprocess.families.sum_weights import InPieces, SumWeights, sums_over


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
        return out - self._of_chain(self.spread @ (self.inner @ (self.few @ out)))

    def _of_chain(self, vector: FloatArray) -> FloatArray:
        """The inverse without the few sums."""
        out = vector / self.scale
        for group, size, b, share in self.parts:
            out = out - b * (share * np.bincount(group, out, size))[group]
        return out


#: Persons by which a cell of a solution may differ from the exact one at most; and the bound that is aimed at.
ALLOWED, AIM = 1e-5, 1e-7
#: What rounding leaves of a gradient at least, relative to the norm of the linear terms.
LAST_BITS = 2.0**-54
#: Persons below 0, and what a multiplier has of the wrong sign in persons, that count as none.
NONE = 1e-8
#: Rounds of the active set, and steps of conjugate gradients in one.
MOST_ROUNDS, MOST_STEPS = 200, 5000
#: What is left of the gradient after a round in which many cells change, and less by this where no fewer change than
#: before; the least of it, also where few cells change (of all). Where none do, only what rounding leaves.
LEFT, LEAST_LEFT, FEW_CHANGES = 0.1, 1e-4, 0.002
#: What conjugate gradients leave until they begin again from the gradient itself, which has lost less than the one that
#: is carried on.
LEFT_BY_RESTART = 1e-8
#: Restarts at most; they end where one leaves more than this share of the gradient, which is rounding then.
RESTARTS, ROUNDING = 8, 0.5
#: Rounds in a row that leave the least and change no fewer cells than the best before, after which half as many of them
#: are changed.
PATIENCE = 2
#: Numbers in the matrices of the held sums, one for each two children, up to which they are made.
MOST_HELD = 1 << 25
#: Relative size of eigenvalues that count as zero.
ZERO = 1e-11
#: Stands for what may not be divided by.
TINY = 1e-300


def in_proportion(family: Family, possible: BoolArray) -> FloatArray:
    """Of each cell of the parent `(k, C)` the same share for a child, where it is possible; zeros without a parent."""
    if family.parent is None:
        return np.zeros(possible.shape)
    return possible * (family.parent / np.maximum(possible.sum(axis=1), 1))[:, None]


class FreeSums:
    """The parent's and the held sums of the cells that are free, and projections on what changes none of them.

    Free cells `(k, C)` that are added nu_i to in cell i of the parent and mu_gc to in a held sum g of child c change
    the sums by a Laplacian times these, which is singular: adding to all nu what is taken off all mu changes nothing.
    """

    def __init__(self, family: Family, free: BoolArray) -> None:
        self.free, self.mask, self.parent = free, free.astype(np.float64), family.parent
        count = free.sum(axis=1)
        self.share = np.zeros(len(free)) if family.parent is None else 1.0 / np.maximum(count, 1)
        self.can_be_met = family.parent is None or bool(count.all())
        self.group: IntArray | None = None
        self.in_parts = False
        if family.held is None:
            return
        self.group, size = family.held.group, family.held.size
        self.sums = InPieces(sums_over(self.group, size))
        per_child = self.sums.of(self.mask)
        self.can_be_met &= bool((per_child[family.held.lower.T > 0] > 0).all())
        if family.parent is None:
            self.inverse = np.zeros((size, free.shape[1], free.shape[1]))
            self.inverse[:, 0, 0] = 1.0 / np.maximum(per_child[:, 0], 1.0)
            return
        # Cells that are free in all children hold together what has a held sum.
        self.in_parts = len(np.unique(self.group[count == free.shape[1]])) < size
        laplacian = np.zeros((size, free.shape[1], free.shape[1]))
        for number in range(size):
            own = self.mask[self.group == number]
            laplacian[number] = np.diag(per_child[number]) - (own * self.share[self.group == number, None]).T @ own
        if self.in_parts:
            self.inverse = np.asarray(np.linalg.pinv(laplacian, rcond=ZERO, hermitian=True), dtype=np.float64)
        else:  # where all hold together nothing but what is added to all is 0
            self.inverse = np.linalg.inv(laplacian + laplacian.max(axis=(1, 2), keepdims=True) / len(laplacian[0]))

    def of(self, cells: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """The sums of cells, 0 where they are not free: the parent's `(k,)` and the held ones `(m, C)`."""
        return cells.sum(axis=1), None if self.group is None else self.sums.of(cells)

    def multipliers(self, by_cell: FloatArray, by_group: FloatArray | None) -> FloatArray:
        """nu_i + mu_gc in all cells `(k, C)`, for which the free ones have the given sums."""
        nu = by_cell * self.share
        if by_group is None or self.group is None:
            return np.broadcast_to(nu[:, None], self.free.shape)
        if len(by_group) == 1:
            mu = (by_group[0] - nu @ self.mask) @ self.inverse[0]
            return (nu - (self.mask @ mu) * self.share)[:, None] + mu
        mu = np.matmul(self.inverse, (by_group - self.sums.of(self.mask * nu[:, None]))[:, :, None])[:, :, 0]
        on_cells = mu[self.group]
        nu -= np.einsum("kc,kc->k", self.mask, on_cells) * self.share
        return nu[:, None] + on_cells

    def projected(self, cells: FloatArray) -> FloatArray:
        """The nearest cells, 0 where they are not free, whose sums are all 0."""
        inside = cells * self.mask
        return (inside - self.multipliers(*self.of(inside))) * self.mask

    def lagrangian(self, gradient: FloatArray) -> FloatArray:
        """A gradient in all cells without the multipliers of the sums, by least squares of the free cells."""
        return gradient - self.multipliers(*self.of(gradient * self.mask))

    def met(self, x: FloatArray, held: FloatArray | None) -> FloatArray:
        """The nearest free cells with the parent's and the `held` sums `(m, C)`."""
        for _ in range(2):
            by_cell, by_group = self.of(x)
            if self.parent is not None:
                by_cell = self.parent - by_cell
            if by_group is not None and held is not None:
                by_group = held - by_group
            x = x + self.multipliers(by_cell, by_group) * self.mask
        return x


def distance(family: Family, x: FloatArray) -> float:
    """By how many persons a cell of `x` `(C, k)` differs from the family's exact solution at most; see the module.

    It holds for any x >= 0 with the fixed sums of a family without ranges; upper limits that these imply count as none.
    """
    cells, possible = np.ascontiguousarray(x.T), family.upper.T > 0
    positive = cells > 0
    left = FreeSums(family, positive).lagrangian(family.times(x).T - family.linear.T)
    if family.parent is not None and family.held is not None:
        left = Parts(family, positive).settled(left)
    missing = np.where(positive, left, np.where(possible, np.minimum(left, 0.0), 0.0))
    return float(np.linalg.norm(missing)) / family.precision.least()


class Parts:
    """The parts of a family's free cells `(k, C)` that have no held sum of a child and no cell of the parent in common.

    Attributes:
        of_cell: `(k,)` the part of each cell of the parent.
        of_child: `(k, C)` that of the held sum which each cell of each child is in.
        between: `(k, C)` possible cells that are in two parts.
        surplus: `(n,)` of each part the persons of the parent that are more than its children are to have.
    """

    def __init__(self, family: Family, free: BoolArray) -> None:
        assert family.parent is not None
        assert family.held is not None
        k, n = free.shape
        nodes = k + family.held.group[:, None] * n + np.arange(n)
        rows, columns = np.nonzero(free)
        size = k + family.held.lower.size
        graph = sp.coo_array((np.ones(len(rows)), (rows, nodes[rows, columns])), shape=(size, size))
        self.n, part = connected_components(graph, directed=False)
        self.of_cell, self.of_child = part[:k], part[nodes]
        self.between = (family.upper.T > 0) & (self.of_cell[:, None] != self.of_child)
        wanted = np.bincount(part[k:], family.held.lower.T.ravel(), self.n)
        self.surplus = np.bincount(self.of_cell, family.parent, self.n) - wanted

    def settled(self, left: FloatArray) -> FloatArray:
        """Gradients `(k, C)` without multipliers that leave no negative one between two parts, if there are such.

        What is added to the parent's multipliers of a part and taken off its children's is left open. It is to be
        t_p <= t_q + w_pq, of a cell of part p and a child of part q with w_pq left: shortest paths (Bellman and Ford).
        """
        rows, columns = np.nonzero(self.between)
        if not (left[rows, columns] < 0).any():
            return left
        most = np.full((self.n, self.n), np.inf)
        np.minimum.at(most, (self.of_cell[rows], self.of_child[rows, columns]), left[rows, columns])
        added = np.zeros(self.n)
        for _ in range(self.n):
            added = np.minimum(added, (most + added).min(axis=1))
        return left - added[self.of_cell][:, None] + added[self.of_child]

    def links(self, left: FloatArray) -> BoolArray:
        """The cells `(k, C)` to be released so that no part has a surplus: of each that has, the least one."""
        out = np.zeros_like(self.between)
        for part in np.flatnonzero(self.surplus > MET):
            away = self.between & (self.of_cell == part)[:, None]
            if away.any():
                out.flat[np.argmin(np.where(away, left, np.inf))] = True
        return out


class _Alone:
    """The directions among free cells that change no fixed sum.

    Of an area without a parent: vectors are `(n_free,)`, and steps those of the inverse of its precision.

    Attributes:
        can_be_met: whether there are free cells for every fixed sum.
    """

    can_be_met = True

    def __init__(self, family: Family, quadratic: SumWeights, free: BoolArray) -> None:
        self.free = free[:, 0]
        self.own = quadratic if self.free.all() else quadratic.on(self.free)
        self.inverse = Inverse(self.own, quadratic.nested)
        self.held: sp.csr_array | None = None
        if family.held is not None:
            self.group, held = family.held.group, family.held.lower[0]
            group = self.group[self.free]
            self.used, rows = np.unique(group, return_inverse=True)
            self.can_be_met = bool(np.isin(np.flatnonzero(held > 0), self.used).all())
            shape = len(self.used), len(group)
            self.held = sp.csr_array((np.ones(len(group)), (rows, np.arange(len(group)))), shape=shape)
            self.values = held[self.used]
            self.on_held = np.column_stack([self.inverse.times(row) for row in self.held.toarray()])
            self.of_held = np.linalg.inv(self.held @ self.on_held)

    def put(self, x: FloatArray) -> FloatArray:
        """The vector of cells `(k, C)`."""
        return x[self.free, 0]

    def taken(self, vector: FloatArray) -> FloatArray:
        """The cells `(k, C)` of a vector, 0 where they are not free."""
        out = np.zeros((len(self.free), 1))
        out[self.free, 0] = vector
        return out

    def times(self, vector: FloatArray) -> FloatArray:
        """The precisions times a vector."""
        return self.own.times_columns(vector[:, None], np.zeros(1, dtype=np.int64))[:, 0]

    def met(self, vector: FloatArray) -> FloatArray:
        """A vector near another that has the fixed sums."""
        if self.held is None:
            return vector
        return vector + self.on_held @ (self.of_held @ (self.values - self.held @ vector))

    def projected(self, gradient: FloatArray) -> FloatArray:
        """What multipliers of the fixed sums leave of a gradient."""
        if self.held is None:
            return gradient
        return gradient - self.held.T @ self._multipliers(gradient)

    def _multipliers(self, gradient: FloatArray) -> FloatArray:
        return self.of_held @ (self.on_held.T @ gradient)

    def step(self, residual: FloatArray) -> FloatArray:
        """The direction in which to go for a projected residual."""
        out = self.inverse.times(residual)
        if self.held is not None:
            out = out - self.on_held @ (self.of_held @ (self.held @ out))
        return out

    def lagrangian(self, gradient: FloatArray) -> FloatArray:
        """A gradient `(k, C)` without the multipliers of the fixed sums, in all cells."""
        if self.held is None:
            return gradient
        of_group = np.zeros(int(self.group.max()) + 1)
        of_group[self.used] = self._multipliers(gradient[self.free, 0])
        return gradient - of_group[self.group][:, None]

    def links(self, gradient: FloatArray) -> BoolArray:
        """The cells `(k, C)` without which the fixed sums cannot be met, by the gradient that `lagrangian` leaves."""
        return np.zeros(gradient.shape, dtype=bool)


class _Children:
    """The same of any families: vectors are cells `(k, C)`, 0 where they are not free."""

    def __init__(self, family: Family, free: BoolArray) -> None:
        self.family, self.sums = family, FreeSums(family, free)
        self.can_be_met = self.sums.can_be_met
        self.parts = Parts(family, free) if self.can_be_met and self.sums.in_parts else None

    def put(self, x: FloatArray) -> FloatArray:
        return x * self.sums.mask

    def taken(self, vector: FloatArray) -> FloatArray:
        return vector

    def times(self, vector: FloatArray) -> FloatArray:
        return self.family.times_columns(vector) * self.sums.mask

    def met(self, vector: FloatArray) -> FloatArray:
        held = self.family.held
        return self.sums.met(vector, None if held is None else held.lower.T)

    def projected(self, gradient: FloatArray) -> FloatArray:
        return self.sums.projected(gradient)

    def step(self, residual: FloatArray) -> FloatArray:
        return residual

    def lagrangian(self, gradient: FloatArray) -> FloatArray:
        left = self.sums.lagrangian(gradient)
        return left if self.parts is None else self.parts.settled(left)

    def links(self, gradient: FloatArray) -> BoolArray:
        return np.zeros(gradient.shape, dtype=bool) if self.parts is None else self.parts.links(gradient)


@dataclass
class _Search:
    """Where the search for the cells that are 0 stands, before a round.

    Attributes:
        x: `(k, C)`.
        free: `(k, C)`.
        number: of the round.
        left: the share of the gradient that the round leaves; with 0 it is to rounding error.
        share: of the cells that would change, those which do.
        fewest: cells that would have changed in the best round.
        patience: rounds that may still change no fewer.
    """

    x: FloatArray
    free: BoolArray
    number: int = 1
    left: float = LEFT
    share: float = 1.0
    fewest: int = 1 << 62
    patience: int = PATIENCE

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> _Search:
        """From what `arrays` gives."""
        numbers = {name: array.item() for name, array in arrays.items() if name not in ("x", "free")}
        return cls(arrays["x"], arrays["free"], **numbers)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of it."""
        return {name: np.asarray(value) for name, value in vars(self).items()}

    def link(self, x: FloatArray, links: BoolArray) -> None:
        """To the next round with some more cells `(k, C)`, without which the fixed sums cannot be met."""
        self.number, self.free = self.number + 1, self.free | links
        self.x = np.maximum(x, 0.0)

    def go_on(self, x: FloatArray, below: BoolArray, wrong: BoolArray, persons: FloatArray) -> None:
        """To the next round.

        Args:
            x: `(k, C)` what this round found.
            below, wrong: the free cells to be fixed, and the fixed ones to be released.
            persons: by which these are below 0, or wrong.
        """
        changing = below | wrong
        changes = int(np.count_nonzero(changing))
        fewer = changes < self.fewest
        if fewer:
            self.fewest, self.patience = changes, PATIENCE
        elif not self.patience:
            self.share, self.patience = self.share / 2.0, PATIENCE
        elif self.left <= LEAST_LEFT:
            self.patience -= 1
        if changes and self.share < 1.0:
            ordered = np.sort(persons[changing])
            changing &= persons >= ordered[-max(1, int(self.share * changes))]
        if not changes:
            self.left = 0.0
        elif changes <= FEW_CHANGES * self.free.size or self.left <= LEAST_LEFT:
            self.left = LEAST_LEFT
        elif not fewer:
            self.left *= LEFT
        self.number, self.free = self.number + 1, self.free ^ changing
        self.x = np.where(self.free, np.maximum(x, 0.0), 0.0)


def round_of(number: int, changes: int) -> str:
    """Where a search for the cells that are 0 is."""
    return f"round {number:,}, {changes:,} cells change"


def solve_by_projection(family: Family) -> ExactSolution | None:
    """The solution of a family without ranges; None where it is not found to `ALLOWED`."""
    if family.ranges or (family.held is not None and family.held.size * family.n_children**2 > MOST_HELD):
        return None
    quadratic, least = family.precision, family.precision.least()
    linear, possible = np.ascontiguousarray(family.linear.T), np.ascontiguousarray(family.upper.T > 0)
    aim = max(AIM * least, LAST_BITS * float(np.linalg.norm(linear)))
    search, watch = _Search(in_proportion(family, possible), possible), Watch(family.name)
    standing = Standing("projected", lambda: family.arrays)
    if (kept := standing.found()) is not None:
        search = _Search.of(kept)
    while search.number <= MOST_ROUNDS:
        standing.at(search.arrays)
        directions: _Alone | _Children
        if family.parent is None and isinstance(quadratic, SumWeights) and quadratic.wide:
            directions = _Alone(family, quadratic, search.free)
        else:
            directions = _Children(family, search.free)
        if not directions.can_be_met:
            return None
        x = _stationary(directions, linear, search.x, aim, search.left)
        if x is None:
            return None
        gradient = directions.lagrangian(family.times_columns(x) - linear)
        if (links := directions.links(gradient)).any():
            search.link(x, links)
            continue
        below, wrong = search.free & (x < -NONE), possible & ~search.free & (gradient < -NONE * least)
        watch.at(partial(round_of, search.number, int(np.count_nonzero(below | wrong))))
        if not search.left and not (below | wrong).any():
            return _accepted(family, x, gradient, search)
        search.go_on(x, below, wrong, np.where(below, -x, -gradient / least))
    return None


def _stationary(
    among: _Alone | _Children, linear: FloatArray, x: FloatArray, aim: float, left: float
) -> FloatArray | None:
    """The least of the objective among free cells with the fixed sums, `(k, C)`; None where steps do not lead there.

    Args:
        among: the directions in which to go.
        linear: `(k, C)`.
        x: where to begin.
        aim: norm of the gradient that is enough.
        left: share of the gradient that may be left, where it is more.
    """
    linear = among.put(linear)
    at = best = among.met(among.put(x))
    goal, before = aim, np.inf
    for turn in range(RESTARTS):
        residual = _residual(among, linear, at)
        size = float(np.linalg.norm(residual))
        if size < before:
            best = at
        if not turn:
            goal = max(aim, left * size)
        if size <= goal or size > ROUNDING * before:
            break
        before = size
        step = _descent(among, residual, max(0.3 * goal, LEFT_BY_RESTART * size))
        if step is None:
            return None
        at = among.met(at + step)
    return among.taken(best)


def _residual(among: _Alone | _Children, linear: FloatArray, at: FloatArray) -> FloatArray:
    """What is left of the gradient, with its sign changed, along the directions that change no fixed sum.

    It is projected twice: what rounding leaves once of a large gradient across these directions would be in each step,
    and taken off their sum, so that the fixed sums are kept, it would bring a larger gradient than is left.
    """
    return among.projected(among.projected(linear - among.times(at)))


def _descent(among: _Alone | _Children, residual: FloatArray, least: float) -> FloatArray | None:
    """Conjugate gradients from a projected residual until its norm is at most `least`; None after too many steps."""
    step = np.zeros_like(residual)
    direction = preferred = among.step(residual)
    square = float(np.vdot(residual, preferred))
    for _ in range(MOST_STEPS):
        along = among.projected(among.times(direction))
        length = square / max(float(np.vdot(direction, along)), TINY)
        step += length * direction
        residual = residual - length * along
        if float(np.linalg.norm(residual)) <= least:
            return step
        preferred = among.step(residual)
        before, square = square, float(np.vdot(residual, preferred))
        direction = preferred + (square / max(before, TINY)) * direction
    return None


def _accepted(family: Family, x: FloatArray, gradient: FloatArray, search: _Search) -> ExactSolution | None:
    """The solution with its residuals; None if a fixed sum is missed, or a cell may be further off than `ALLOWED`."""
    inside, primal = clipped(family, np.ascontiguousarray(x.T))
    if primal > MET or distance(family, inside) > ALLOWED:
        return None
    scale = max(1.0, largest_of(family.linear))
    dual = largest_of(gradient[search.free]) / scale
    return ExactSolution(inside, search.number, primal, dual, np.zeros((family.n_children, 0)))
