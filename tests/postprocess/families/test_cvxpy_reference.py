"""The cvxpy statement: compiled once per shape, another solver where one fails, never a wrong number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from postprocess.errors import SolverError
from postprocess.families import reference_solvers as least_squares
from postprocess.families.family import Family
from postprocess.families.precisions import Dense
from postprocess.families.reference_solvers import solve_with_cvxpy


def family(seed: int = 1, name: str = "county 44001 (its tract children)") -> Family:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 9, (4, 5)).astype(float)
    return Family(
        name=name,
        precision=Dense(np.eye(5)[None] + 0.2),
        linear=truth * 2.0 + rng.normal(size=truth.shape),
        upper=np.broadcast_to(truth.sum(axis=0), truth.shape),
        parent=truth.sum(axis=0),
        held_group=None,
        held=None,
    )


def test_one_compilation_serves_all_families_of_a_shape() -> None:
    least_squares._compiled.cache_clear()
    for seed in range(5):
        solve_with_cvxpy(family(seed))
    assert least_squares._compiled.cache_info().misses == 1
    assert least_squares._compiled.cache_info().hits == 4


def test_stated_once_or_compiled_is_the_same_problem() -> None:
    np.testing.assert_allclose(solve_with_cvxpy(family()).x, solve_with_cvxpy(family(), once=True).x, atol=1e-6)


def test_badly_scaled_precisions_are_solved() -> None:
    """Budgets over many decades: the objective is scaled before it is stated."""
    small = replace(family(), precision=Dense(family().matrices * 1e-8), linear=family().linear * 1e-8)
    np.testing.assert_allclose(solve_with_cvxpy(small).x, solve_with_cvxpy(family()).x, atol=1e-5)


def test_another_solver_is_asked_where_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    hopeless = ("SCS", {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 1})
    monkeypatch.setattr(least_squares, "SOLVERS", (hopeless, least_squares.SOLVERS[1]))
    assert solve_with_cvxpy(family()).solver == "cvxpy/CLARABEL"


def test_where_all_fail_the_run_stops_with_the_parent_named(monkeypatch: pytest.MonkeyPatch) -> None:
    hopeless = ("SCS", {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 1})
    monkeypatch.setattr(least_squares, "SOLVERS", (hopeless, hopeless))
    with pytest.raises(SolverError, match=r"^county 44001 \(its tract children\): the least-squares problem .*SCS"):
        solve_with_cvxpy(family())


def test_an_infeasible_family_is_refused() -> None:
    with pytest.raises(SolverError, match="infeasible"):
        solve_with_cvxpy(replace(family(), upper=np.zeros((4, 5))))
