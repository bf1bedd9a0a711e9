"""After both passes, estimate and variance equal dense generalised least squares over the whole spine."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.dense import query_matrix, subtree_gls
from oracles.random_problems import random_marginals, random_problem
from releases.placements import without_garbage

from postprocess import algebra
from postprocess.linear.downward import SumCovariances, answer_variances_of, unbiased_estimates, variances_of
from postprocess.linear.upward import basis_of, upward_pass


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), zeros=st.booleans(), invariants=st.booleans(), roots=st.integers(1, 2))
def test_equals_dense_least_squares(seed: int, zeros: bool, invariants: bool, roots: int) -> None:
    problem, _ = random_problem(seed, zeros=zeros, invariants=invariants, roots=roots, shape=(3, 2, 2), n_levels=3)
    basis = basis_of(problem)
    estimates = upward_pass(problem, basis)
    variances = list(variances_of(problem, estimates))
    marginals = random_marginals(np.random.default_rng(seed), problem.shape, recode=False)
    above = None
    for level in range(problem.spine.n_levels):
        parts = [part for _, part in unbiased_estimates(problem, basis, estimates, level, above)]
        above = np.vstack(parts)
        answers = [variances[level].of_answers(basis, marginal) for marginal in marginals]
        for i in range(len(above)):
            dense = subtree_gls(problem, level, i, whole=True)
            scale = 1 + np.abs(dense.mean).max()
            assert np.abs(above[i] - dense.mean).max() < 1e-8 * scale
            for marginal, of_answers in zip(marginals, answers, strict=True):
                matrix = query_matrix(marginal, problem.n_cells)
                expected = np.diag(matrix @ dense.covariance @ matrix.T)
                np.testing.assert_allclose(of_answers[i], expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("at_once", [1, 10**9])
def test_covariances_with_weighted_sums_are_dense(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _ = random_problem(5, shape=(3, 2, 2), n_levels=3)
    basis = basis_of(problem)
    estimates = upward_pass(problem, basis)
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(2, problem.n_cells))
    asked = [SumCovariances(marginal, weights) for marginal in random_marginals(rng, problem.shape, recode=False)]
    monkeypatch.setattr(algebra, "CHUNK_NUMBERS", at_once)
    for level, found in enumerate(answer_variances_of(problem, basis, estimates, [asked] * 3)):
        for i, own in enumerate(found.classes):
            covariance = subtree_gls(problem, level, i, whole=True).covariance
            for query in asked:
                expected = query_matrix(query.query, problem.n_cells) @ covariance @ weights.T
                np.testing.assert_allclose(found.by_query[query.key][own], expected.ravel(), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("at_once", [1, 10**9])
@pytest.mark.parametrize("seed", range(6))
def test_variances_of_answers_alone_are_those_of_all_matrices(
    seed: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Class by class as well as of all classes at once; also where things are known or not measured."""
    problem, _ = random_problem(seed, zeros=seed % 2 > 0, invariants=seed % 3 > 0, complete=seed > 2, n_levels=4)
    basis = basis_of(problem)
    estimates = upward_pass(problem, basis)
    marginals = random_marginals(np.random.default_rng(seed), problem.shape, recode=False)
    queries = [marginals, [], marginals[:1], marginals]
    expected = list(variances_of(problem, estimates))
    monkeypatch.setattr(algebra, "CHUNK_NUMBERS", at_once)
    found = without_garbage(partial(answer_variances_of, problem, basis, estimates, queries))
    for level, (own, asked) in enumerate(zip(found, queries, strict=True)):
        assert set(own.by_query) == {marginal.key for marginal in asked}
        for marginal in asked:
            variances = own.of_classes(basis, marginal)[own.classes]
            np.testing.assert_allclose(variances, expected[level].of_answers(basis, marginal), rtol=1e-12, atol=1e-12)


def test_what_was_not_measured_is_marked() -> None:
    """Where no level below the parent measures the detail, its variance is NaN and that of the total is not."""
    marked = 0
    for seed in range(30):
        problem, _ = random_problem(seed, complete=False, n_levels=2, shape=(3, 2))
        basis = basis_of(problem)
        variances = list(variances_of(problem, upward_pass(problem, basis)))
        detailed = next(m for m in random_marginals(np.random.default_rng(0), (3, 2), recode=False) if m.size == 6)
        marked += int(np.isnan(variances[1].of_answers(basis, detailed)).any())
    assert marked > 5


@pytest.mark.parametrize("seed", range(3))
def test_topdown_variances_by_simulation(seed: int) -> None:
    """The recursion for the topdown estimator against many simulated linear estimates of one child."""
    problem, _ = random_problem(seed, estimator="topdown", n_levels=2, shape=(2, 2), recode=False)
    basis = basis_of(problem)
    estimates = upward_pass(problem, basis)
    variances = list(variances_of(problem, estimates))
    cells = np.arange(4)
    n = len(problem.spine.levels[1])
    if n == 1:
        pytest.skip("one child copies its parent")
    top = basis.restricted(estimates[0].info.covariance, cells)[0]
    own = basis.restricted(estimates[1].info.covariance[estimates[1].classes], cells)
    rng = np.random.default_rng(seed)
    draws = 40_000
    parent = rng.multivariate_normal(np.zeros(4), top, draws)
    children = np.stack([rng.multivariate_normal(np.zeros(4), v, draws) for v in own])
    gain = own[0] @ np.linalg.inv(own.sum(axis=0))
    final = children[0] + (parent - children.sum(axis=0)) @ gain.T
    expected = np.diag(basis.restricted(variances[1].covariance[variances[1].classes[:1]], cells)[0])
    np.testing.assert_allclose(final.var(axis=0), expected, rtol=0.05)


@pytest.mark.parametrize("seed", range(12))
def test_topdown_variances_where_some_children_have_zeros(seed: int) -> None:
    """The same recursion with dense pseudo-inverses: a cell that one child cannot have is still another's."""
    problem, _ = random_problem(seed, zeros=True, estimator="topdown", n_levels=2, shape=(3, 2), recode=False)
    basis = basis_of(problem)
    estimates = upward_pass(problem, basis)
    variances = list(variances_of(problem, estimates))
    cells = np.arange(6)
    top = basis.restricted(estimates[0].info.covariance, cells)[estimates[0].classes]
    own = basis.restricted(estimates[1].info.covariance, cells)[estimates[1].classes]
    found = basis.restricted(variances[1].covariance, cells)[variances[1].classes]
    offsets = problem.spine.child_offsets(0)
    for parent, (first, last) in enumerate(pairwise(offsets)):
        together = np.linalg.pinv(own[first:last].sum(axis=0), rcond=1e-10, hermitian=True)
        for child in range(first, last):
            gain = own[child] @ together
            expected = own[child] - gain @ own[child] + gain @ top[parent] @ gain.T
            expected = top[parent] if last - first == 1 else expected
            np.testing.assert_allclose(found[child], expected, atol=1e-8)
