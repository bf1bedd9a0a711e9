"""Solutions on sums, over all cells: beside dense solutions by cvxpy, by dense conditions, and by what they state."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import cvxpy
import numpy as np
import pytest
import scipy.sparse as sp
from oracles.large_family import large_family
from oracles.stops import after_each_stop
from oracles.sums_world import COUNTS, MOST, world

from postprocess.arrays import FloatArray
from postprocess.errors import SolverError
from postprocess.families import few_sums
from postprocess.families.active_set import Exact
from postprocess.families.family import Family
from postprocess.sums import downward, solution
from postprocess.sums.downward import downward_sums
from postprocess.sums.solution import ALLOWED, Parts, distance, solve_on_sums
from postprocess.sums.upward import Known
from postprocess.sums.weights import SumWeights


def solved(seed: int) -> list[tuple[Family, FloatArray]]:
    """All families of a made-up problem that are solved on sums, with their solutions."""
    found: list[tuple[Family, FloatArray]] = []

    def noted(family: Family) -> Exact | None:
        exact = solve_on_sums(family)
        if exact is not None:
            found.append((family, exact.x))
        return exact

    known, parents = Known(world(seed).problem, most=MOST), None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(downward, "solve_on_sums", noted)
        for level in range(4):
            nobody = np.zeros(COUNTS[max(level - 1, 0)], dtype=bool)
            parents, _ = downward_sums(known, level, parents, nobody)
    return found


def by_cvxpy(family: Family) -> FloatArray:
    """The solution over all cells with dense matrices."""
    x = cvxpy.Variable(family.linear.shape, nonneg=True)
    matrices = family.matrices[family.kinds]
    terms = [
        0.5 * cvxpy.quad_form(x[c], cvxpy.psd_wrap(one)) - family.linear[c] @ x[c] for c, one in enumerate(matrices)
    ]
    sums = [x[:, np.flatnonzero((family.upper <= 0).all(axis=0))] == 0]
    if family.parent is not None:
        sums.append(cvxpy.sum(x, axis=0) == family.parent)
    if family.held is not None and family.held_group is not None:
        groups = np.eye(family.held.shape[1])[family.held_group]
        sums.append(x @ groups == family.held)
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(terms)), sums)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return np.asarray(x.value)


@pytest.mark.parametrize("seed", range(3))
def test_all_cells_are_those_of_a_dense_solution(seed: int) -> None:
    """At every level, and by dense conditions: 1e-5 persons times the least eigenvalue is left of no gradient."""
    families = solved(seed)
    assert {family.parent is None for family, _ in families} == {True, False}
    for family, x in families:
        assert np.abs(by_cvxpy(family) - x).max() < ALLOWED
        assert distance(family, x) < ALLOWED / 10
        least = np.linalg.eigvalsh(family.matrices)[:, 0].min()
        assert 0 < family.precision.least() <= least * (1 + 1e-9)
        assert left_by_dense_algebra(family, x) / least < ALLOWED


def left_by_dense_algebra(family: Family, x: FloatArray) -> float:
    """The largest gradient that multipliers of the sums leave of a positive cell, or of the wrong sign of another."""
    gradient = np.einsum("cij,cj->ci", family.matrices[family.kinds], x) - family.linear
    rows = []
    if family.parent is not None:
        rows += [np.tile(row, (len(x), 1)).ravel() for row in np.eye(family.n_cells)]
    if family.held is not None and family.held_group is not None:
        for group in range(family.held.shape[1]):
            rows += [np.outer(child, family.held_group == group).ravel() for child in np.eye(len(x))]
    free = x.ravel() > 0
    sums = np.array(rows)
    multipliers = np.linalg.lstsq(sums[:, free].T, gradient.ravel()[free], rcond=None)[0]
    left = gradient.ravel() - sums.T @ multipliers
    possible = (family.upper > 0).ravel()
    return max(np.abs(left[free]).max(), -left[~free & possible].min(initial=0.0))


@pytest.mark.parametrize("seed", range(3))
def test_no_cell_is_further_off_than_is_stated(seed: int) -> None:
    """Solutions that are moved by more and more persons, with the same sums."""
    rng = np.random.default_rng(seed)
    for family, x in solved(seed):
        for size in (1e-4, 1e-2, 1.0):
            moved = x.copy()
            for _ in range(20):  # persons of two cells of one held sum change places, of two children where there are
                group = family.held_group
                assert group is not None
                cells = rng.permutation(np.flatnonzero(group == group[rng.integers(len(group))]))[:2]
                if len(cells) < 2 or (family.parent is not None and len(x) < 2):
                    continue
                step = np.zeros_like(x)
                step[0, cells] = size, -size
                if family.parent is not None:
                    step[1, cells] = -size, size
                if (moved + step >= 0).all():
                    moved = moved + step
            off = np.abs(moved - x).max()
            assert off <= distance(family, moved) + ALLOWED
            assert not off or distance(family, moved) > ALLOWED


def projected_once(among: Any, linear: FloatArray, at: FloatArray) -> FloatArray:
    """As `_residual`, but once."""
    return np.asarray(among.projected(linear - among.times(at)))


@pytest.mark.parametrize(
    ("persons", "weight", "module", "name", "fault"),
    [
        (2_000_000, 1.0, solution, "_residual", projected_once),
        (200_000_000, 0.1, few_sums, "PIECE", 1 << 40),
        (200_000_000, 0.1, solution, "LAST_BITS", 2.0**-50),
    ],
    ids=["projected once", "one piece", "last bits"],
)
def test_millions_of_persons_are_solved_as_well(
    monkeypatch: pytest.MonkeyPatch, persons: int, weight: float, module: ModuleType, name: str, fault: object
) -> None:
    """A nation and a state of fifty thousand numbers; without one of three cares about rounding not as well."""
    found = bound(large_family(persons, weight))
    assert found < ALLOWED
    monkeypatch.setattr(module, name, fault)
    assert bound(large_family(persons, weight)) > 1.5 * found


def bound(family: Family) -> float:
    """By how many persons a cell may be off, or infinity where the family is not solved."""
    exact = solve_on_sums(family)
    return np.inf if exact is None else distance(family, exact.x)


def test_children_that_share_no_cell_are_no_further_off() -> None:
    """What is added to one child's term and held alike says nothing: the bound does not depend on it."""
    weights = SumWeights.made(np.ones(1), [], sp.csr_array(np.eye(2)), np.zeros((1, 2, 2)))
    for shift in (0.0, 100.0, -100.0):
        linear = np.array([[10.0 + shift, shift], [0.0, 10.0]])
        sums = np.array([3.0, 4.0])
        group = np.zeros(2, dtype=np.int64)
        family = Family("two", weights, linear, np.full((2, 2), 4.0), sums, group, sums[:, None])
        exact = solve_on_sums(family)
        assert exact is not None
        assert np.allclose(exact.x, np.diag(sums))
        assert distance(family, np.diag(sums)) < 1e-12
        assert distance(family, np.array([[2.0, 1.0], [1.0, 3.0]])) > 1.0


