"""Estimates on few sums equal those of dense algebra over all cells; whole numbers add up and keep what is held."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from oracles.dense import query_matrix
from oracles.sums_world import COUNTS, MOST, world

from postprocess.arrays import FloatArray
from postprocess.marginal import detail_of
from postprocess.problem import Problem
from postprocess.sums.downward import downward_sums, sums_tasks
from postprocess.sums.space import Space, answers_of
from postprocess.sums.upward import Known, unfit


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


def on_cells(known: Known, level: int, row: int) -> tuple[FloatArray, FloatArray]:
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
    problem = world(seed).problem
    known, expected = Known(problem, most=MOST), dense(problem)
    assert known.first == 2
    for level, of_level in enumerate(expected):
        for row, (precision, term) in enumerate(of_level):
            found = on_cells(known, level, row)
            assert np.allclose(found[0], precision, atol=1e-6 * np.abs(precision).max())
            assert np.allclose(found[1], term, atol=1e-5 * np.abs(term).max())
    wrong = replace(problem.measured[1][1], variance=1.1 * problem.measured[1][1].variance)
    measured = (problem.measured[0], (problem.measured[1][0], wrong, problem.measured[1][2]), *problem.measured[2:])
    other = on_cells(Known(replace(problem, measured=measured), most=MOST), 0, 0)
    assert not np.allclose(other[0], expected[0][0][0], atol=1e-6 * np.abs(expected[0][0][0]).max())


def test_topdown_uses_own_answers_alone() -> None:
    problem = replace(world(1).problem, estimator="topdown")
    levels = Known(problem, most=MOST).levels
    for level in range(2):
        assert not levels[level].joint.any()
        assert [one.marginal.key for one in levels[level].measured] == [m.marginal.key for m in problem.measured[level]]


@pytest.mark.parametrize("seed", range(2))
def test_a_release_adds_up_and_what_is_not_measured_is_divided_in_proportion(seed: int) -> None:
    """All families are solved again by another solver; below the first level as the parent's cells are."""
    made = world(seed + 1)
    known = Known(made.problem, most=MOST)
    counts: list[sp.csr_array] = []
    for level in range(4):
        everyone = np.ones(COUNTS[max(level - 1, 0)], dtype=bool)
        found, report = downward_sums(known, level, counts[-1] if counts else None, everyone)
        assert report.checked > 0
        assert report.public()["dual_residual_at_most"] == 1e-6
        counts.append(found)
        assert found.min() >= 0
    parents = [level.parents for level in made.problem.spine.levels]
    for level in range(1, 4):
        summed = np.zeros(counts[level - 1].shape)
        np.add.at(summed, parents[level], counts[level].toarray())
        assert np.array_equal(summed, counts[level - 1].toarray())
    solved, size = answers_of(known.space.cells, np.arange(made.problem.n_cells)), known.space.cells.size
    for child, parent in enumerate(parents[2]):
        own, above = counts[2].toarray()[child], counts[1].toarray()[parent]
        share = np.bincount(solved, own, minlength=size) / np.maximum(np.bincount(solved, above, minlength=size), 1)
        assert (np.abs(own - above * share[solved]) < 1.0 + 1e-3).all()


def test_batches_hold_whole_families_and_a_space_knows_what_its_sums_determine() -> None:
    problem = world(1).problem
    parents = sp.csr_array(np.ones((5, problem.n_cells), dtype=np.int64))
    tasks = sums_tasks(Known(problem, most=MOST), 3, parents, np.zeros(5, dtype=bool))
    assert sum(len(task.offsets) - 1 for task in tasks) == 5
    assert [task.first_parent for task in tasks] == sorted(task.first_parent for task in tasks)
    space = Space.of([m.marginal for m in problem.measured[3]])
    assert space.determines(problem.passes[0])
    assert not space.determines(detail_of(problem.shape))


def test_what_cannot_be_estimated_so_is_named() -> None:
    problem = world(1).problem
    levels = [(f"l{i}", [m.marginal for m in measured]) for i, measured in enumerate(problem.measured)]
    assert not unfit(problem.shape, levels, problem.passes)[1:]
    without = [(name, [query for query in queries if query.size < problem.n_cells]) for name, queries in levels]
    assert "the detail is not measured at l0" in "; ".join(unfit(problem.shape, without, problem.passes))
