"""Estimates on few sums equal those of dense algebra over all cells; solutions are a second solver's; sums are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from oracles.sums_world import COUNTS, MOST, world

from postprocess.arrays import FloatArray
from postprocess.downward.level import checked_parents
from postprocess.families.family import Family
from postprocess.families.reference_solvers import solve_again
from postprocess.marginal import Marginal, detail_of
from postprocess.problem import Problem
from postprocess.sums.downward import downward_sums, sums_tasks
from postprocess.sums.solution import solve_on_sums
from postprocess.sums.space import Space, answers_of
from postprocess.sums.upward import Known, SumsLevel, unfit
from postprocess.sums.weights import SumWeights


def matrix(query: Marginal) -> FloatArray:
    return np.asarray(query.cell_answer[None, :] == np.arange(query.size)[:, None], dtype=np.float64)


def dense(problem: Problem) -> list[list[tuple[FloatArray, FloatArray]]]:
    """Precision and linear term over all cells of every geounit, by inverting what was hardly measured too."""
    ridge = 1e-8 * np.eye(problem.n_cells)
    out: list[list[tuple[FloatArray, FloatArray]]] = []
    for level in range(problem.spine.n_levels - 1, -1, -1):
        own = sum(matrix(m.marginal).T @ matrix(m.marginal) / m.variance for m in problem.measured[level])
        found = []
        for row in range(len(problem.spine.levels[level])):
            precision = own + np.zeros_like(ridge)
            term = np.sum([matrix(m.marginal).T @ m.values[row] / m.variance for m in problem.measured[level]], axis=0)
            if out:
                children = [out[0][c] for c in np.flatnonzero(problem.spine.levels[level + 1].parents == row)]
                variances = [np.linalg.inv(one + ridge) for one, _ in children]
                known = np.linalg.inv(np.sum(variances, axis=0))
                precision = precision + known
                term = term + known @ np.sum([v @ t for v, (_, t) in zip(variances, children, strict=True)], axis=0)
            found.append((precision, term))
        out.insert(0, found)
    return out


def on_cells(known: Known, level: SumsLevel, row: int) -> tuple[FloatArray, FloatArray]:
    """The same of what is known on sums."""
    w = known.space.sums(np.arange(known.problem.n_cells)).T @ known.space.q
    precision = w @ level.joint[level.classes[row]] @ w.T
    term = w @ level.term[row]
    for one in level.measured:
        precision = precision + matrix(one.marginal).T @ matrix(one.marginal) / one.variance
        term = term + matrix(one.marginal).T @ one.values[row] / one.variance
    return precision, term


@pytest.mark.parametrize("seed", range(4))
def test_what_is_known_is_that_of_dense_algebra(seed: int) -> None:
    """Every level, with groups of which the values are more than the pieces; one wrong weight shows."""
    problem = world(seed).problem
    known = Known(problem, most=MOST)
    assert known.first == 2
    expected = dense(problem)
    for level, of_level in enumerate(expected):
        for row, (precision, term) in enumerate(of_level):
            found = on_cells(known, known.levels[level], row)
            assert np.allclose(found[0], precision, atol=1e-6 * np.abs(precision).max())
            assert np.allclose(found[1], term, atol=1e-5 * np.abs(term).max())
    wrong = replace(problem.measured[1][1], variance=1.1 * problem.measured[1][1].variance)
    measured = (problem.measured[0], (problem.measured[1][0], wrong, problem.measured[1][2]), *problem.measured[2:])
    other = on_cells(known, Known(replace(problem, measured=measured), most=MOST).levels[0], 0)
    assert not np.allclose(other[0], expected[0][0][0], atol=1e-6 * np.abs(expected[0][0][0]).max())


def test_topdown_uses_own_answers_alone() -> None:
    problem = replace(world(1).problem, estimator="topdown")
    levels = Known(problem, most=MOST).levels
    for level in range(2):
        assert not levels[level].joint.any()
        assert [one.marginal.key for one in levels[level].measured] == [m.marginal.key for m in problem.measured[level]]


@pytest.mark.parametrize("seed", range(3))
def test_a_release_adds_up_and_keeps_what_is_held(seed: int) -> None:
    """All families are solved again by another solver, too; a family beyond its tolerance stops the run."""
    made = world(seed)
    known = Known(made.problem, most=MOST)
    parents: sp.csr_array | None = None
    for level in range(4):
        everyone = np.ones(COUNTS[max(level - 1, 0)], dtype=bool)
        counts, report = downward_sums(known, level, parents, everyone)
        assert report.checked > 0
        assert report.public()["dual_residual_at_most"] == 1e-6
        assert counts.min() >= 0
        if parents is not None:
            sums = sp.csr_array(
                (np.ones(COUNTS[level]), (made.problem.spine.levels[level].parents, range(COUNTS[level])))
            )
            assert np.array_equal((sums @ counts).toarray(), parents.toarray())
        parents = counts
    assert len(checked_parents(made.problem.spine, 0)) == 4


def test_what_is_not_measured_is_divided_in_proportion() -> None:
    """Whole numbers next to the parent's cells times the child's share of what was solved."""
    made = world(2)
    known = Known(made.problem, most=MOST)
    parents, _ = downward_sums(known, 0, None, np.zeros(1, dtype=bool))
    for level in (1, 2):
        above = parents
        parents, _ = downward_sums(known, level, parents, np.zeros(3, dtype=bool))
    solved = answers_of(known.space.cells, np.arange(made.problem.n_cells))
    for parent, children in enumerate(([0, 1], [2], [3, 4])):
        of_parent = above.toarray()[parent]
        of_group = np.bincount(solved, of_parent, minlength=known.space.cells.size)
        for child in children:
            own = parents.toarray()[child]
            share = np.bincount(solved, own, minlength=known.space.cells.size) / np.maximum(of_group, 1)
            assert (np.abs(own - of_parent * share[solved]) < 1.0 + 1e-3).all()


@pytest.mark.parametrize("nests", [True, False])
def test_the_top_is_solved_as_by_another_solver(nests: bool) -> None:
    """Weights on queries that nest are inverted; others are corrected by conjugate gradients."""
    rng = np.random.default_rng(5)
    cells = 240
    fine, coarse = np.arange(cells) // 3, np.arange(cells) // (12 if nests else 7)
    few = sp.csr_array((np.arange(cells)[None, :] % 4 == np.arange(4)[:, None]).astype(np.float64))
    root = rng.normal(size=(4, 4))
    quadratic = SumWeights.made(np.array([0.3]), [(fine, 0.5), (coarse, 0.2)], few, (root @ root.T)[None])
    family = Family(
        name="top",
        precision=quadratic,
        linear=rng.normal(0.0, 3.0, (1, cells)),
        upper=np.full((1, cells), 1e9),
        parent=None,
        held_group=np.arange(cells) % 2,
        held=np.array([[70.0, 0.0]]) if not nests else np.array([[70.0, 40.0]]),
    )
    if not nests:  # nobody may be in a held sum of 0
        family = replace(family, upper=np.where(family.held_group == 1, 0.0, family.upper))
    exact = solve_on_sums(family)
    assert exact is not None
    other = solve_again(family.with_matrices())
    assert np.abs(exact.x - other.x).max() < 1e-4
    assert family.held is not None
    assert exact.x.sum() == pytest.approx(float(np.sum(family.held)))


def test_products_and_diagonals_are_those_of_the_matrix() -> None:
    rng = np.random.default_rng(6)
    few = sp.csr_array((np.arange(30)[None, :] % 3 == np.arange(3)[:, None]).astype(np.float64))
    joint = np.stack([np.eye(3), np.diag([1.0, 2.0, 0.5])])
    weights = SumWeights.made(np.array([0.3, 0.7]), [(np.arange(30) // 4, 0.5)], few, joint)
    cells, kinds = rng.normal(size=(30, 3)), np.array([0, 1, 1])
    matrices = weights.matrices()
    assert np.allclose(
        weights.times_columns(cells, kinds), np.stack([matrices[k] @ cells[:, i] for i, k in enumerate(kinds)]).T
    )
    assert np.allclose(weights.diagonals(), np.diagonal(matrices, axis1=1, axis2=2))
    assert np.allclose(weights.mean(np.array([0.25, 0.75])), np.tensordot([0.25, 0.75], matrices, 1))


def names(why: Sequence[str]) -> str:
    return "; ".join(why)


def test_what_cannot_be_estimated_so_is_named() -> None:
    problem = world(1).problem
    levels = [(f"l{i}", [m.marginal for m in measured]) for i, measured in enumerate(problem.measured)]
    assert not unfit(problem.shape, levels, problem.passes)[1:]
    without = [(name, [query for query in queries if query.size < problem.n_cells]) for name, queries in levels]
    assert "the detail is not measured at l0" in names(unfit(problem.shape, without, problem.passes))


def test_batches_hold_whole_families_in_order() -> None:
    known = Known(world(1).problem, most=MOST)
    parents = sp.csr_array(np.ones((5, known.problem.n_cells), dtype=np.int64))
    tasks = sums_tasks(known, 3, parents, np.zeros(5, dtype=bool))
    assert sum(len(task.offsets) - 1 for task in tasks) == 5
    assert [task.first_parent for task in tasks] == sorted(task.first_parent for task in tasks)


def test_a_space_knows_what_its_sums_determine() -> None:
    problem = world(1).problem
    space = Space.of([m.marginal for m in problem.measured[3]])
    assert space.determines(problem.passes[0])
    assert not space.determines(detail_of(problem.shape))
    basis = space.sums(np.arange(problem.n_cells)).T @ space.q
    assert np.allclose(basis.T @ basis, np.eye(basis.shape[1]))
