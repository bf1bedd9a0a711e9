"""Small problems whose solution is known, one for each solver, to verify that it works here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np


def _by_cvxpy(solver: str, **settings: float) -> float:
    """The nearest point to (1, -2, 4) with coordinates from 0 that add up to 4 is (0.5, 0, 3.5)."""
    import cvxpy as cp

    x = cp.Variable(3)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - np.array([1.0, -2.0, 4.0]))), [x >= 0, cp.sum(x) == 4])
    problem.solve(solver=solver, **settings)
    return float(np.abs(x.value - np.array([0.5, 0.0, 3.5])).max())


def _by_flow() -> float:
    """Two units from node 0 to node 2, of which the cheap route carries one: cost 1 + 5."""
    from ortools.graph.python import min_cost_flow

    network = min_cost_flow.SimpleMinCostFlow()
    for start, end, capacity, cost in ((0, 1, 1, 0), (1, 2, 1, 1), (0, 2, 5, 5)):
        network.add_arc_with_capacity_and_unit_cost(start, end, capacity, cost)
    for node, supply in ((0, 2), (1, 0), (2, -2)):
        network.set_node_supply(node, supply)
    network.solve()
    return abs(network.optimal_cost() - 6.0)


def _by_milp() -> float:
    """The maximum of x + y over whole numbers with 2x + 2y <= 5 is 2."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    solution = milp(
        np.array([-1.0, -1.0]),
        integrality=np.ones(2),
        bounds=Bounds(0, np.inf),
        constraints=LinearConstraint(np.array([[2.0, 2.0]]), -np.inf, 5.0),
    )
    return abs(float(solution.fun) + 2.0)


#: Name -> how far the solver is from the solution of a small problem.
SOLVERS: Final[dict[str, Callable[[], float]]] = {
    "SCS": partial(_by_cvxpy, "SCS", eps=1e-9),
    "Clarabel": partial(_by_cvxpy, "CLARABEL", max_threads=1),
    "minimum-cost flow": _by_flow,
    "HiGHS": _by_milp,
}
