"""Large families whose precisions are weights on few sums of cells: projected conjugate gradients, and an active set.

The eigenvalues of such precisions (`few_sums`) lie close together: c is the least and belongs to most of them. So with
some cells fixed at 0 the stationary point of a family is found by conjugate gradients among the directions that change
none of the parent's sums and no held one (Gould, Hribar and Nocedal 2001); no matrix of cells is needed. Which cells
are 0 is found as in `active_set`, by the primal-dual active set method, from all cells free: negative ones are fixed,
and those released whose multiplier has the wrong sign. While many change a round is solved to a tenth only; the last
ones are to rounding error, so that the result satisfies the optimality conditions in all cells: it is the same solution
as by matrices. Families with ranges, with an upper limit that is reached, or whose rounds do not end are left to these.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from postprocess.arrays import Arrays, BoolArray, FloatArray, IntArray, largest_of
from postprocess.families.active_set import FEASIBLE, MET, SIGN, ExactSolution
from postprocess.families.equalities import GRADIENT
from postprocess.families.family import Family, clipped
from postprocess.families.few_sums import FewSums, InPieces, sums_over
from postprocess.families.progress import Standing, Watch
from postprocess.families.stack import is_large

#: Sums for each cell of a family up to which it is solved in this way; cells from which on an area without a parent is.
MOST_SUMS, LARGE_ALONE = 0.5, 1000
#: Rounds of the active set after which it is given up, and steps of conjugate gradients in one.
MOST_ROUNDS, MOST_STEPS = 60, 400
#: Rounds in which no fewer cells change than before, though little is left of the gradient: they go round in a circle.
PATIENCE = 4
#: What is left of the gradient after a round in which many cells change, and less by this where no fewer change than
#: before; below the least of it, and where few cells change (of all), only what rounding leaves.
LEFT, LEAST_LEFT, FEW = 0.1, 1e-4, 0.002
#: Restarts from the gradient itself, which has lost less than the one that is carried on; what is left by one.
RESTARTS, LEFT_BY_RESTART = 6, 1e-8
#: Children above which the matrices of the held sums, one number for each two of them, are not made.
MOST_CHILDREN = 500
#: Relative size of eigenvalues that count as zero.
NONE = 1e-11


def is_projected(n_children: int, n_cells: int, *, has_parent: bool) -> bool:
    """Whether a family is large enough to be solved in this way."""
    return is_large(n_children, n_cells, has_parent=True) if has_parent else n_cells > LARGE_ALONE


def may_be_projected(family: Family) -> bool:
    """Whether the method is for a family with weights on few sums at all."""
    return not family.ranges and family.n_children <= MOST_CHILDREN


def solve_by_projection(family: Family, near: FloatArray | None = None) -> ExactSolution | None:
    """The solution of a family with weights on few sums; None where it is not found in this way.

    Args:
        family: to be solved.
        near: `(C, k)` cells of which about those are positive that are in the solution; by default none is known.
    """
    quadratic = family.precision
    if not isinstance(quadratic, FewSums) or not may_be_projected(family):
        return None
    problem = _Problem(family, quadratic)
    possible = np.ascontiguousarray((family.upper > 0).T)
    if near is None:
        free, x, left = possible, in_proportion(family, possible), LEFT
    else:
        x = np.ascontiguousarray(near.T)
        free, left = possible & (x > 0), 0.0
    fewest, patience, first = free.size, PATIENCE, 1
    standing, watch = Standing("projected", lambda: (*family.arrays, near)), Watch(family.name)
    if (kept := standing.found()) is not None:
        x, free = kept["x"], kept["free"]
        first, fewest, patience = (int(kept[name]) for name in ("number", "fewest", "patience"))
        left = float(kept["left"])

    def arrays(number: int) -> Arrays:
        counts = {"number": number, "fewest": fewest, "patience": patience, "left": left}
        return {"x": x, "free": free, **{name: np.array(count) for name, count in counts.items()}}

    for number in range(first, MOST_ROUNDS + 1):
        standing.at(partial(arrays, number))
        sums = FreeSums(family, free)
        if not sums.can_be_met:
            return None
        x, gradient = problem.stationary(sums, x, left)
        if gradient is None:
            return None
        below = free & (x < -FEASIBLE)
        release = possible & ~free & (gradient < -SIGN * problem.scale)
        changes = int(np.count_nonzero(below)) + int(np.count_nonzero(release))
        watch.at(partial(round_of, number, changes))
        if not changes and not left:
            return problem.exact(x, gradient, free, number)
        patience = patience - 1 if left <= LEAST_LEFT and changes >= fewest else PATIENCE
        if not patience:
            return None
        if changes <= FEW * free.size or left <= LEAST_LEFT:
            left = 0.0
        elif changes >= fewest:
            left *= LEFT
        fewest = min(fewest, changes)
        free = (free & ~below) | release
        x = np.where(free, np.maximum(x, 0.0), 0.0)
    return None


def round_of(number: int, changes: int) -> str:
    """Where a search for the cells that are 0 is."""
    return f"round {number:,}, {changes:,} cells change"


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
        laplacian = np.zeros((size, free.shape[1], free.shape[1]))
        for number in range(size):
            own = self.mask[self.group == number]
            laplacian[number] = np.diag(per_child[number]) - (own * self.share[self.group == number, None]).T @ own
        self.inverse = np.asarray(np.linalg.pinv(laplacian, rcond=NONE, hermitian=True), dtype=np.float64)

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


class _Problem:
    """The objective of a family, in cells `(k, C)`."""

    def __init__(self, family: Family, quadratic: FewSums) -> None:
        self.family, self.quadratic, self.kinds = family, quadratic, family.kinds
        self.linear = np.ascontiguousarray(family.linear.T)
        self.scale = max(1.0, largest_of(family.linear))
        self.held = None if family.held is None else np.ascontiguousarray(family.held.lower.T)

    def gradient(self, x: FloatArray) -> FloatArray:
        """Of the objective."""
        return self.quadratic.times_columns(x, self.kinds) - self.linear

    def stationary(self, sums: FreeSums, x: FloatArray, left: float) -> tuple[FloatArray, FloatArray | None]:
        """The least of the objective among free cells with the right sums, and the gradient of the Lagrangian there.

        `left` is the share of the gradient along these cells that may be left; with 0 it is no more than rounding
        leaves, and None is returned for the gradient where that was not reached.
        """
        gradient = np.zeros_like(x)
        for turn in range(2 if left else RESTARTS):
            x = sums.met(x, self.held)
            gradient = self.gradient(x)
            # Twice, as what rounding leaves once of a large gradient across the sums would be in each step.
            residual = -sums.projected(sums.projected(gradient))
            size = largest_of(residual)
            if size <= GRADIENT * self.scale or (left and turn):
                break
            step = self._descent(
                sums,
                residual,
                max(0.3 * GRADIENT * self.scale, size * (left or LEFT_BY_RESTART)),
            )
            if step is None:
                return x, None
            x = x + step
        else:
            return x, None
        return x, sums.lagrangian(gradient)

    def _descent(self, sums: FreeSums, residual: FloatArray, least: float) -> FloatArray | None:
        """Conjugate gradients from a projected residual until its largest entry is at most `least`."""
        step, direction = np.zeros_like(residual), residual
        square = float(np.vdot(residual, residual))
        for _ in range(MOST_STEPS):
            along = sums.projected(self.quadratic.times_columns(direction, self.kinds))
            length = square / float(np.vdot(direction, along))
            step += length * direction
            residual = residual - length * along
            if largest_of(residual) <= least:
                return step
            before, square = square, float(np.vdot(residual, residual))
            direction = residual + (square / before) * direction
        return None

    def exact(self, x: FloatArray, gradient: FloatArray, free: BoolArray, rounds: int) -> ExactSolution | None:
        """The solution with the residuals of its optimality conditions; None if a limit is missed."""
        family = self.family
        inside, primal = clipped(family, x.T)
        if primal > MET:
            return None
        dual = largest_of(gradient[free]) / self.scale
        return ExactSolution(np.ascontiguousarray(inside), rounds, primal, dual, np.zeros((family.n_children, 0)))
