"""Families solved: by the batched solver, by cvxpy, or by cvxpy where the batched one did not converge."""

from __future__ import annotations

from collections.abc import Sequence

from postprocess.errors import SolverError
from postprocess.families.batched import finished, solve_batched
from postprocess.families.cvxpy_reference import solve_with_cvxpy
from postprocess.families.family import Family, Solution


def solve_families(families: Sequence[Family], solver: str) -> list[Solution]:
    """Solutions of the families, in order.

    Args:
        solver: "auto", "batched" or "cvxpy".

    Raises:
        SolverError: a family was not solved to its tolerance; names it.
    """
    if solver == "cvxpy":
        return [solve_with_cvxpy(family) for family in families]
    solutions = solve_batched(families)
    if solver == "batched":
        for family, solution in zip(families, solutions, strict=True):
            if solution is None:
                raise SolverError(
                    f'{family.name}: the batched solver did not converge; solver = "auto" would have asked cvxpy'
                )
    return [
        finished(family, solve_with_cvxpy(family)) if solution is None else solution
        for family, solution in zip(families, solutions, strict=True)
    ]
