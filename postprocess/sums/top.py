"""The area at the top of a wide schema: the active set method with a direct solver for weights on nested sums.

With F the cells that are not fixed at 0, the stationary point of the objective with held sums needs the inverse of

    H = c I + sum_q w_q A_q'A_q + A'N A    on F.

Where the queries q are nested, each adds to the inverse B of those before, finest first, a number for each group: with
b = B 1 and d = A_q b, of a group the sum,

    (B^-1 + w A_q'A_q)^-1 = B - diag(b) A_q' diag(w / (1 + w d)) A_q diag(b),   b -> b / (1 + w d),

and A'N A, of few sums, is added by Woodbury's identity. So a solution takes a few products with sparse matrices.
 A query that does not nest with the others is left to conjugate gradients, with this inverse as
their preconditioner; where all nest, these correct rounding and end after a step or two.

Which cells are fixed follows as in `postprocess.families.projected`: negative ones are, and those are released whose
multiplier has the wrong sign, until nothing changes. The conditions of optimality then hold in all cells.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.sparse as sp

from postprocess.arrays import BoolArray, FloatArray
from postprocess.families.active_set import FEASIBLE, SIGN, Exact
from postprocess.families.equalities import GRADIENT
from postprocess.families.family import Family, violation
from postprocess.families.watching import Watch
from postprocess.marginal import each_in_one
from postprocess.sums.weights import SumWeights, Weighted

#: Rounds of the active set, and steps of conjugate gradients in one.
MOST_ROUNDS, MOST_STEPS = 100, 200
#: Restarts of the gradients, and the share of the squared error that is left before each.
RESTARTS, ENOUGH, TINY = 12, 1e-16, 1e-300
#: Rounds after which a cell is released or fixed only where it is among the worst half, so that nothing goes round.
ALL_AT_ONCE = 30


def nested(wide: tuple[Weighted, ...]) -> list[Weighted]:
    """The queries of a chain, the finest first, each of whose groups are in one group of the next."""
    chain: list[Weighted] = []
    for one in sorted(wide, key=lambda each: -each.size):
        if not chain or each_in_one(chain[-1].group, one.group):
            chain.append(one)
    return chain


class _Inverse:
    """The inverse of a precision on the free cells, of its nested queries and few sums; with the held sums as they are.

    Args:
        quadratic: of one precision.
        free: `(k,)`.
        held: the held sums `(m, k)`; None where none are.
    """

    def __init__(
        self, quadratic: SumWeights, chain: list[Weighted], free: BoolArray, held: sp.csr_array | None
    ) -> None:
        self.scale, self.joint = float(quadratic.scale[0]), quadratic.joint[0]
        self.few = quadratic.few[:, free]
        self.spread = sp.csr_array(self.few.T)
        b: FloatArray = np.full(int(free.sum()), 1.0 / self.scale)
        self.parts: list[tuple[np.ndarray, int, FloatArray, FloatArray]] = []
        covariance = (self.few @ self.spread).toarray() / self.scale
        for one in chain:
            group = one.group[free]
            sums = np.bincount(group, b, one.size)
            share = np.asarray(one.weight / (1.0 + one.weight * sums), dtype=np.float64)
            self.parts.append((group, one.size, b, share))
            on_sums = sp.csr_array((b, (group, np.arange(len(group)))), shape=(one.size, len(group))) @ self.spread
            covariance -= (on_sums.T @ (sp.diags_array(share) @ on_sums)).toarray()
            b = np.asarray(b / (1.0 + one.weight * sums)[group], dtype=np.float64)
        self.inner = self.joint @ np.linalg.inv(np.eye(len(covariance)) + covariance @ self.joint)
        self.held = None if held is None else sp.csr_array(held[:, free])
        if self.held is not None:
            used = np.diff(self.held.indptr) > 0
            self.held = self.held[np.flatnonzero(used)]
            self.on_held = np.column_stack([self._without_held(row) for row in self.held.toarray()])
            self.of_held = np.linalg.inv(self.held @ self.on_held)

    def _without_held(self, vector: FloatArray) -> FloatArray:
        out = vector / self.scale
        before = out
        for group, size, b, share in self.parts:
            before = out
            out = before - b * (share * np.bincount(group, before, size))[group]
        few = self.inner @ (self.few @ out)
        back = self.spread @ few
        taken = back / self.scale
        for group, size, b, share in self.parts:
            taken = taken - b * (share * np.bincount(group, taken, size))[group]
        return np.asarray(out - taken)

    def times(self, vector: FloatArray) -> FloatArray:
        """The direction of `vector` that changes no held sum."""
        out = self._without_held(vector)
        if self.held is not None:
            out = out - self.on_held @ (self.of_held @ (self.held @ out))
        return out

    def multipliers(self, gradient: FloatArray) -> FloatArray:
        """Of the held sums: what their gradients take of a gradient, by the metric of the inverse."""
        if self.held is None:
            return np.zeros(0)
        return np.asarray(self.of_held @ (self.on_held.T @ gradient))

    def projected(self, gradient: FloatArray) -> FloatArray:
        """What the held sums leave of a gradient."""
        if self.held is None:
            return gradient
        return np.asarray(gradient - self.held.T @ self.multipliers(gradient))

    def with_held(self, x: FloatArray, values: FloatArray | None) -> FloatArray:
        """The nearest cells, in the metric of the precision, with the held sums."""
        if self.held is None or values is None:
            return x
        return np.asarray(x + self.on_held @ (self.of_held @ (values - self.held @ x)))


def solve_alone(family: Family) -> Exact | None:
    """The solution of an area without a parent and without ranges; None where it is not found in this way."""
    quadratic = family.precision
    if not isinstance(quadratic, SumWeights) or family.parent is not None or family.ranges:
        return None
    linear, possible = family.linear[0], family.upper[0] > 0
    scale = max(1.0, float(np.abs(linear).max(initial=0.0)))
    chain = nested(quadratic.wide)
    held = values = None
    if family.held_group is not None and family.held is not None:
        size = family.held.shape[1]
        held = sp.csr_array(
            (np.ones(len(linear)), (family.held_group, np.arange(len(linear)))), shape=(size, len(linear))
        )
        values = family.held[0]
    kinds = np.zeros(1, dtype=np.int64)

    def gradient_at(x: FloatArray) -> FloatArray:
        return np.asarray(quadratic.times(x[:, None], kinds)[:, 0] - linear)

    free, x, watch = possible.copy(), np.zeros(len(linear)), Watch(family.name)
    for number in range(1, MOST_ROUNDS + 1):
        inverse = _Inverse(quadratic, chain, free, held)
        met = None if held is None or values is None else values[np.diff(sp.csr_array(held[:, free]).indptr) > 0]
        found = _stationary(inverse, quadratic, linear, free, x, met, scale)
        if found is None:
            return None
        x = found
        gradient = gradient_at(x)
        if inverse.held is not None and held is not None:
            used = np.flatnonzero(np.diff(sp.csr_array(held[:, free]).indptr) > 0)
            gradient = gradient - held[used].T @ inverse.multipliers(gradient[free])
        below = free & (x < -FEASIBLE)
        release = possible & ~free & (gradient < -SIGN * scale)
        changes = int(np.count_nonzero(below)) + int(np.count_nonzero(release))
        watch.at(partial(_where, number, changes))
        if not changes:
            return _exact(family, x, gradient, free, number, scale)
        if number > ALL_AT_ONCE:
            below, release = _worst(below, -x), _worst(release, -gradient)
        free = (free & ~below) | release
        x = np.where(free, np.maximum(x, 0.0), 0.0)
    return None


def _where(number: int, changes: int) -> str:
    return f"round {number}, {changes:,} cells change"


def _worst(which: BoolArray, by: FloatArray) -> BoolArray:
    """The worse half of some cells."""
    if not which.any():
        return which
    return which & (by >= np.median(by[which]))


def _stationary(
    inverse: _Inverse,
    quadratic: SumWeights,
    linear: FloatArray,
    free: BoolArray,
    x: FloatArray,
    values: FloatArray | None,
    scale: float,
) -> FloatArray | None:
    """The least of the objective among free cells with the held sums: preconditioned conjugate gradients."""
    own = quadratic if free.all() else _on(quadratic, free)
    kinds = np.zeros(1, dtype=np.int64)

    def times(vector: FloatArray) -> FloatArray:
        return own.times(vector[:, None], kinds)[:, 0]

    at = inverse.with_held(x[free], values)
    for _ in range(RESTARTS):
        residual = inverse.projected(linear[free] - times(at))
        if float(np.abs(residual).max(initial=0.0)) <= GRADIENT * quadratic.coarser * scale:
            out = np.zeros_like(x)
            out[free] = at
            return out
        direction = step = inverse.times(residual)
        square = float(residual @ step)
        first = square
        for _ in range(MOST_STEPS):
            along = times(direction)
            length = square / max(float(direction @ along), TINY)
            at = at + length * direction
            residual = inverse.projected(residual - length * along)
            step = inverse.times(residual)
            before, square = square, float(residual @ step)
            if square <= ENOUGH * first or square > before:
                break
            direction = step + (square / before) * direction
        at = inverse.with_held(at, values)
    return None


def _on(quadratic: SumWeights, free: BoolArray) -> SumWeights:
    """The precision on some cells."""
    wide = tuple(Weighted(one.group[free], one.size, one.weight) for one in quadratic.wide)
    return SumWeights(quadratic.scale, (), wide, quadratic.few[:, free], quadratic.joint)


def _exact(family: Family, x: FloatArray, gradient: FloatArray, free: BoolArray, rounds: int, scale: float) -> Exact:
    """The solution with the residuals of its optimality conditions."""
    clipped = np.clip(x[None, :], 0.0, family.upper)
    primal = max(float(np.abs(clipped - x).max(initial=0.0)), violation(family, clipped))
    dual = float(np.abs(gradient[free]).max(initial=0.0)) / scale
    return Exact(clipped, rounds, primal, dual, np.zeros((1, 0)))
