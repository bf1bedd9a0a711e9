"""Many small constrained least-squares problems at once, by the alternating direction method of multipliers (ADMM).

Each family (a parent's problem) is split into the quadratic with its equalities, solved in closed form, and the
inequalities, which are a clip (Boyd et al. 2011, section 5.2, with over-relaxation 3.4.3):

    x = Q_c (linear_c + s (y - u) + s G (w - v) + nu) + q_c       closed form; nu makes the children sum to the parent
    y = clip(1.7 x - 0.7 y + u, 0, upper),   u += 1.7 x - 0.7 y_old - y,   and w, v alike for sums over groups G

with K_c = (precision_c + s (I + GG'))^-1 and Q_c, q_c its projection on the held sums; s is at first the median of the
precision's diagonal, then balanced so that both residuals fall together (3.4.1). Its part is to find out which
inequalities are active: as soon as it is near, `active_set` finishes with the exact solution, or it goes on.

Families of one padded shape are worked through together; the shape depends on the family alone, so that the result of
a family does not depend on which others are in its batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from postprocess.active_set import Exact, Guess, solve_exactly
from postprocess.family import Family, GroupRange, Solution, one_hot
from postprocess.problem import BoolArray, FloatArray
from postprocess.stack import padded

RELAXATION = 1.7
#: Persons: the step, and the distance between the two copies of the unknowns, at which the exact solution is tried
#: first, and the factor by which it falls after a failure.
FIRST_TOLERANCE, TIGHTER = 1e-2, 1e-1
#: Persons: what another solver leaves of a cell that is zero, or of the way to a limit.
NEAR = 1e-5
MOST_ITERATIONS = 3000
CHECK_EVERY = 10
#: Iterations at which the penalty s may be changed, by powers of two up to this one.
ADAPT_AT = frozenset({30, 90, 270, 810, 2430})
LARGEST_CHANGE = 5
#: Numbers in a family's matrices above which the exact solution is tried at once, and s is changed twice at most.
LARGE, ADAPT_LARGE_AT = 300_000, frozenset({40, 160})
#: Iterations after which the exact solution of a large family is tried whatever the residuals, and its rounds.
TRY_LARGE_EVERY, ROUNDS_LARGE = 20, 60
#: The first s, over the median of the precision's diagonal, where the children share their precision (measured).
SHARED_SCALE = 2.0
#: Numbers held at once in one batch's matrices.
BATCH_NUMBERS = 6_000_000


def _shape(family: Family) -> tuple[int, int, int, int, bool, bool]:
    groups = sum(one.lower.shape[1] for one in family.ranges)
    held = 0 if family.held is None else family.held.shape[1]
    return (
        padded(family.n_children),
        padded(family.n_cells),
        held if held <= 1 else padded(held),
        padded(groups),
        family.shared,
        family.parent is not None,
    )


def solve_batched(families: Sequence[Family]) -> list[Solution | None]:
    """Solutions of all families in their order; None for one that did not converge."""
    by_shape: dict[tuple[int, int, int, int, bool, bool], list[int]] = defaultdict(list)
    solutions: list[Solution | None] = [None] * len(families)
    begin: dict[int, Guess] = {}
    for i, found in enumerate(solve_exactly(families)):
        if isinstance(found, Exact):
            solutions[i] = Solution(found.x, "batched", found.rounds, found.primal, found.dual)
        else:
            begin[i] = found
            by_shape[_shape(families[i])].append(i)
    for shape, members in by_shape.items():
        c, k, _, _, shared, _ = shape
        per_family = k * k * (2 if shared else 2 * c) + 8 * c * k
        step = max(1, BATCH_NUMBERS // per_family)
        for first in range(0, len(members), step):
            part = members[first : first + step]
            batch = _Batch([families[i] for i in part], shape)
            for i, solution in zip(part, batch.solve([begin.get(i) for i in part]), strict=True):
                solutions[i] = solution
    return solutions


def finished(family: Family, solution: Solution) -> Solution:
    """Another solver's solution to rounding error where the active inequalities can be told from it, else as it is."""
    x = np.where(solution.x < NEAR, 0.0, np.where(solution.x > family.upper - NEAR, family.upper, solution.x))
    sums = [_at_limits(one, solution.x) for one in family.ranges]
    range_sums = np.hstack(sums) if sums else np.zeros((family.n_children, 0))
    (exact,) = solve_exactly([family], [Guess(x, np.zeros_like(x), range_sums, np.zeros_like(range_sums))])
    if isinstance(exact, Guess) or np.abs(exact.x - solution.x).max() > FIRST_TOLERANCE:
        return solution
    return Solution(exact.x, solution.solver, solution.iterations, exact.primal, exact.dual)


