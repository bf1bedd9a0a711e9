"""Estimates and solutions on few sums: those of dense algebra and of other solvers over all cells."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from oracles.dense import query_matrix
from oracles.families import off
from oracles.random_problems import level_sums
from oracles.sums_world import COUNTS, MOST, solved, world

from postprocess.arrays import FloatArray
from postprocess.errors import SolverError
from postprocess.families import projected, solve, sum_weights
from postprocess.families.family import Family, GroupRange
from postprocess.families.projected import ALLOWED, Parts, distance, solve_by_projection
from postprocess.families.reference_solvers import solve_again, solve_with_cvxpy
from postprocess.families.sum_weights import SumWeights, sums_over
from postprocess.problem import Problem
from postprocess.sums import downward
from postprocess.sums.downward import downward_sums
from postprocess.sums.upward import KnownSums, unfit


def dense(problem: Problem) -> list[list[tuple[FloatArray, FloatArray]]]:
    """Precision and linear term over all cells of every geounit, by inverting what was hardly measured too."""
    ridge = 1e-8 * np.eye(problem.n_cells)
    out: list[list[tuple[FloatArray, FloatArray]]] = []
    for level in range(problem.spine.n_levels - 1, -1, -1):
        rows = [(query_matrix(m.marginal, problem.n_cells), m) for m in problem.measured[level]]
        found = []
        for row in range(len(problem.spine.levels[level])):
            precision = sum((a.T @ a / m.variance for a, m in rows), 0.0 * ridge)
            term = np.sum([a.T @ m.values[row] / m.variance for a, m in rows], axis=0)
            if out:
                children = [out[0][c] for c in np.flatnonzero(problem.spine.levels[level + 1].parents == row)]
                variances = [np.linalg.inv(one + ridge) for one, _ in children]
                known = np.linalg.inv(np.sum(variances, axis=0))
                precision = precision + known
                term = term + known @ np.sum([v @ t for v, (_, t) in zip(variances, children, strict=True)], axis=0)
            found.append((precision, term))
        out.insert(0, found)
    return out


def on_cells(known: KnownSums, level: int, row: int) -> tuple[FloatArray, FloatArray]:
    """The same of what is known on sums."""
    own, n_cells = known.levels[level], known.problem.n_cells
    w = known.space.sums(np.arange(n_cells)).T @ known.space.q
    precision, term = w @ own.joint[own.classes[row]] @ w.T, w @ own.term[row]
    for one in own.measured:
        matrix = query_matrix(one.marginal, n_cells)
        precision, term = precision + matrix.T @ matrix / one.variance, term + matrix.T @ one.values[row] / one.variance
    return precision, term


@pytest.mark.parametrize("seed", range(3))
def test_what_is_known_is_that_of_dense_algebra(seed: int) -> None:
    """Every level, with groups of which the values are more than the pieces; one wrong weight shows."""
    problem = world(seed)
    known, expected = KnownSums(problem, most=MOST), dense(problem)
    assert known.first == 2
    for level, of_level in enumerate(expected):
        for row, (precision, term) in enumerate(of_level):
            found = on_cells(known, level, row)
            assert np.allclose(found[0], precision, atol=1e-6 * np.abs(precision).max())
            assert np.allclose(found[1], term, atol=1e-5 * np.abs(term).max())
    wrong = replace(problem.measured[1][1], variance=1.1 * problem.measured[1][1].variance)
    measured = (problem.measured[0], (problem.measured[1][0], wrong, problem.measured[1][2]), *problem.measured[2:])
    other = on_cells(KnownSums(replace(problem, measured=measured), most=MOST), 0, 0)
    assert not np.allclose(other[0], expected[0][0][0], atol=1e-6 * np.abs(expected[0][0][0]).max())


@pytest.mark.parametrize("seed", range(2))
def test_a_release_adds_up_and_what_is_not_measured_is_divided_in_proportion(seed: int) -> None:
    """All families are solved again by another solver; below the first level as the parent's cells are."""
    problem = world(seed + 1)
    known = KnownSums(problem, most=MOST)
    counts: list[sp.csr_array] = []
    for level in range(4):
        everyone = np.ones(COUNTS[max(level - 1, 0)], dtype=bool)
        found, report = downward_sums(known, level, counts[-1] if counts else None, everyone)
        assert report.checked > 0
        assert report.public()["dual_residual_at_most"] == 1e-6
        counts.append(found)
        assert found.min() >= 0
    released = [one.toarray() for one in counts]
    assert all(map(np.array_equal, released, level_sums(problem.spine, released[-1])))
    solved, size = known.space.cells.answers_at(np.arange(problem.n_cells)), known.space.cells.size
    for child, parent in enumerate(problem.spine.levels[2].parents):
        own, above = released[2][child], released[1][parent]
        share = np.bincount(solved, own, minlength=size) / np.maximum(np.bincount(solved, above, minlength=size), 1)
        assert (np.abs(own - above * share[solved]) < 1.0 + 1e-3).all()


