"""The solution of families: many at once by the batched solver, each exactly or not at all; the others by cvxpy.

The active set method (`active_set`) works on families of one shape together; for a family in which it gets stuck, the
alternating direction method of multipliers (ADMM) determines which inequalities are active, or the active set method
goes on one inequality at a time. The shape depends on the family alone, and the solution is exact, so the result for a
family does not depend on which others are in its batch.

In ADMM the quadratic with its equalities is solved in closed form, and the inequalities are a clip (Boyd et al. 2011,
section 5.2, with over-relaxation 3.4.3):

    x_c = Q_c (linear_c + s (y_c - u_c) + s G (w_c - v_c) + nu) + q_c       nu makes the children sum to the parent
    y = clip(1.7 x - 0.7 y + u, 0, upper),   u += 1.7 x - 0.7 y_old - y,    and w, v alike for sums over groups G

with K_c = (precision_c + s (I + GG'))^-1 and Q_c, q_c its projection on the held sums; s is at first the median of the
precision's diagonal, then balanced so that both residuals fall together (3.4.1). Its part is to find out which
inequalities are active: `active_set` finishes with the exact solution.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from postprocess.arrays import FloatArray
from postprocess.errors import SolverError
from postprocess.families.active_set import MANY, ExactSolution, Guess, solve_exactly
from postprocess.families.family import Family, GroupRange, Solution, is_large
from postprocess.families.few_sums import FewSums, may_be_projected, solve_by_projection
from postprocess.families.large import balance
from postprocess.families.large import guesses as guesses_of
from postprocess.families.reference_solvers import solve_with_cvxpy

RELAXATION = 1.7
#: Iterations after which the exact solution is tried; after the last one the family is given up.
TRY_AT = (20, 40, 80, 160, 320, 640, 1280, 2560)
#: Iterations at which the penalty s may be changed, by powers of two up to this one.
ADAPT_AT = (30, 90, 270, 810)
LARGEST_CHANGE = 5


def solve_by_admm(family: Family, begin: Guess) -> tuple[ExactSolution, int] | None:
    """The exact solution and the iterations it took to find its active inequalities; None if they were not found.

    Args:
        family: to be solved.
        begin: the state that another method reached.
    """
    groups, lower, upper = family.side_by_side()
    scale = family.scale
    quadratic = _Quadratic(family, groups, scale)
    y, u = begin.x, begin.pull / scale
    w, v = begin.range_sums, begin.range_pull / scale
    for iteration in range(1, TRY_AT[-1] + 1):
        x = quadratic.minimiser(family.linear + scale * (y - u + (w - v) @ groups.T))
        y_old, w_old = y, w
        u = u + RELAXATION * x + (1.0 - RELAXATION) * y
        y = np.clip(u, 0.0, family.upper)
        u = u - y
        v = v + RELAXATION * (x @ groups) + (1.0 - RELAXATION) * w
        w = np.clip(v, lower, upper)
        v = v - w
        if iteration in TRY_AT:
            (result,) = solve_exactly([family], [Guess(y, scale * u, w, scale * v)])
            if isinstance(result, ExactSolution):
                return result, iteration
        if iteration in ADAPT_AT:
            primal = max(np.abs(x - y).max(), np.abs(x @ groups - w).max(initial=0.0))
            dual = max(np.abs(y - y_old).max(), np.abs(w - w_old).max(initial=0.0))
            change = balance(float(primal), float(dual), LARGEST_CHANGE)
            if change != 1.0:
                scale, u, v = scale * change, u / change, v / change
                quadratic = _Quadratic(family, groups, scale)
    return None


class _Quadratic:
    """The quadratic with its equalities: Q_c and q_c of every child, and the map from what is missing to nu."""

    def __init__(self, family: Family, groups: FloatArray, scale: float) -> None:
        k = family.n_cells
        inverse = np.linalg.inv(family.matrices + scale * (np.eye(k) + groups @ groups.T))[family.kinds]
        self.offset = np.zeros_like(family.linear)
        if family.held is not None:
            held = family.held.matrix
            by_group = inverse @ held
            middle = held.T @ by_group
            # A held group without cells (impossible ones only) has an empty row: any pivot will do.
            middle += np.eye(held.shape[1]) * (held.sum(axis=0) == 0)
            scaled = np.swapaxes(np.linalg.solve(middle, np.swapaxes(by_group, 1, 2)), 1, 2)
            inverse = inverse - scaled @ np.swapaxes(by_group, 1, 2)
            self.offset = np.matmul(scaled, family.held.lower[:, :, None])[:, :, 0]
        self.projected = inverse
        self.missing = None
        if family.parent is not None:
            self.missing = family.parent - self.offset.sum(axis=0)
            self.total_inverse = np.linalg.pinv(inverse.sum(axis=0), rcond=1e-12, hermitian=True)

    def minimiser(self, right: FloatArray) -> FloatArray:
        """The minimiser for right-hand sides `(C, k)`."""
        x = np.matmul(self.projected, right[:, :, None])[:, :, 0]
        if self.missing is not None:
            nu = self.total_inverse @ (self.missing - x.sum(axis=0))
            x += self.projected @ nu
        return x + self.offset


#: Persons: another solver's distance from zero in a cell that is zero, or from a limit that is reached.
NEAR = 1e-5
#: Persons: a solution further than this from the other solver's is not the same.
SAME = 1e-3


def solve_families(families: Sequence[Family], solver: str, near: Sequence[Solution] | None = None) -> list[Solution]:
    """Solutions of the families, in order.

    Args:
        families: to be solved.
        solver: "auto", "batched" or "cvxpy".
        near: solutions of families that differ little from these, from which the batched solver begins.

    Raises:
        SolverError: a family was not solved to its tolerance; the message names it.
    """
    if solver == "cvxpy":
        return [solve_with_cvxpy(family.with_matrices()) for family in families]
    guesses = None if near is None else [_reached(*pair) for pair in zip(families, near, strict=True)]
    solutions = solve_batched(families, guesses)
    if solver == "batched":
        for family, solution in zip(families, solutions, strict=True):
            if solution is None:
                raise SolverError(
                    f'{family.name}: the batched solver did not converge; solver = "auto" would have asked cvxpy'
                )
    return [
        finished(own := family.with_matrices(), solve_with_cvxpy(own)) if solution is None else solution
        for family, solution in zip(families, solutions, strict=True)
    ]


def solve_batched(families: Sequence[Family], guesses: Sequence[Guess] | None = None) -> list[Solution | None]:
    """Solutions of all families in their order; None for one that was not found."""
    if guesses is None and any(map(_is_large, families)):
        return [_solved_large(each) if _is_large(each) else solve_batched([each])[0] for each in families]
    solutions: list[Solution | None] = []
    for family, result in zip(families, solve_exactly(families, guesses), strict=True):
        if isinstance(result, ExactSolution):
            solutions.append(_solution(result, "batched", result.rounds))
        elif (by_admm := solve_by_admm(family, result)) is not None:
            solutions.append(_solution(by_admm[0], "batched", by_admm[1]))
        else:
            (result,) = solve_exactly([family], few=MANY)
            solutions.append(_solution(result, "batched", result.rounds) if isinstance(result, ExactSolution) else None)
    return solutions


def _is_large(family: Family) -> bool:
    return isinstance(family.precision, FewSums) or is_large(
        family.n_children, family.n_cells, has_parent=family.parent is not None
    )


def _solved_large(family: Family) -> Solution | None:
    """The solution of a large family from the first guess that leads to it, else as that of a small one."""
    if isinstance(family.precision, FewSums):
        if (exact := solve_by_projection(family)) is not None:
            return _solution(exact, "batched", exact.rounds)
        if may_be_projected(family) and family.parent is not None:
            for guess in guesses_of(family):
                if (exact := solve_by_projection(family, guess.x)) is not None:
                    return _solution(exact, "batched", exact.rounds)
        return solve_batched([family.with_matrices()])[0]
    for guess in guesses_of(family):
        (result,) = solve_exactly([family], [guess])
        if isinstance(result, ExactSolution):
            return _solution(result, "batched", result.rounds)
    return solve_batched([family], [Guess.at_first(family)])[0]


def finished(family: Family, solution: Solution) -> Solution:
    """Another solver's solution made exact where it shows which inequalities are active, else as it is."""
    (exact,) = solve_exactly([family], [_reached(family, solution)])
    if isinstance(exact, Guess) or np.abs(exact.x - solution.x).max(initial=0.0) > SAME:
        return solution
    return _solution(exact, solution.solver, solution.iterations)


def _reached(family: Family, solution: Solution) -> Guess:
    """The guess that those inequalities are active whose limits a solution reaches."""
    x = np.where(solution.x < NEAR, 0.0, np.where(solution.x > family.upper - NEAR, family.upper, solution.x))
    sums = [_at_limits(limits, solution.x) for limits in family.ranges]
    range_sums = np.hstack(sums) if sums else np.zeros((family.n_children, 0))
    return Guess(x, np.zeros_like(x), range_sums, np.zeros_like(range_sums))


def _solution(exact: ExactSolution, solver: str, iterations: int) -> Solution:
    return Solution(exact.x, solver, iterations, exact.primal, exact.dual)


def _at_limits(limits: GroupRange, x: FloatArray) -> FloatArray:
    """Sums over groups of cells, those near a limit at it."""
    sums = x @ limits.matrix
    return np.where(sums < limits.lower + NEAR, limits.lower, np.where(sums > limits.upper - NEAR, limits.upper, sums))
