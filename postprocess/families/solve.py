"""The solution of families: many at once by the batched solver, and by another one where that gets stuck.

The active set method (`active_set`) works on families of one shape together. Where it gets stuck in one, the second
solver (`reference_solvers`) shows which inequalities are active, and the active set method finishes from there. The
shape depends on the family alone, and the solution is exact, so the result for a family does not depend on which others
are in its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from postprocess.arrays import FloatArray, largest_of
from postprocess.errors import SolverError
from postprocess.families.active_set import SIGN, ExactSolution, Guess, solve_exactly
from postprocess.families.family import Family, GroupRange, Solution, is_large
from postprocess.families.precisions import Dense
from postprocess.families.projected import solve_by_projection
from postprocess.families.reference_solvers import solve_again, solve_with_cvxpy

#: Persons: another solver's distance from zero in a cell that is zero, or from a limit that is reached.
NEAR = 1e-5
#: Persons: a solution further than this from the other solver's is not the same.
SAME = 1e-3
#: Numbers in matrices over a family's cells up to which another solver is asked.
MOST_NUMBERS = 100_000_000
#: Rounds in which cells are added to the problem of an area, and those in which empty ones are taken out again; later
#: ones only add, so that there is an end.
MOST_TURNS, LEAVING = 50, 4


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
    large = [guesses is None and _is_large(family) for family in families]
    small = iter(solve_exactly([family for family, alone in zip(families, large, strict=True) if not alone], guesses))
    found = [_solved_large(family) if alone else next(small) for family, alone in zip(families, large, strict=True)]
    return [
        _otherwise(family) if exact is None else _solution(exact) for family, exact in zip(families, found, strict=True)
    ]


def _is_large(family: Family) -> bool:
    has_parent = family.parent is not None
    return not isinstance(family.precision, Dense) or is_large(family.n_children, family.n_cells, has_parent=has_parent)


def _solved_large(family: Family) -> ExactSolution | None:
    """The solution of a large family: without its ranges by projection, and with them from there."""
    exact = solve_by_projection(replace(family, ranges=()))
    if exact is None or not family.ranges:
        return exact
    if family.parent is None:
        return _within_ranges(family, exact.x)
    (exact,) = solve_exactly([family], [replace(Guess.none_active(family), x=np.minimum(exact.x, family.upper))])
    return exact


def _within_ranges(family: Family, x: FloatArray) -> ExactSolution | None:
    """The solution of one area without a parent, from one `(1, k)` that need not be within the ranges.

    The exact method solves the problem on the positive cells alone; the gradient of the Lagrangian in all cells says
    which others would have to be positive. These are added until there are none, so that where it began does not
    matter.
    """
    tolerance = SIGN * max(1.0, largest_of(family.linear))
    inside, possible = x[0] > 0, family.upper[0] > 0
    for limits in family.sums:
        lacking = (limits.lower[0] > 0) & (np.bincount(limits.group, inside, limits.size) == 0)
        inside |= possible & lacking[limits.group]
    for turn in range(MOST_TURNS):
        cells = np.flatnonzero(inside)
        part = family.on(cells)
        (exact,) = solve_exactly([part], [Guess.none_active(part)])
        if exact is None:
            return None
        x = np.zeros_like(x)
        x[:, cells] = exact.x
        gradient, first = family.times(x)[0] - family.linear[0], 0
        for limits in family.sums:
            gradient -= exact.multipliers[0, first : first + limits.size][limits.group]
            first += limits.size
        missing = ~inside & possible & (gradient < -tolerance)
        if not missing.any():
            return replace(exact, x=x)
        inside = missing | (x[0] > 0 if turn < LEAVING else inside)
    return None


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
