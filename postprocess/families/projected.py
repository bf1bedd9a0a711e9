"""The solutions of large areas and families, without a matrix of cells, to 1e-5 persons in every cell.

Which cells are 0, and which sums are at a limit of their range, is found by the primal-dual active set method, from all
possible cells free and all sums between their limits: what breaks a limit is fixed at it, and released if its
multiplier has the wrong sign. With these given, the stationary point is found by conjugate gradients among the
directions that change none of the parent's sums and none that is fixed (Gould, Hribar and Nocedal 2001): the
eigenvalues of precisions that are weights on sums (`sum_weights`) lie close together, since c is the least and belongs
to most of them. Of an area with wide queries they go by the inverse of its precision (`Inverse`),
so that they end after a step or two. A round goes on from the one before; while many cells change it leaves a tenth of
what it began with, and the last one is to rounding error. Where rounds go round in a circle, only the worst half of the
cells are changed, then the worst quarter, and so on; and what free cells in several parts leave open is settled
(`Parts`).

**What a solution is worth** (`distance`). Let x keep the fixed sums, and g be the objective's gradient at x less any
multipliers of these sums. Then x is the exact solution for linear terms that differ from the family's by d, which is g
where x > 0, and min(g, 0) where x = 0. As every precision is at least c times the identity, the exact solution x* of
the family itself has

    |x - x*| <= |d| / c    in the Euclidean norm over all cells of all children, and so in each cell.

What the multiplier of a sum at a limit of its range has of the wrong sign is in d, in all cells of the sum.

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
from functools import cached_property, partial
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
#: Numbers in the matrices of the sums at a limit, one for each two of them, up to which they are made.
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


@dataclass(frozen=True, eq=False)
class Limits:
    """The held sums and the ranges of a family, one after the other: s sums of each child.

    Attributes:
        matrix: `(s, k)` the cells of each.
        lower, upper: `(s, C)`, infinite where the limits of their cells imply them.
        n_held: how many are held.
    """

    matrix: sp.csr_array
    lower: FloatArray
    upper: FloatArray
    n_held: int

    @classmethod
    def of(cls, family: Family) -> Limits:
        """Those of a family."""
        matrix = [sp.csr_array((0, family.n_cells)), *(sums_over(one.group, one.size) for one in family.sums)]
        none = np.zeros((family.n_children, 0))
        lower, upper = zip((none, none), *map(family.limits_of, family.sums), strict=True)
        n_held = 0 if family.held is None else family.held.size
        return cls(sp.csr_array(sp.vstack(matrix)), np.hstack(lower).T, np.hstack(upper).T, n_held)

    @cached_property
    def sums(self) -> InPieces:
        """The sums of cells."""
        return InPieces(self.matrix)

    @cached_property
    def spread(self) -> sp.csr_array:
        """`(k, s)`."""
        return sp.csr_array(self.matrix.T)

    def possible(self, family: Family) -> BoolArray:
        """Which cells `(k, C)` can have persons."""
        return np.ascontiguousarray(family.upper.T > 0) & (self.spread @ (self.upper <= 0).astype(np.float64) == 0)

    @cached_property
    def fixed(self) -> BoolArray:
        """`(s, C)` which have one value."""
        return self.lower >= self.upper

    def at(self, sums: FloatArray, near: float) -> IntArray:
        """Which limits sums `(s, C)` are at, up to `near` persons, or beyond: -1 lower, 1 upper, 0 none of them."""
        beyond = np.where(sums < self.lower + near, -1, np.where(sums > self.upper - near, 1, 0))
        return np.where(self.fixed, -1, beyond)

    def values(self, state: IntArray) -> FloatArray:
        """The values of the sums that are at a limit, `(s, C)`; 0 of the others."""
        return np.where(state < 0, self.lower, np.where(state > 0, self.upper, 0.0))

    def of_wrong_sign(self, multipliers: FloatArray, state: IntArray) -> FloatArray:
        """What multipliers `(s, C)` of sums at a limit have that only the other limit could have."""
        wrong = np.where(state < 0, np.minimum(multipliers, 0.0), np.maximum(multipliers, 0.0))
        return np.where(self.fixed, 0.0, wrong)


class FreeSums:
    """The parent's sums and those at a limit of the cells that are free, and projections on what changes none of them.

    Free cells `(k, C)` that are added nu_i to in cell i of the parent and mu_gc to in a sum g of child c change the
    sums by a Laplacian times these, of those sums that have cells in common at a time. It is singular: adding to all nu
    what is taken off all mu of a held partition changes nothing.

    Args:
        family: of which they are.
        limits: its sums.
        free: `(k, C)`.
        state: `(s, C)` which limits are reached, as `Limits.at` says.
    """

    def __init__(self, family: Family, limits: Limits, free: BoolArray, state: IntArray) -> None:
        self.limits, self.mask, self.parent = limits, free.astype(np.float64), family.parent
        self.active, self.goal = state != 0, limits.values(state)
        count = free.sum(axis=1)
        self.share = np.zeros(len(free)) if family.parent is None else 1.0 / np.maximum(count, 1)
        self.can_be_met = family.parent is None or bool(count.all())
        with_free = limits.sums.of(self.mask) > 0
        self.can_be_met &= bool(with_free[self.active & (self.goal > 0)].all())
        self.active &= with_free
        # Cells that are free in all children hold together what has a held sum.
        together = np.unique(limits.matrix[: limits.n_held][:, np.flatnonzero(count == free.shape[1])].nonzero()[0])
        self.in_parts = family.parent is not None and len(together) < limits.n_held
        self.inverses: list[tuple[IntArray, IntArray, FloatArray]] = []
        used = np.flatnonzero(self.active.any(axis=1))
        n, linked = connected_components(limits.matrix[used] @ limits.spread[:, used], directed=False)
        of_part = [used[linked == number] for number in range(n)]
        self.can_be_met &= sum(int(self.active[own].sum()) ** 2 for own in of_part) <= MOST_HELD
        if not self.can_be_met:
            return
        for own in of_part:
            number, child = np.nonzero(self.active[own])
            cells = np.unique(limits.matrix[own].indices)
            inside = limits.matrix[own[number]][:, cells].toarray() * self.mask[cells][:, child].T
            laplacian = np.where(child[:, None] == child, inside @ inside.T, 0.0)
            laplacian -= (inside * self.share[cells]) @ inside.T
            if family.parent is None or self.in_parts or len(own) > 1 or own[0] >= limits.n_held:
                inverse = np.asarray(np.linalg.pinv(laplacian, rcond=ZERO, hermitian=True), dtype=np.float64)
            else:  # where all hold together nothing but what is added to all is 0
                inverse = np.linalg.inv(laplacian + laplacian.max() / len(laplacian))
            self.inverses.append((own[number], child, inverse))

    def multipliers(self, by_cell: FloatArray, by_sum: FloatArray) -> tuple[FloatArray, FloatArray]:
        """nu_i + mu_gc in all cells `(k, C)`, for which the free ones have the given sums, and mu `(s, C)`.

        Args:
            by_cell: `(k,)` the parent's.
            by_sum: `(s, C)` those at a limit; what the others have does not matter.
        """
        nu, mu = by_cell * self.share, np.zeros(by_sum.shape)
        if not self.inverses:
            return np.broadcast_to(nu[:, None], self.mask.shape), mu
        left = by_sum - self.limits.sums.of(self.mask * nu[:, None])
        for number, child, inverse in self.inverses:
            mu[number, child] = inverse @ left[number, child]
        on_cells = self.limits.spread @ mu
        nu -= np.einsum("kc,kc->k", self.mask, on_cells) * self.share
        return nu[:, None] + on_cells, mu

    def projected(self, cells: FloatArray) -> FloatArray:
        """The nearest cells, 0 where they are not free, whose sums are all 0."""
        inside = cells * self.mask
        return (inside - self.multipliers(inside.sum(axis=1), self.limits.sums.of(inside))[0]) * self.mask

    def lagrangian(self, gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A gradient in all cells without the multipliers of the sums, by least squares of the free cells; and mu."""
        inside = gradient * self.mask
        on_cells, mu = self.multipliers(inside.sum(axis=1), self.limits.sums.of(inside))
        return gradient - on_cells, mu

    def met(self, x: FloatArray) -> FloatArray:
        """The nearest free cells with the parent's sums and those at a limit."""
        for _ in range(2):
            by_cell = np.zeros(len(x)) if self.parent is None else self.parent - x.sum(axis=1)
            x = x + self.multipliers(by_cell, self.goal - self.limits.sums.of(x))[0] * self.mask
        return x


