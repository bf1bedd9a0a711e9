"""Chains of single children measured once: both linear passes equal dense least squares, and the release is whole."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles.dense import query_matrix, subtree_gls
from oracles.random_problems import KINDS, bypassed, level_sums, random_marginals, random_problem

from postprocess.downward.level import downward_level
from postprocess.linear.downward import unbiased_estimates, variances_of
from postprocess.linear.upward import basis_of, estimates_of, upward_pass


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(**KINDS, roots=st.integers(1, 2), n_levels=st.integers(2, 4))
@example(seed=1898, zeros=False, invariants=False, complete=False, roots=2, n_levels=3)  # a level without measurements
@example(seed=51888, zeros=True, invariants=True, complete=False, roots=2, n_levels=3)
def test_both_passes_equal_dense_least_squares(
    seed: int, zeros: bool, invariants: bool, complete: bool, roots: int, n_levels: int
) -> None:
    shape = (2, 2) if n_levels == 4 else (3, 2)
    problem, _ = random_problem(
        seed, zeros=zeros, invariants=invariants, complete=complete, roots=roots, shape=shape, n_levels=n_levels
    )
    problem = bypassed(problem)
    basis = basis_of(problem)
    estimates = upward_pass(problem, basis)
    variances = list(variances_of(problem, estimates))
    marginals = random_marginals(np.random.default_rng(seed), problem.shape, recode=False)
    above = None
    for level in range(problem.spine.n_levels):
        parts = [part for _, part in unbiased_estimates(problem, basis, estimates, level, above)]
        above = np.vstack(parts)
        answers = [variances[level].of_answers(basis, marginal) for marginal in marginals]
        kinds = problem.kinds_of(level)
        own = basis.unfold(estimates_of(problem, basis, level, estimates[level], np.arange(len(above)))[0])
        for i in range(len(above)):
            dense = subtree_gls(problem, level, i, whole=True)
            scale = 1 + np.abs(dense.mean).max()
            if complete:
                assert np.abs(above[i] - dense.mean).max() < 1e-7 * scale
            for marginal, of_answers in zip(marginals, answers, strict=True):
                matrix = query_matrix(marginal, problem.n_cells)
                expected = np.diag(matrix @ dense.covariance @ matrix.T)
                determined = ~np.isnan(of_answers[i])
                if complete:
                    assert determined.all()
                    np.testing.assert_allclose(of_answers[i], expected, rtol=1e-6, atol=1e-8)
            if kinds is not None and kinds[i] >= 0:
                below = subtree_gls(problem, level, i)
                moved = below.estimable @ (own[i] - below.mean)
                assert np.abs(moved).max() < 1e-7 * (1 + np.abs(below.mean).max())


@pytest.mark.parametrize("estimator", ["full", "topdown"])
@pytest.mark.parametrize("seed", range(4))
def test_the_release_adds_up_and_single_children_are_copies(seed: int, estimator: str) -> None:
    problem, _ = random_problem(seed, zeros=True, n_levels=4, estimator=estimator)
    problem = bypassed(problem)
    basis = basis_of(problem)
    estimates = upward_pass(problem, basis)
    counts: list[sp.csr_array] = []
    for level in range(problem.spine.n_levels):
        found, _ = downward_level(problem, basis, level, estimates[level], counts[-1] if counts else None)
        counts.append(found)
    dense = [one.toarray() for one in counts]
    for one, summed in zip(dense, level_sums(problem.spine, dense[-1]), strict=True):
        assert (one >= 0).all()
        assert np.array_equal(one, summed)