def _at_limits(one: GroupRange, x: FloatArray) -> FloatArray:
    """Sums over groups of cells, those near a limit at it."""
    sums = x @ one_hot(one.group, one.lower.shape[1])
    return np.where(sums < one.lower + NEAR, one.lower, np.where(sums > one.upper - NEAR, one.upper, sums))


class _Batch:
    """Families of one padded shape (C, k), stacked: arrays begin with the axis of families."""

    def __init__(self, families: Sequence[Family], shape: tuple[int, int, int, int, bool, bool]) -> None:
        c, k, m, g, shared, has_parent = shape
        n = len(families)
        self.families = families
        self.has_parent = has_parent
        self.large = (1 if shared else c) * k * k > LARGE
        self.adapt_at = ADAPT_LARGE_AT if self.large else ADAPT_AT
        self.linear = np.zeros((n, c, k))
        self.upper = np.zeros((n, c, k))
        self.children = np.zeros((n, c, 1))
        self.parent = np.zeros((n, 1, k))
        precision = np.zeros((n, 1 if shared else c, k, k))
        precision[:] = np.eye(k)
        held_matrix = np.zeros((n, 1, k, m))
        self.held = np.zeros((n, c, m))
        self.groups = np.zeros((n, k, g))
        self.group_lower = np.zeros((n, c, g))
        self.group_upper = np.zeros((n, c, g))
        scales = np.zeros(n)
        for i, family in enumerate(families):
            nc, nk = family.linear.shape
            self.linear[i, :nc, :nk] = family.linear
            self.upper[i, :nc, :nk] = family.upper
            self.children[i, :nc] = 1.0
            precision[i, : 1 if shared else nc, :nk, :nk] = (
                family.precision if shared else family.precision[family.kinds]
            )
            scales[i] = np.median(np.diagonal(family.precision, axis1=1, axis2=2))
            if shared:
                scales[i] *= SHARED_SCALE
            else:
                precision[i, nc:] *= scales[i]
            if family.parent is not None:
                self.parent[i, 0, :nk] = family.parent
            if family.held is not None and family.held_group is not None:
                held_matrix[i, 0, :nk] = one_hot(family.held_group, m)
                self.held[i, :nc, : family.held.shape[1]] = family.held
            _stack_ranges(family.ranges, self.groups[i, :nk], self.group_lower[i, :nc], self.group_upper[i, :nc])
        self.scale = scales[:, None, None]
        self.shared = shared
        self.precision = precision
        self.held_matrix = held_matrix
        self._factorise()

    def _factorise(self) -> None:
        """Q_c and q_c of every child, and for the parent's sums the map from what is missing to nu."""
        precision, held_matrix, shared = self.precision, self.held_matrix, self.shared
        k, m = held_matrix.shape[2:]
        groups = self.groups @ np.swapaxes(self.groups, 1, 2)
        shifted = precision + (self.scale[:, :, :, None] * (np.eye(k) + groups[:, None]))
        inverse = np.linalg.inv(shifted)
        self.offset = np.zeros_like(self.linear)
        if m:
            by_group = inverse @ held_matrix
            middle = np.swapaxes(held_matrix, 2, 3) @ by_group
            # A held group without cells (padding, or impossible cells only) has an empty row: any pivot will do.
            empty = np.einsum("ncmm->ncm", middle) == 0
            middle[..., np.arange(m), np.arange(m)] += empty
            scaled = np.swapaxes(np.linalg.solve(middle, np.swapaxes(by_group, 2, 3)), 2, 3)
            inverse = inverse - scaled @ np.swapaxes(by_group, 2, 3)
            self.offset = np.matmul(scaled, self.held[..., None])[..., 0] * self.children
        self.projected = inverse[:, 0] if shared else inverse
        if not self.has_parent:
            return
        if shared:
            # nu from the undetermined equations in closed form: K^-1 p - sum of right-hand sides, over C.
            self.target = self.parent @ shifted[:, 0]
            self.count = self.children.sum(axis=1, keepdims=True)
        else:
            total = (inverse * self.children[..., None]).sum(axis=1)
            flat = held_matrix[:, 0]
            weight = np.trace(total, axis1=1, axis2=2)[:, None, None] / k
            self.total_inverse = np.linalg.inv(total + weight * (flat @ np.swapaxes(flat, 1, 2)))
            self.missing = self.parent - self.offset.sum(axis=1, keepdims=True)

    def _quadratic(self, right: FloatArray) -> FloatArray:
        """The equality-constrained minimiser for right-hand sides `(n, C, k)`."""
        if self.shared:
            if self.has_parent:
                right = right + (self.target - right.sum(axis=1, keepdims=True)) / self.count
            return (right @ self.projected) * self.children + self.offset
        x = np.matmul(self.projected, right[..., None])[..., 0] * self.children
        if self.has_parent:
            nu = (self.missing - x.sum(axis=1, keepdims=True)) @ self.total_inverse
            x = x + np.matmul(self.projected, np.broadcast_to(nu, x.shape)[..., None])[..., 0] * self.children
        return x + self.offset

    def solve(self, begin: Sequence[Guess | None]) -> list[Solution | None]:
        """Solutions in the order of the families; None for one that did not converge.

        Args:
            begin: where another method stands, one for each family.
        """
        n = len(self.families)
        found: list[Solution | None] = [None] * n
        alive = np.arange(n)
        y = np.zeros_like(self.linear)
        u = np.zeros_like(y)
        w = np.zeros_like(self.group_lower)
        v = np.zeros_like(w)
        x = self._quadratic(self.linear)
        y = np.clip(x, 0.0, self.upper)
        w = np.clip(y @ self.groups, self.group_lower, self.group_upper)
        for row, start in enumerate(begin):
            if start is not None:
                nc, nk, ng = *start.x.shape, start.range_sums.shape[1]
                y[row, :nc, :nk], u[row, :nc, :nk] = start.x, start.pull / self.scale[row]
                w[row, :nc, :ng], v[row, :nc, :ng] = start.range_sums, start.range_pull / self.scale[row]
        has_groups = self.groups.shape[2] > 0
        tolerance = np.full(n, FIRST_TOLERANCE)
        for iteration in range(1, MOST_ITERATIONS + 1):
            right = y - u
            if has_groups:
                right += (w - v) @ np.swapaxes(self.groups, 1, 2)
            right *= self.scale
            right += self.linear
            right *= self.children
            x = self._quadratic(right)
            relaxed = RELAXATION * x + (1.0 - RELAXATION) * y
            u += relaxed
            y_old = y
            y = np.clip(u, 0.0, self.upper)
            u -= y
            if has_groups:
                w_old = w
                v += RELAXATION * (x @ self.groups) + (1.0 - RELAXATION) * w
                w = np.clip(v, self.group_lower, self.group_upper)
                v -= w
            if iteration % CHECK_EVERY:
                continue
            primal = np.abs(x - y).max(axis=(1, 2))
            dual = np.abs(y - y_old).max(axis=(1, 2))
            if has_groups:
                primal = np.maximum(primal, np.abs(x @ self.groups - w).max(axis=(1, 2)))
                dual = np.maximum(dual, np.abs(w - w_old).max(axis=(1, 2)))
            done = np.maximum(primal, dual) < tolerance
            if self.large and iteration % TRY_LARGE_EVERY == 0:
                done[:] = True
            if iteration in self.adapt_at and not done.all():
                change = np.where(done, 1.0, _balance(primal, dual))
                if (change != 1.0).any():
                    self.scale = self.scale * change[:, None, None]
                    u /= change[:, None, None]
                    v /= change[:, None, None]
                    self._factorise()
            if not done.any():
                continue
            tried = done.copy()
            for i in np.flatnonzero(done):
                family = self.families[alive[i]]
                nc, nk = family.linear.shape
                groups = sum(one.lower.shape[1] for one in family.ranges)
                guess = Guess(
                    x=y[i, :nc, :nk],
                    pull=self.scale[i] * u[i, :nc, :nk],
                    range_sums=w[i, :nc, :groups],
                    range_pull=self.scale[i] * v[i, :nc, :groups],
                )
                (exact,) = solve_exactly([family], [guess])
                if isinstance(exact, Guess):
                    done[i] = False
                    continue
                found[alive[i]] = Solution(exact.x, "batched", iteration, exact.primal, exact.dual)
            if done.all():
                break
            tolerance = tolerance[~done] * np.where(tried[~done], TIGHTER, 1.0)
            alive = alive[~done]
            y, u, w, v = y[~done], u[~done], w[~done], v[~done]
            self._keep(~done)
        return found

    def _keep(self, rows: BoolArray) -> None:
        """Drop the families that are done."""
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(self, name, value[rows])


def _balance(primal: FloatArray, dual: FloatArray) -> FloatArray:
    """Powers of two by which the penalties are changed so that the residuals fall together."""
    ratio = np.log2(np.maximum(primal, 1e-12) / np.maximum(dual, 1e-12)) / 2.0
    change: FloatArray = np.exp2(np.clip(np.rint(ratio), -LARGEST_CHANGE, LARGEST_CHANGE))
    return change


def _stack_ranges(ranges: Sequence[GroupRange], groups: FloatArray, lower: FloatArray, upper: FloatArray) -> None:
    """Write all ranges of a family side by side into `(k, g)`, `(C, g)`, `(C, g)`."""
    first = 0
    for one in ranges:
        last = first + one.lower.shape[1]
        groups[:, first:last] = one_hot(one.group, one.lower.shape[1])
        lower[:, first:last] = one.lower
        upper[:, first:last] = one.upper
        first = last
