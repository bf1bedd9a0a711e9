"""Families of all kinds x all that solves them: the same solution, which satisfies the conditions of optimality."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.families import (
    FORMS,
    RANDOM,
    as_large,
    measured_family,
    objective,
    off,
    random_area,
    random_family,
    times_as_many,
)

from postprocess.arrays import FloatArray
from postprocess.errors import SolverError
from postprocess.families import projected, reference_solvers, solve
from postprocess.families.family import Family, GroupRange, Solution, violation
from postprocess.families.precisions import Dense
from postprocess.families.projected import FreeSums, solve_by_projection
from postprocess.families.reference_solvers import solve_again, solve_with_cvxpy
from postprocess.families.solve import finished, solve_batched, solve_families


def batched(family: Family) -> FloatArray:
    (solution,) = solve_batched([family])
    return solution.x


def stuck(family: Family) -> FloatArray:
    """As where the active set method gets nowhere by itself; it has to finish what the second solver shows."""
    solution = finished(family, solve_again(family))
    assert solution.solver == "batched"
    return solution.x


SOLVERS: dict[str, Callable[[Family], FloatArray]] = {
    "batched": batched,
    "as a large family": lambda family: as_large(family).x,
    "stuck": stuck,
    "SCS": lambda family: solve_again(family).x,
}


@settings(max_examples=30)
@given(family=RANDOM)
def test_every_solver_gives_the_solution_of_cvxpy(family: Family) -> None:
    reference = solve_with_cvxpy(family)
    for name, solver in SOLVERS.items():
        x = solver(family)
        assert violation(family, x) < (1e-5 if name == "SCS" else 1e-6), name
        assert np.abs(x - reference.x).max() < 1e-3, name
        assert objective(family, x) <= objective(family, reference.x) + 1e-3, name
        if not family.ranges and name != "SCS":
            assert off(family, x) < 1e-6, name


@settings(max_examples=10)
@given(
    seed=st.integers(0, 10**6),
    children=st.sampled_from([1, 2, 5]),
    kinds=st.integers(1, 3),
    held=st.sampled_from([0, 1, 3]),
    zeros=st.booleans(),
)
def test_every_form_of_precisions_gives_the_same_solution(
    seed: int, children: int, kinds: int, held: int, zeros: bool
) -> None:
    of_form = {
        form: measured_family(seed, children, kinds=min(kinds, children), held=held, zeros=zeros, form=form)
        for form in FORMS
    }
    expected = batched(of_form["dense"])
    assert off(of_form["dense"], expected) < 1e-5
    for form, family in of_form.items():
        assert np.abs(as_large(family).x - expected).max() < 1e-7, form
    exact = solve_by_projection(of_form["weights"])
    assert exact is None or np.abs(exact.x - expected).max() < 1e-7
    assert exact is not None or children == 1


def concentrated(seed: int) -> Family:
    """All of a cell's people are in one child: the parent's sum, its bound and the others' zeros say the same."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((5, 30))
    truth[rng.integers(0, 5, 30), np.arange(30)] = rng.integers(1, 9, 30)
    return Family(
        name=f"parent {seed}",
        precision=Dense(np.eye(30)[None] + 0.3),
        linear=3.0 * truth + rng.normal(0, 6.0, truth.shape),
        upper=np.broadcast_to(truth.sum(axis=0), truth.shape),
        parent=truth.sum(axis=0),
        held=GroupRange.fixed(np.zeros(30, dtype=np.int64), truth.sum(axis=1, keepdims=True)),
    )


def at_a_corner() -> Family:
    """Every unknown of the solution is at a limit, so that multipliers are not unique."""
    held = np.array([[0.0], [2.0], [1.0], [2.0], [1.0], [2.0]])
    noisy = "-0.394 -0.359 0.468 0.527 0.294 0.388 0.450 0.459 0.165 0.162 0.295 0.287"
    return Family(
        name="block group 1 (its block children)",
        precision=Dense(np.array([[[0.15881847, 0.157214403453], [0.157214403453, 0.15881847]]])),
        linear=np.array(noisy.split(), dtype=np.float64).reshape(6, 2),
        upper=np.repeat(held, 2, axis=1),
        parent=np.array([6.0, 2.0]),
        held=GroupRange.fixed(np.zeros(2, dtype=np.int64), held),
    )


