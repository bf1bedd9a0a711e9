"""The variance of a sum over any leaves equals that of dense generalised least squares over the whole spine."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.dense import dense_covariance, leaves_below, query_matrix
from oracles.random_problems import random_marginals, random_problem

from postprocess.linear.areas import area_variances
from postprocess.linear.classes import geounit_classes
from postprocess.linear.expected import answer_variances, covariances
from postprocess.linear.upward import basis_of


@pytest.mark.parametrize("seed", range(12))
def test_equals_dense_least_squares(seed: int) -> None:
    """Random areas, with zeros, invariants, recodes and several roots."""
    problem, _ = random_problem(
        seed, zeros=seed % 2 == 0, invariants=seed % 3 == 0, roots=1 + seed % 2, shape=(3, 2, 2), n_levels=3 + seed % 2
    )
    spine, basis = problem.spine, basis_of(problem)
    classes = geounit_classes(problem, basis)
    own = [basis.precision([(one.marginal, one.variance) for one in level])[None] for level in problem.measured]
    found = covariances(classes, own, "full")
    dense = dense_covariance(problem)
    rng = np.random.default_rng(seed)
    areas = [rng.random(spine.n_leaves) < share for share in (0.2, 0.5, 0.8, 2.0)]
    for leaves in areas:
        for marginal in random_marginals(rng, problem.shape, recode=True):
            rows = np.kron(leaves.astype(float), query_matrix(marginal, problem.n_cells))
            ours = area_variances(spine, basis, classes, found, leaves, marginal)
            np.testing.assert_allclose(ours, np.diag(rows @ dense @ rows.T), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("estimator", ["full", "topdown"])
def test_a_geounit_as_an_area(estimator: str) -> None:
    """The leaves of a geounit have its own variance; what is unmeasured there is NaN in both."""
    for seed in range(8):
        problem, _ = random_problem(
            seed, shape=(3, 2), n_levels=3, complete=estimator == "topdown", estimator=estimator
        )
        spine, basis = problem.spine, basis_of(problem)
        classes = geounit_classes(problem, basis)
        own = [basis.precision([(one.marginal, one.variance) for one in level])[None] for level in problem.measured]
        found = covariances(classes, own, estimator)
        for level, one in enumerate(classes):
            for marginal in random_marginals(np.random.default_rng(seed), problem.shape, recode=False):
                whole = answer_variances(basis, one, found[level], marginal)[one.downward]
                for i in range(len(spine.levels[level])):
                    inside = np.isin(np.arange(spine.n_leaves), leaves_below(spine, level, i))
                    np.testing.assert_allclose(
                        area_variances(spine, basis, classes, found, inside, marginal), whole[i], rtol=1e-7, atol=1e-8
                    )