def test_parts_that_cannot_have_the_fixed_sums_are_linked() -> None:
    """Three persons of one cell and four of another, for children of five and two: two of the four go to the first."""
    weights = SumWeights.made(np.ones(1), [], sp.csr_array(np.eye(2)), np.zeros((1, 2, 2)))
    parent, held = np.array([3.0, 4.0]), np.array([[5.0], [2.0]])
    linear = np.array([[10.0, -5.0], [-5.0, 10.0]])
    family = Family("two", weights, linear, np.full((2, 2), 4.0), parent, np.zeros(2, dtype=np.int64), held)
    parts = Parts(family, np.eye(2, dtype=bool))
    assert parts.surplus.tolist() == [-2.0, 2.0]
    assert parts.links(np.ones((2, 2))).tolist() == [[False, False], [True, False]]
    exact = solve_on_sums(family)
    assert exact is not None
    assert np.allclose(exact.x, [[3.0, 2.0], [0.0, 2.0]])


def test_what_is_not_solved_to_this_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the sums as by matrices: nothing that is further off is rounded and released."""
    (alone, _), *_, (below, _) = solved(1)
    assert solve_on_sums(alone) is not None
    assert solve_on_sums(below) is not None
    monkeypatch.setattr(solution, "AIM", 1e3)
    assert solve_on_sums(below) is None
    monkeypatch.setattr(downward, "solve_on_sums", lambda *_: None)
    monkeypatch.setattr(downward, "distance", lambda *_: 2e-5)
    problem = world(1).problem
    with pytest.raises(SolverError, match=r"l0 00: a cell may be 2e-05 persons from the exact solution; allowed"):
        downward_sums(Known(problem, most=MOST), 0, None, np.zeros(1, dtype=bool))
    monkeypatch.setattr(downward, "MOST_IN_MATRICES", 10)
    with pytest.raises(SolverError, match=r"l0 00: \d+ numbers were not solved to 1e-05 persons in the steps"):
        downward_sums(Known(replace(problem, passes=()), most=MOST), 0, None, np.zeros(1, dtype=bool))


def test_rounds_that_go_round_in_a_circle_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of Curtis, Han and Robinson (2015), of which the plain method repeats the same sets for ever."""
    precision = np.array([[4.0, 5.0, -5.0], [5.0, 9.0, -5.0], [-5.0, -5.0, 7.0]])
    least = 0.5 * np.linalg.eigvalsh(precision)[0]
    weights = SumWeights.made(np.array([least]), [], sp.csr_array(np.eye(3)), (precision - least * np.eye(3))[None])
    family = Family("circle", weights, np.array([[2.0, 1.0, -3.0]]), np.full((1, 3), 1e9), None, None, None)
    exact = solve_on_sums(family)
    assert exact is not None
    assert np.allclose(exact.x, [[0.5, 0.0, 0.0]], atol=1e-9)
    monkeypatch.setattr(solution, "PATIENCE", 1000)
    assert solve_on_sums(family) is None


def test_whoever_goes_on_has_the_same_bytes_and_rounds() -> None:
    family = max((family for family, _ in solved(2) if family.parent is not None), key=lambda one: one.n_cells)
    exact = solve_on_sums(family)
    assert exact is not None
    for again in after_each_stop(lambda: solve_on_sums(family)):
        assert again is not None
        assert (again.x.tobytes(), again.rounds) == (exact.x.tobytes(), exact.rounds)


def test_some_cells_have_the_same_precisions() -> None:
    """Of each cell, of wide queries and of few sums; and the mean of all is that of the matrices."""
    rng = np.random.default_rng(6)
    few = sp.csr_array((np.arange(30)[None, :] % 3 == np.arange(3)[:, None]).astype(np.float64))
    joint = np.stack([np.eye(3), np.diag([1.0, 2.0, 0.5])])
    weights = SumWeights.made(np.array([0.3, 0.7]), [(np.arange(30) // 4, 0.5), (np.arange(30) // 8, 0.1)], few, joint)
    assert weights.nested == (0, 1)
    cells = rng.random(30) < 0.4
    assert np.allclose(weights.on(cells).matrices(), weights.matrices()[:, cells][:, :, cells])
    shares = np.array([0.2, 0.8])
    assert np.allclose(weights.mean(shares), np.tensordot(shares, weights.matrices(), 1))