def test_what_cannot_be_estimated_so_is_named() -> None:
    problem = world(1)
    levels = [(f"l{i}", [m.marginal for m in measured]) for i, measured in enumerate(problem.measured)]
    assert not unfit(problem.shape, levels, problem.passes)[1:]
    without = [(name, [query for query in queries if query.size < problem.n_cells]) for name, queries in levels]
    assert "the detail is not measured at l0" in "; ".join(unfit(problem.shape, without, problem.passes))


@pytest.mark.parametrize("seed", range(2))
def test_all_cells_are_those_of_a_dense_solution(seed: int) -> None:
    """At every level, by cvxpy and by the conditions of optimality; and no cell is further off than is stated."""
    families, rng = solved(seed), np.random.default_rng(seed)
    assert {family.parent is None for family, _ in families} == {True, False}
    for family, x in families:
        dense = family.with_matrices()
        assert np.abs(solve_with_cvxpy(dense).x - x).max() < 1e-3
        least = np.linalg.eigvalsh(family.matrices)[:, 0].min()
        assert 0 < family.precision.least() <= least * (1 + 1e-9)
        scale = np.diagonal(family.matrices, axis1=1, axis2=2).max()
        assert off(dense, x) * scale / least < ALLOWED
        assert distance(family, x) < ALLOWED / 10
        for size in (1e-4, 1e-2, 1.0):
            moved = moved_by(family, x, size, rng)
            far = np.abs(moved - x).max()
            assert far <= distance(family, moved) + ALLOWED
            assert not far or distance(family, moved) > ALLOWED


def moved_by(family: Family, x: FloatArray, size: float, rng: np.random.Generator) -> FloatArray:
    """Persons of two cells of one held sum change places, and of two children where there are."""
    assert family.held is not None
    group = family.held.group
    for _ in range(20):
        cells = rng.permutation(np.flatnonzero(group == group[rng.integers(len(group))]))[:2]
        if len(cells) < 2 or (family.parent is not None and len(x) < 2):
            continue
        step = np.zeros_like(x)
        step[0, cells] = size, -size
        if family.parent is not None:
            step[1, cells] = -size, size
        if (x + step >= 0).all():
            x = x + step
    return x


@pytest.mark.parametrize("nests", [True, False])
def test_the_top_is_solved_as_by_another_solver(nests: bool) -> None:
    """Weights on queries that nest are inverted; others are corrected by conjugate gradients. A held sum may be 0."""
    rng, cells = np.random.default_rng(5), 240
    fine, coarse = np.arange(cells) // 3, np.arange(cells) // (12 if nests else 7)
    root = rng.normal(size=(4, 4))
    sums = sums_over(np.arange(cells) % 4, 4)
    weights = SumWeights.made(np.array([0.3]), [(fine, 0.5), (coarse, 0.2)], sums, (root @ root.T)[None])
    group = np.arange(cells) % 2
    upper = np.full((1, cells), 1e9) if nests else np.where(group == 1, 0.0, 1e9)[None]
    held = np.array([[70.0, 40.0 * nests]])
    family = Family("top", weights, rng.normal(0.0, 3.0, (1, cells)), upper, None, GroupRange.fixed(group, held))
    exact = solve_by_projection(family)
    assert exact is not None
    assert np.abs(exact.x - solve_again(family.with_matrices()).x).max() < 1e-4
    assert exact.x.sum() == pytest.approx(held.sum())


