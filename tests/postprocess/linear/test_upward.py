"""The upward pass equals dense generalised least squares, estimate and covariance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.dense import subtree_gls
from oracles.random_problems import KINDS, random_problem

from postprocess.linear import upward
from postprocess.linear.upward import basis_of, estimates_of, upward_pass
from postprocess.marginal import Marginal
from postprocess.problem import GroupBounds, Problem


@pytest.mark.parametrize("loop", [0, 1 << 60])
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int64, np.float64])
def test_sums_of_runs_of_rows_are_those_of_python(
    monkeypatch: pytest.MonkeyPatch, loop: int, dtype: type[np.generic]
) -> None:
    monkeypatch.setattr(upward, "LOOP_NUMBERS", loop)
    rng = np.random.default_rng(1)
    values = rng.integers(100, 128, (40, 3)).astype(dtype)  # a sum of two does not fit into eight bits
    order = rng.permutation(40)[:30]
    for starts in (np.array([0, 1, 7, 8, 29]), np.arange(30)):
        found = upward._grouped_sum(values, order, starts)
        ends = [*starts[1:].tolist(), 30]
        for own, first, last in zip(found.tolist(), starts.tolist(), ends, strict=True):
            assert own == [sum(values[row, column].item() for row in order[first:last]) for column in range(3)]


def assert_equals_dense(problem: Problem) -> int:
    """Compare every geounit; returns how many directions were compared."""
    basis = basis_of(problem)
    estimates = upward_pass(problem, basis)
    every_cell = np.arange(problem.n_cells)
    compared = 0
    for level, estimate in enumerate(estimates):
        rows = np.arange(len(estimate.classes))
        means = basis.unfold(estimates_of(problem, basis, level, estimate, rows)[0])
        for i in range(len(rows)):
            dense = subtree_gls(problem, level, i)
            covariance = basis.restricted(estimate.info.covariance[estimate.classes[[i]]], every_cell)[0]
            scale = 1.0 + np.abs(dense.mean).max()
            difference = dense.estimable @ (means[i] - dense.mean)
            assert np.abs(difference).max() < 1e-9 * scale, (level, i, np.abs(difference).max())
            mine = dense.estimable @ covariance @ dense.estimable
            theirs = dense.estimable @ dense.covariance @ dense.estimable
            assert np.abs(mine - theirs).max() < 1e-9 * (1.0 + np.abs(theirs).max()), (level, i)
            compared += round(np.trace(dense.estimable))
    return compared


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n_levels=st.integers(1, 4), recode=st.booleans())
def test_complete_measurements(seed: int, n_levels: int, recode: bool) -> None:
    problem, _ = random_problem(seed, n_levels=n_levels, recode=recode)
    assert assert_equals_dense(problem) == problem.n_cells * sum(len(x) for x in problem.spine.levels)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), shape=st.sampled_from([(3, 2, 3), (2, 2), (4,), (1, 3), (3, 3)]))
def test_missing_levels_and_queries(seed: int, shape: tuple[int, ...]) -> None:
    problem, _ = random_problem(seed, shape=shape, complete=False)
    assert_equals_dense(problem)


@settings(max_examples=40, deadline=None)
@given(**KINDS, roots=st.integers(1, 2))
def test_constraints(seed: int, zeros: bool, invariants: bool, complete: bool, roots: int) -> None:
    problem, _ = random_problem(seed, zeros=zeros, invariants=invariants, complete=complete, roots=roots)
    assert_equals_dense(problem)


@pytest.mark.parametrize("seed", range(8))
def test_everything_may_be_known_of_a_geounit(seed: int) -> None:
    """Exact answers at a middle level, exact totals and zeros at the leaves: in some geounits nothing is left open."""
    problem, truth = random_problem(seed, shape=(4, 2), n_levels=3, recode=False, mean=0.5)
    total = Marginal("total", (np.zeros(4, dtype=np.int64), np.zeros(2, dtype=np.int64)))
    first = Marginal("first", (np.arange(4), np.zeros(2, dtype=np.int64)))

    def exact(marginal: Marginal, level: int) -> GroupBounds:
        answers = marginal.answer(truth[level])
        return GroupBounds(marginal.name, marginal, answers, answers)

    present = first.answer(truth[2])
    zeros = GroupBounds("zeros", first, 0 * present, np.where(present == 0, 0, 1 << 40))
    bounds = ((exact(first, 0),), (exact(first, 1),), (exact(total, 2), zeros))
    assert_equals_dense(replace(problem, constraints=replace(problem.constraints, bounds=bounds)))


def test_a_wrong_variance_is_noticed() -> None:
    """The comparison can fail: the same answers under another variance are no longer equal."""
    problem, _ = random_problem(3)
    one = problem.measured[2][0]
    basis = basis_of(problem)
    right = upward_pass(problem, basis)
    object.__setattr__(one, "variance", one.variance * 1.01)
    wrong = upward_pass(problem, basis)
    difference = np.abs(right[0].info.covariance - wrong[0].info.covariance).max()
    assert difference > 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_topdown_uses_own_measurements_only(seed: int) -> None:
    problem, _ = random_problem(seed, estimator="topdown")
    basis = basis_of(problem)
    for level, estimate in enumerate(upward_pass(problem, basis)):
        matrix = np.zeros((problem.n_cells, problem.n_cells))
        for one in problem.measured[level]:
            rows = np.zeros((one.marginal.size, problem.n_cells))
            rows[one.marginal.cell_answer, np.arange(problem.n_cells)] = 1
            matrix += rows.T @ rows / one.variance
        mine = basis.restricted(estimate.info.precision[[0]], np.arange(problem.n_cells))[0]
        np.testing.assert_allclose(mine, matrix, atol=1e-12)
