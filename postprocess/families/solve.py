"""The solution of families: small ones many at once, others by projection, and by another solver where these get stuck.

The active set method (`active_set`) works on families of one shape together. Its operations grow with the third power
of the cells, those of projection (`projected`) with little more than their number; on real families they cross at about
a hundred cells. Where one of them gets stuck, another solver (`reference_solvers`) shows which inequalities are active,
and the active set method finishes from there. The shape depends on the family alone, and the solution is exact, so the
result for a family does not depend on which others are in its batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from postprocess.arrays import FloatArray
from postprocess.errors import SolverError
from postprocess.families.active_set import ExactSolution, Guess, solve_exactly
from postprocess.families.family import MOST_TOGETHER, Family, GroupRange, Solution
from postprocess.families.projected import solve_by_projection
from postprocess.families.reference_solvers import solve_again, solve_with_cvxpy

#: Persons: another solver's distance from zero in a cell that is zero, or from a limit that is reached.
NEAR = 1e-5
#: Persons: a solution further than this from the other solver's is not the same.
SAME = 1e-3
#: Numbers in matrices over a family's cells up to which another solver is asked.
MOST_NUMBERS = 100_000_000


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
    """Solutions of all families in their order; another solver's where these two have none.

    Raises:
        SolverError: no solver found one; the message names the family.
    """
    small = [i for i, family in enumerate(families) if family.n_cells <= MOST_TOGETHER]
    begun = None if guesses is None else [guesses[i] for i in small]
    found = dict(zip(small, solve_exactly([families[i].with_matrices() for i in small], begun), strict=True))
    exact = (found[i] if i in found else solve_by_projection(family) for i, family in enumerate(families))
    return [_otherwise(family) if one is None else _solution(one) for family, one in zip(families, exact, strict=True)]


def _otherwise(family: Family) -> Solution:
    """The solution by the second solver, finished.

    Raises:
        SolverError: the family is too large for it, or it finds no solution.
    """
    if (numbers := family.linear.size * family.n_cells) > MOST_NUMBERS:
        raise SolverError(
            f"{family.name}: {numbers:,} numbers in matrices are too many for another solver, and the batched solver "
            "did not converge"
        )
    dense = family.with_matrices()
    return finished(dense, solve_again(dense))


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
    return Guess(x, range_sums)


def _solution(exact: ExactSolution) -> Solution:
    return Solution(exact.x, "batched", exact.rounds, exact.primal, exact.dual)


def _at_limits(limits: GroupRange, x: FloatArray) -> FloatArray:
    """Sums over groups of cells, those near a limit at it."""
    sums = x @ limits.matrix
    return np.where(sums < limits.lower + NEAR, limits.lower, np.where(sums > limits.upper - NEAR, limits.upper, sums))