def large_family(persons: int, weight: float, k: int = 10_000, n: int = 5) -> Family:
    """Noisy answers of n children in k cells, of pairs of these, and, with a weight, of 1, 2, 7 and 100 groups."""
    rng = np.random.default_rng(1)
    truth = rng.multinomial(persons, rng.dirichlet(np.full(k * n, 0.05))).reshape(n, k)
    truth[:, truth.sum(axis=0) == 0] = 1
    few = sp.csr_array(sp.vstack([sums_over(np.arange(k) % size, size) for size in (1, 2, 7, 100)]))
    pairs = [(rng.integers(0, k // 2, k), 0.03)]
    precision = SumWeights.made(np.array([0.03]), pairs, few, weight * np.eye(few.shape[0])[None])
    kind, parent = np.zeros(n, dtype=np.int64), truth.sum(axis=0).astype(np.float64)
    return Family(
        name="state 44 (its county children)",
        precision=precision,
        linear=np.ascontiguousarray(precision.times(truth + rng.normal(0, 5, truth.shape), kind)),
        upper=np.repeat(parent[None], n, axis=0),
        parent=parent,
        held=GroupRange.fixed(np.zeros(k, dtype=np.int64), truth.sum(axis=1, keepdims=True)),
        kind=kind,
    )


def projected_once(among: Any, linear: FloatArray, at: FloatArray) -> FloatArray:
    """As `_residual`, but once."""
    return np.asarray(among.projected(linear - among.times(at)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("persons", "weight", "module", "name", "fault"),
    [
        (2_000_000, 1.0, projected, "_residual", projected_once),
        (200_000_000, 0.1, sum_weights, "PIECE", 1 << 40),
        (200_000_000, 0.1, projected, "LAST_BITS", 2.0**-50),
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
    exact = solve_by_projection(family)
    return np.inf if exact is None else distance(family, exact.x)


def two(linear: list[list[float]], held: list[float]) -> Family:
    """Two children with two cells, of 3 and 4 persons."""
    weights = SumWeights.made(np.ones(1), [], sp.csr_array(np.eye(2)), np.zeros((1, 2, 2)))
    group, parent = np.zeros(2, dtype=np.int64), np.array([3.0, 4.0])
    fixed = GroupRange.fixed(group, np.array(held)[:, None])
    return Family("two", weights, np.array(linear), np.full((2, 2), 4.0), parent, fixed)


def test_children_that_share_no_cell_are_no_further_off() -> None:
    """What is added to one child's term and held alike says nothing: the bound does not depend on it."""
    for shift in (0.0, 100.0, -100.0):
        family = two([[10.0 + shift, shift], [0.0, 10.0]], [3.0, 4.0])
        exact = solve_by_projection(family)
        assert exact is not None
        assert np.allclose(exact.x, np.diag([3.0, 4.0]))
        assert distance(family, np.diag([3.0, 4.0])) < 1e-12
        assert distance(family, np.array([[2.0, 1.0], [1.0, 3.0]])) > 1.0


def test_parts_that_cannot_have_the_fixed_sums_are_linked() -> None:
    """Three persons of one cell and four of another, for children of five and two: two of the four go to the first."""
    family = two([[10.0, -5.0], [-5.0, 10.0]], [5.0, 2.0])
    parts = Parts(family, np.eye(2, dtype=bool))
    assert parts.surplus.tolist() == [-2.0, 2.0]
    assert parts.links(np.ones((2, 2))).tolist() == [[False, False], [True, False]]
    exact = solve_by_projection(family)
    assert exact is not None
    assert np.allclose(exact.x, [[3.0, 2.0], [0.0, 2.0]])


def test_what_is_not_solved_to_this_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the sums as by matrices: nothing that is further off is rounded and released."""
    (alone, _), *_, (below, _) = solved(1)
    assert solve_by_projection(alone) is not None
    assert solve_by_projection(below) is not None
    monkeypatch.setattr(projected, "AIM", 1e3)
    assert solve_by_projection(below) is None
    monkeypatch.setattr(solve, "solve_by_projection", lambda *_: None)
    monkeypatch.setattr(downward, "distance", lambda *_: 2e-5)
    problem = world(1)
    with pytest.raises(SolverError, match=r"l0 00: a cell may be 2e-05 persons from the exact solution; allowed"):
        downward_sums(KnownSums(problem, most=MOST), 0, None, np.zeros(1, dtype=bool))
    monkeypatch.setattr(solve, "MOST_NUMBERS", 10)
    with pytest.raises(SolverError, match=r"l0 00: [\d,]+ numbers in matrices are too many for another solver"):
        downward_sums(KnownSums(replace(problem, passes=()), most=MOST), 0, None, np.zeros(1, dtype=bool))


def test_rounds_that_go_round_in_a_circle_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of Curtis, Han and Robinson (2015), of which the plain method repeats the same sets for ever."""
    precision = np.array([[4.0, 5.0, -5.0], [5.0, 9.0, -5.0], [-5.0, -5.0, 7.0]])
    least = 0.5 * np.linalg.eigvalsh(precision)[0]
    weights = SumWeights.made(np.array([least]), [], sp.csr_array(np.eye(3)), (precision - least * np.eye(3))[None])
    family = Family("circle", weights, np.array([[2.0, 1.0, -3.0]]), np.full((1, 3), 1e9), None)
    exact = solve_by_projection(family)
    assert exact is not None
    assert np.allclose(exact.x, [[0.5, 0.0, 0.0]], atol=1e-9)
    monkeypatch.setattr(projected, "PATIENCE", 1000)
    assert solve_by_projection(family) is None


def test_topdown_uses_own_answers_alone() -> None:
    problem = replace(world(1), estimator="topdown")
    levels = KnownSums(problem, most=MOST).levels
    for level in range(2):
        assert not levels[level].joint.any()
        assert [one.marginal.key for one in levels[level].measured] == [m.marginal.key for m in problem.measured[level]]