def distance(family: Family, x: FloatArray, state: IntArray | None = None) -> float:
    """By how many persons a cell of `x` `(C, k)` differs from the family's exact solution at most; see the module.

    It holds for any x >= 0 with the fixed sums and within the ranges; upper limits that these imply count as none.
    Only sums of `state` `(s, C)` have multipliers, as `Limits.at` says; by default all that are at a limit, of which
    some may have none of the right sign where others imply them.
    """
    cells, limits = np.ascontiguousarray(x.T), Limits.of(family)
    positive, state = cells > 0, limits.at(limits.sums.of(cells), MET) if state is None else state
    left, mu = FreeSums(family, limits, positive, state).lagrangian(family.times(x).T - family.linear.T)
    if family.ranges:
        left = left + limits.spread @ limits.of_wrong_sign(mu, state)
    if family.parent is not None and family.held is not None:
        left = Parts(family, positive).settled(left)
    missing = np.where(positive, left, np.where(limits.possible(family), np.minimum(left, 0.0), 0.0))
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
            self.group, held, self.n_sums = family.held.group, family.held.lower[0], family.held.size
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

    def lagrangian(self, gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A gradient `(k, C)` without the multipliers of the fixed sums, in all cells, and those of sums `(s, C)`."""
        if self.held is None:
            return gradient, np.zeros((0, 1))
        of_group = np.zeros((self.n_sums, 1))
        of_group[self.used, 0] = self._multipliers(gradient[self.free, 0])
        return gradient - of_group[self.group], of_group

    def links(self, gradient: FloatArray) -> BoolArray:
        """The cells `(k, C)` without which the fixed sums cannot be met, by the gradient that `lagrangian` leaves."""
        return np.zeros(gradient.shape, dtype=bool)


class _Children:
    """The same of any families: vectors are cells `(k, C)`, 0 where they are not free."""

    def __init__(self, family: Family, limits: Limits, free: BoolArray, state: IntArray) -> None:
        self.family, self.sums = family, FreeSums(family, limits, free, state)
        self.can_be_met = self.sums.can_be_met
        self.parts = Parts(family, free) if self.can_be_met and self.sums.in_parts else None
        self.met, self.projected = self.sums.met, self.sums.projected

    def put(self, x: FloatArray) -> FloatArray:
        return x * self.sums.mask

    def taken(self, vector: FloatArray) -> FloatArray:
        return vector

    def times(self, vector: FloatArray) -> FloatArray:
        return self.family.times_columns(vector) * self.sums.mask

    def step(self, residual: FloatArray) -> FloatArray:
        return residual

    def lagrangian(self, gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
        left, mu = self.sums.lagrangian(gradient)
        return (left if self.parts is None else self.parts.settled(left)), mu

    def links(self, gradient: FloatArray) -> BoolArray:
        return np.zeros(gradient.shape, dtype=bool) if self.parts is None else self.parts.links(gradient)


@dataclass
class _Search:
    """Where the search for the cells that are 0 stands, before a round.

    Attributes:
        x: `(k, C)`.
        free: `(k, C)`.
        state: `(s, C)` which limits sums are at, as `Limits.at` says.
        number: of the round.
        left: the share of the gradient that the round leaves; with 0 it is to rounding error.
        share: of the cells and sums that would change, those which do.
        fewest: cells and sums that would have changed in the best round.
        patience: rounds that may still change no fewer.
    """

    x: FloatArray
    free: BoolArray
    state: IntArray
    number: int = 1
    left: float = LEFT
    share: float = 1.0
    fewest: int = 1 << 62
    patience: int = PATIENCE

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> _Search:
        """From what `arrays` gives."""
        x, free, state = (arrays[name] for name in ("x", "free", "state"))
        return cls(x, free, state, **{name: array.item() for name, array in arrays.items() if not array.ndim})

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of it."""
        return {name: np.asarray(value) for name, value in vars(self).items()}

    def link(self, x: FloatArray, links: BoolArray) -> None:
        """To the next round with some more cells `(k, C)`, without which the fixed sums cannot be met."""
        self.number, self.free = self.number + 1, self.free | links
        self.x = np.maximum(x, 0.0)

    def go_on(self, x: FloatArray, persons: FloatArray, sums: FloatArray, then: IntArray) -> None:
        """To the next round.

        Args:
            x: `(k, C)` what this round found.
            persons: `(k, C)` by which free cells are below 0, or others wrong; those of either change, by 0 none.
            sums: `(s, C)` by which sums are beyond a limit, or wrong at it.
            then: `(s, C)` the limits that these would be at next.
        """
        changes = int(np.count_nonzero(persons)) + int(np.count_nonzero(sums))
        fewer = changes < self.fewest
        if fewer:
            self.fewest, self.patience = changes, PATIENCE
        elif not self.patience:
            self.share, self.patience = self.share / 2.0, PATIENCE
        elif self.left <= LEAST_LEFT:
            self.patience -= 1
        least = 0.0
        if changes and self.share < 1.0:
            ordered = np.sort(np.concatenate([persons[persons > 0], sums[sums > 0]]))
            least = ordered[-max(1, int(self.share * changes))]
        if not changes:
            self.left = 0.0
        elif changes <= FEW_CHANGES * self.free.size or self.left <= LEAST_LEFT:
            self.left = LEAST_LEFT
        elif not fewer:
            self.left *= LEFT
        self.number, self.free = self.number + 1, self.free ^ ((persons > 0) & (persons >= least))
        self.state = np.where((sums > 0) & (sums >= least), then, self.state)
        self.x = np.where(self.free, np.maximum(x, 0.0), 0.0)


def round_of(number: int, changes: int) -> str:
    """Where a search for the cells that are 0 is."""
    return f"round {number:,}, {changes:,} cells change"


def solve_by_projection(family: Family) -> ExactSolution | None:
    """The solution of a family; None where it is not found to `ALLOWED`."""
    quadratic, least, limits = family.precision, family.precision.least(), Limits.of(family)
    linear, possible = np.ascontiguousarray(family.linear.T), limits.possible(family)
    aim = max(AIM * least, LAST_BITS * float(np.linalg.norm(linear)))
    search, watch = (
        _Search(in_proportion(family, possible), possible, -limits.fixed.astype(np.int64)),
        Watch(family.name),
    )
    standing = Standing("projected", lambda: family.arrays)
    if (kept := standing.found()) is not None:
        search = _Search.of(kept)
    while search.number <= MOST_ROUNDS:
        standing.at(search.arrays)
        search.free = _with_enough(limits, possible, search.free, search.state)
        directions: _Alone | _Children
        if family.parent is None and not family.ranges and isinstance(quadratic, SumWeights) and quadratic.wide:
            directions = _Alone(family, quadratic, search.free)
        else:
            directions = _Children(family, limits, search.free, search.state)
        if not directions.can_be_met:
            return None
        x = _stationary(directions, linear, search.x, aim, search.left)
        if x is None:
            return None
        gradient, mu = directions.lagrangian(family.times_columns(x) - linear)
        if (links := directions.links(gradient)).any():
            search.link(x, links)
            continue
        below, wrong = search.free & (x < -NONE), possible & ~search.free & (gradient < -NONE * least)
        persons = np.where(below, -x, np.where(wrong, -gradient / least, 0.0))
        beyond, then = _sums_that_change(limits, limits.sums.of(x), mu / least, search.state)
        changes = int(np.count_nonzero(persons)) + int(np.count_nonzero(beyond))
        watch.at(partial(round_of, search.number, changes))
        if not search.left and not changes:
            return _accepted(family, x, gradient, search)
        search.go_on(x, persons, beyond, then)
    return None


def _with_enough(limits: Limits, possible: BoolArray, free: BoolArray, state: IntArray) -> BoolArray:
    """The free cells `(k, C)`, and all possible ones of a sum with persons that has none."""
    lacking = (limits.values(state) > 0) & (limits.sums.of(free.astype(np.float64)) == 0)
    return free | (possible & (limits.spread @ lacking.astype(np.float64) > 0)) if lacking.any() else free


def _sums_that_change(
    limits: Limits, sums: FloatArray, multipliers: FloatArray, state: IntArray
) -> tuple[FloatArray, IntArray]:
    """By how many persons sums `(s, C)` are beyond a limit, or have a multiplier of the wrong sign; and what they do.

    `state` is which limits they are taken to be at; what is returned is which they are at next where they change.
    """
    wrong = np.abs(limits.of_wrong_sign(multipliers, state))
    outside = np.maximum(limits.lower - sums, sums - limits.upper)
    change = np.where(state == 0, outside, wrong)
    return np.where(change > NONE, change, 0.0), np.where(state == 0, limits.at(sums, -NONE), 0)


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
    if primal > MET or distance(family, inside, search.state) > ALLOWED:
        return None
    scale = max(1.0, largest_of(family.linear))
    dual = largest_of(gradient[search.free]) / scale
    return ExactSolution(inside, search.number, primal, dual)