def scaled(family: Family, factor: float) -> Family:
    """The same with other precisions: budgets are over many decades."""
    return replace(family, precision=Dense(family.matrices * factor), linear=family.linear * factor)


HARD: dict[str, Family] = {
    **{f"concentrated {seed}": concentrated(seed) for seed in range(10)},
    "at a corner": at_a_corner(),
    "hundreds of millions": times_as_many(measured_family(5, 4, shape=(6, 2, 3), held=1), 1e7),
    "tens of millions on few sums": times_as_many(measured_family(3, 5, held=2, form="weights"), 1e6),
    "hardly measured": scaled(random_family(1, children=4, cells=5), 1e-8),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_families_are_solved(name: str) -> None:
    family = HARD[name]
    (solution,) = solve_families([family], "batched")
    assert off(family.with_matrices(), solution.x) < 1e-5
    if name in ("at a corner", "hardly measured"):
        assert np.abs(solution.x - solve_with_cvxpy(family).x).max() < 1e-4


right_lagrangian = FreeSums.lagrangian


def never_wrong(sums: FreeSums, gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
    left, mu = right_lagrangian(sums, gradient)
    return np.abs(left), mu


@pytest.mark.parametrize(
    ("where", "name", "fault"), [(FreeSums, "lagrangian", never_wrong), (projected, "AIM", 1e3)], ids=["kept", "rough"]
)
def test_the_conditions_notice_another_point(
    monkeypatch: pytest.MonkeyPatch, where: object, name: str, fault: object
) -> None:
    """Power: cells that are never released, rounds that end too early, and a thousandth of a person moved."""
    family = measured_family(2, 5, shape=(20, 2, 8), form="weights")
    right = solve_by_projection(family)
    assert right is not None
    assert off(family, right.x) < 1e-5
    cell = int(np.argmax((right.x > 0.01).sum(axis=0)))
    first, second, *_ = np.flatnonzero(right.x[:, cell] > 0.01)
    moved = right.x.copy()
    moved[[first, second], cell] += 1e-3, -1e-3
    assert off(family, moved) > 1e-5
    monkeypatch.setattr(where, name, fault)
    monkeypatch.setattr(projected, "ALLOWED", np.inf)
    wrong = solve_by_projection(family)
    assert wrong is not None
    assert off(family, wrong.x) > 1e-5


def test_the_batch_does_not_matter() -> None:
    """A family's solution has the same bits alone and among others."""
    together = [
        random_family(seed, children=2 + seed % 9, cells=3 + seed % 13, kinds=1 + seed % 2, held=seed % 3 == 0)
        for seed in range(30)
    ]
    for family, solution in zip(together, solve_batched(together), strict=True):
        (alone,) = solve_batched([family])
        assert np.array_equal(alone.x, solution.x)
        assert alone.iterations == solution.iterations


def unsolved(*_: Any, **__: Any) -> None:
    """Stands in for a method that does not find the solution."""


@pytest.mark.parametrize(
    ("form", "faults"),
    [
        ("dense", [(solve, "solve_by_projection", unsolved)]),
        ("weights", [(projected, "MOST_ROUNDS", 1)]),
        ("weights", [(projected, "MOST_STEPS", 1)]),
        ("weights", [(projected, "MOST_HELD", 0), (projected, "MOST_ROUNDS", 1)]),
    ],
    ids=["none", "few rounds", "few steps", "many held"],
)
@pytest.mark.parametrize("held", [0, 1])
def test_what_one_method_does_not_find_another_does(
    monkeypatch: pytest.MonkeyPatch, form: str, faults: Sequence[tuple[ModuleType, str, Any]], held: int
) -> None:
    family = measured_family(6, 5, kinds=2, held=held, form=form)
    expected = batched(family.with_matrices())
    for module, name, fault in faults:
        monkeypatch.setattr(module, name, fault)
    assert np.abs(as_large(family).x - expected).max() < 1e-6
    monkeypatch.setattr(solve, "MOST_NUMBERS", 0)
    with pytest.raises(SolverError, match=r"family 6: [\d,]+ numbers in matrices are too many"):
        as_large(family)


@pytest.mark.parametrize("form", FORMS)
def test_large_families_with_ranges_are_solved(form: str) -> None:
    family = measured_family(6, 5, kinds=2, held=1, form=form)
    assert family.parent is not None
    assert family.held is not None
    group, free = np.arange(family.n_cells) % 7, batched(family.with_matrices())
    # Between the solution without ranges, which is left out, and another point with the same sums.
    between = 0.5 * free + 0.5 * family.held.lower * family.parent / family.parent.sum()
    sums = np.stack([between[:, group == g].sum(axis=1) for g in range(7)], axis=1)
    family = replace(family, ranges=(GroupRange(group, sums - 0.5, sums + 0.5),))
    assert violation(family, free) > 1.0
    expected = batched(family.with_matrices())
    assert np.abs(as_large(family).x - expected).max() < 1e-6


def test_another_solvers_solution_is_finished() -> None:
    family = random_family(11, children=4, cells=6, held=True, ranges=True)
    exact = batched(family)
    rough = Solution(np.maximum(exact + np.random.default_rng(1).normal(0, 1e-7, exact.shape), 0), "other", 3, 0, 0)
    np.testing.assert_allclose(finished(family, rough).x, exact, atol=1e-10)
    far = replace(rough, x=exact + 1.0)
    assert finished(family, far) is far, "what is not the same solution is not put in its place"


#: A solver that does not reach its tolerance.
HOPELESS = ("SCS", {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 1})


@pytest.mark.parametrize("by", [solve_again, solve_with_cvxpy])
def test_another_solver_is_asked_where_one_fails(
    monkeypatch: pytest.MonkeyPatch, by: Callable[[Family], Solution]
) -> None:
    family = random_family(5, children=4, cells=6)
    monkeypatch.setattr(reference_solvers, "SOLVERS", (HOPELESS, *reference_solvers.SOLVERS[1:]))
    assert by(family).solver == "cvxpy/CLARABEL"


def test_where_all_fail_the_run_stops_with_the_parent_named(monkeypatch: pytest.MonkeyPatch) -> None:
    family = replace(random_family(5, children=4, cells=6), name="county 1")
    with pytest.raises(SolverError, match="infeasible"):
        solve_with_cvxpy(replace(family, upper=np.zeros(family.linear.shape)))
    monkeypatch.setattr(solve, "solve_exactly", lambda families, *_: [None for _ in families])
    with pytest.raises(SolverError, match=r"^county 1: the batched solver did not converge; .* solution of SCS"):
        solve_families([family], "batched")
    assert solve_families([family], "auto")[0].solver == "SCS"
    monkeypatch.setattr(reference_solvers, "SOLVERS", (HOPELESS, HOPELESS))
    for solver in ("auto", "batched", "cvxpy"):
        with pytest.raises(SolverError, match=r"^county 1: .*SCS"):
            solve_families([family], solver)


@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), held=st.booleans(), ranges=st.booleans(), zeros=st.booleans())
def test_an_area_is_solved_without_matrices_of_all_cells(seed: int, held: bool, ranges: bool, zeros: bool) -> None:
    """As by cvxpy on all possible cells, and the conditions of optimality are met in all."""
    area = random_area(seed, (4, 3, 9, 2), held=held, ranges=ranges, zeros=zeros)
    x, dense = as_large(area).x, area.with_matrices()
    reference = solve_with_cvxpy(dense)
    assert violation(area, x) < 1e-5
    assert np.abs(x - reference.x).max() < 1e-3
    assert objective(area, x) <= objective(area, reference.x) + 1e-6 * np.abs(area.linear).max()
    if not ranges:
        assert off(dense, x) < 1e-5


def test_an_area_at_the_top_may_be_empty() -> None:
    """Its solution without ranges has no positive cell, and no range asks for one."""
    area = random_family(170, children=1, cells=2, parent=False, ranges=True)
    (alone,), x = solve_batched([area]), as_large(area).x
    assert np.array_equal(alone.x, x)
    assert not x.any()
