"""The solution of families: many at once by the batched solver, and by another one where that gets stuck.

The active set method (`active_set`) works on families of one shape together. Where it gets stuck in one, the second
solver (`reference_solvers`) shows which inequalities are active, and the active set method finishes from there. The
shape depends on the family alone, and the solution is exact, so the result for a family does not depend on which others
are in its batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from postprocess.arrays import FloatArray
from postprocess.errors import SolverError
from postprocess.families.active_set import ExactSolution, Guess, solve_exactly
from postprocess.families.family import Family, GroupRange, Solution, is_large
from postprocess.families.few_sums import FewSums
from postprocess.families.projected import solve_by_projection
from postprocess.families.large import guesses as guesses_of
from postprocess.families.reference_solvers import solve_again, solve_with_cvxpy

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
            if solution.solver != "batched":
                raise SolverError(
                    f'{family.name}: the batched solver did not converge; solver = "auto" would have taken the '
                    f"solution of {solution.solver}"
                )
    return solutions


def solve_batched(families: Sequence[Family], guesses: Sequence[Guess] | None = None) -> list[Solution]:
    """Solutions of all families in their order; another solver's where the active set method has none.

    Raises:
        SolverError: no solver found one; the message names the family.
    """
    if guesses is None and any(map(_is_large, families)):
        return [_solved_large(each) if _is_large(each) else solve_batched([each])[0] for each in families]
    return [
        finished(family, solve_again(family)) if result is None else _solution(result)
        for family, result in zip(families, solve_exactly(families, guesses), strict=True)
    ]


def _is_large(family: Family) -> bool:
    return isinstance(family.precision, FewSums) or is_large(
        family.n_children, family.n_cells, has_parent=family.parent is not None
    )


def _solved_large(family: Family) -> Solution:
    """The solution of a large family from the first guess that leads to it, else as that of a small one."""
    if isinstance(family.precision, FewSums):
        if (exact := solve_by_projection(family)) is not None:
            return _solution(exact)
        return solve_batched([family.with_matrices()])[0]
    for guess in guesses_of(family):
        (result,) = solve_exactly([family], [guess])
        if result is not None:
            return _solution(result)
    return solve_batched([family], [Guess.at_first(family)])[0]


def finished(family: Family, solution: Solution) -> Solution:
    """Another solver's solution made exact where it shows which inequalities are active, else as it is."""
    (exact,) = solve_exactly([family], [_reached(family, solution)])
    if exact is None or np.abs(exact.x - solution.x).max(initial=0.0) > SAME:
        return solution
    return _solution(exact)


def _reached(family: Family, solution: Solution) -> Guess:
    """The guess that those inequalities are active whose limits a solution reaches."""
    x = np.where(solution.x < NEAR, 0.0, np.where(solution.x > family.upper - NEAR, family.upper, solution.x))
    sums = [_at_limits(limits, solution.x) for limits in family.ranges]
    range_sums = np.hstack(sums) if sums else np.zeros((family.n_children, 0))
    return Guess(x, np.zeros_like(x), range_sums, np.zeros_like(range_sums))


def _solution(exact: ExactSolution) -> Solution:
    return Solution(exact.x, "batched", exact.rounds, exact.primal, exact.dual)


def _at_limits(limits: GroupRange, x: FloatArray) -> FloatArray:
    """Sums over groups of cells, those near a limit at it."""
    sums = x @ limits.matrix
    return np.where(sums < limits.lower + NEAR, limits.lower, np.where(sums > limits.upper - NEAR, limits.upper, sums))
