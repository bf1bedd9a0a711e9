"""The constrained least squares stated in cvxpy: the reference that every faster path must equal.

The problem of one shape is stated and compiled once, with its data as parameters, and solved again with new numbers.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cvxpy as cp
import numpy as np

from postprocess.errors import SolverError
from postprocess.family import Family, Solution, one_hot, violation

#: Persons: a solution that breaks a constraint by more is refused.
FEASIBILITY = 1e-5
#: Solvers in the order they are tried: first-order to 1e-9, then interior point.
SOLVERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("SCS", {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 50_000}),
    ("CLARABEL", {"max_threads": 1, "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}),
    ("SCS", {"eps_abs": 1e-8, "eps_rel": 1e-8, "max_iters": 500_000, "acceleration_lookback": 0}),
)


@dataclass(frozen=True)
class _Shape:
    children: int
    cells: int
    shared: bool
    has_parent: bool
    held: int
    groups: int


@dataclass(frozen=True, eq=False)
class _Compiled:
    problem: cp.Problem
    x: cp.Variable
    parameters: dict[str, cp.Parameter]


def _shape(family: Family) -> _Shape:
    return _Shape(
        children=family.n_children,
        cells=family.n_cells,
        shared=family.shared,
        has_parent=family.parent is not None,
        held=0 if family.held is None else family.held.shape[1],
        groups=sum(one.lower.shape[1] for one in family.ranges),
    )


@lru_cache(maxsize=64)
def _compile(shape: _Shape) -> _Compiled:
    x = cp.Variable((shape.children, shape.cells))
    parameters = {
        "target": cp.Parameter((shape.children, shape.cells)),
        "upper": cp.Parameter((shape.children, shape.cells), nonneg=True),
    }
    n_roots = 1 if shape.shared else shape.children
    roots = [cp.Parameter((shape.cells, shape.cells)) for _ in range(n_roots)]
    parameters |= {f"root{i}": root for i, root in enumerate(roots)}
    if shape.shared:
        fit = cp.sum_squares(x @ roots[0].T - parameters["target"])
    else:
        fit = sum(cp.sum_squares(roots[i] @ x[i] - parameters["target"][i]) for i in range(shape.children))
    constraints = [x >= 0, x <= parameters["upper"]]
    if shape.has_parent:
        parameters["parent"] = cp.Parameter(shape.cells)
        constraints.append(cp.sum(x, axis=0) == parameters["parent"])
    if shape.held:
        parameters["held_matrix"] = cp.Parameter((shape.cells, shape.held))
        parameters["held"] = cp.Parameter((shape.children, shape.held))
        constraints.append(x @ parameters["held_matrix"] == parameters["held"])
    if shape.groups:
        parameters["groups"] = cp.Parameter((shape.cells, shape.groups))
        parameters["lower"] = cp.Parameter((shape.children, shape.groups))
        parameters["upper_groups"] = cp.Parameter((shape.children, shape.groups))
        sums = x @ parameters["groups"]
        constraints += [sums >= parameters["lower"], sums <= parameters["upper_groups"]]
    return _Compiled(cp.Problem(cp.Minimize(fit), constraints), x, parameters)


def _fill(compiled: _Compiled, family: Family) -> None:
    """Set the parameters. Everything is scaled so that the precision's median diagonal is one."""
    scale = float(np.median(np.diagonal(family.precision, axis1=1, axis2=2)))
    factors = np.linalg.cholesky(family.precision / scale)
    centre = np.linalg.solve(family.precision, family.linear[:, :, None])
    upper_factors = np.swapaxes(factors, 1, 2)
    values: dict[str, Any] = {f"root{i}": root for i, root in enumerate(upper_factors)}
    values["target"] = np.matmul(upper_factors, centre)[:, :, 0]
    values["upper"] = family.upper
    if family.parent is not None:
        values["parent"] = family.parent
    if family.held is not None and family.held_group is not None:
        values["held_matrix"] = one_hot(family.held_group, family.held.shape[1])
        values["held"] = family.held
    if family.ranges:
        values["groups"] = np.hstack([one_hot(one.group, one.lower.shape[1]) for one in family.ranges])
        values["lower"] = np.hstack([one.lower for one in family.ranges])
        values["upper_groups"] = np.hstack([one.upper for one in family.ranges])
    for name, parameter in compiled.parameters.items():
        parameter.value = values[name]


def solve_with_cvxpy(family: Family) -> Solution:
    """Solve one family, with another solver where one does not reach its tolerance.

    Raises:
        SolverError: none did; the message names the parent and what each solver said.
    """
    compiled = _compile(_shape(family))
    _fill(compiled, family)
    said = []
    for solver, options in SOLVERS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compiled.problem.solve(solver=solver, warm_start=False, **options)
        except cp.error.SolverError as error:
            said.append(f"{solver}: {error}")
            continue
        if compiled.problem.status == cp.OPTIMAL and compiled.x.value is not None:
            x = np.asarray(compiled.x.value, dtype=np.float64)
            worst = violation(family, x)
            if worst <= FEASIBILITY:
                iterations = int(compiled.problem.solver_stats.num_iters or 0)
                return Solution(x, f"cvxpy/{solver}", iterations, worst, 0.0)
            said.append(f"{solver}: a constraint is off by {worst:.1e} persons, allowed is {FEASIBILITY:.0e}")
        else:
            said.append(f"{solver}: {compiled.problem.status}")
    raise SolverError(f"{family.name}: the least-squares problem of its children was not solved ({'; '.join(said)})")
