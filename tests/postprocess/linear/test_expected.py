"""Covariances foretold without measurements equal those of the estimation; their gradient equals finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.random_problems import bypassed, random_marginals, random_problem

from postprocess.algebra import Basis
from postprocess.linear.classes import geounit_classes
from postprocess.linear.downward import variances_of
from postprocess.linear.expected import answer_variances, covariances, error_by_final, expected_errors, gradient
from postprocess.linear.upward import basis_of, own_precisions, upward_pass
from postprocess.problem import Problem


def own(problem: Problem, basis: Basis) -> list[np.ndarray]:
    return [basis.precision([(one.marginal, one.variance) for one in level])[None] for level in problem.measured]


@pytest.mark.parametrize("seed", range(24))
def test_equals_the_estimation(seed: int) -> None:
    """Full estimator, with zeros, invariants, unmeasured directions and several roots: the same variances, and NaN."""
    problem, _ = random_problem(
        seed,
        zeros=seed % 2 == 0,
        invariants=seed % 3 == 0,
        roots=1 + seed % 2,
        complete=seed % 5 > 0,
        shape=(3, 2, 2),
        n_levels=3 + seed % 2,
    )
    basis = basis_of(problem)
    expected = list(variances_of(problem, upward_pass(problem, basis)))
    classes = geounit_classes(problem, basis)
    found = covariances(classes, own(problem, basis), "full")
    for marginal in random_marginals(np.random.default_rng(seed), problem.shape, recode=True):
        for level, one in enumerate(classes):
            ours = answer_variances(basis, one, found[level], marginal)[one.downward]
            theirs = expected[level].of_answers(basis, marginal)
            np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_equals_the_topdown_estimation(seed: int) -> None:
    problem, _ = random_problem(seed, estimator="topdown", n_levels=3, shape=(2, 3))
    basis = basis_of(problem)
    expected = list(variances_of(problem, upward_pass(problem, basis)))
    classes = geounit_classes(problem, basis)
    found = covariances(classes, own(problem, basis), "topdown")
    for marginal in random_marginals(np.random.default_rng(seed), problem.shape, recode=True):
        for level, one in enumerate(classes):
            ours = answer_variances(basis, one, found[level], marginal)[one.downward]
            np.testing.assert_allclose(ours, expected[level].of_answers(basis, marginal), rtol=1e-7, atol=1e-8)


def test_alike_geounits_share_a_class() -> None:
    """A level of 60 alike leaves under three parents with as many children each has one class."""
    problem, _ = random_problem(3, n_levels=2, shape=(2, 2))
    spine = problem.spine
    n = len(spine.levels[1])
    classes = geounit_classes(problem, basis_of(problem))
    assert len(classes[1].own) == 1
    assert classes[1].sizes.tolist() == [n]


@pytest.mark.parametrize("estimator", ["full", "topdown"])
@pytest.mark.parametrize("seed", range(8))
def test_gradient(seed: int, estimator: str) -> None:
    """The adjoint equals central differences, for a random level and query, in every measured query's precision."""
    problem, _ = random_problem(
        seed, zeros=seed % 2 == 0, invariants=seed % 3 == 0, shape=(3, 2, 2), n_levels=3, estimator=estimator
    )
    basis = basis_of(problem)
    classes = geounit_classes(problem, basis)
    rng = np.random.default_rng(seed)
    marginals = random_marginals(rng, problem.shape, recode=True)
    level, marginal = int(rng.integers(1, 3)), marginals[int(rng.integers(len(marginals)))]

    def value(changed: Problem) -> float:
        found = covariances(classes, own(changed, basis), estimator)
        return expected_errors(basis, classes[level], found[level], marginal).per_geounit

    found = covariances(classes, own(problem, basis), estimator)
    by_final = [np.zeros_like(one.final) for one in found]
    by_final[level] = error_by_final(basis, classes[level], found[level], marginal)
    by_own = gradient(classes, found, by_final, estimator)
    for number, queries in enumerate(problem.measured):
        for i, one in enumerate(queries):
            along = basis.precision([(one.marginal, 1.0)])
            ours = float((by_own[number] * along).sum())
            step = 1e-4 / one.variance
            moved = []
            for sign in (1, -1):
                other = replace(one, variance=1.0 / (1.0 / one.variance + sign * step))
                changed = list(problem.measured)
                changed[number] = (*queries[:i], other, *queries[i + 1 :])
                moved.append(value(replace(problem, measured=tuple(changed))))
            assert ours == pytest.approx((moved[0] - moved[1]) / (2 * step), rel=2e-4, abs=1e-6)


@pytest.mark.parametrize("estimator", ["full", "topdown"])
@pytest.mark.parametrize("seed", range(12))
def test_bypassed_geounits(seed: int, estimator: str) -> None:
    """Geounits without siblings, whose budget goes to the one above: the same variances as the estimation's."""
    problem, _ = random_problem(seed, shape=(3, 2), n_levels=4, zeros=seed % 3 == 0 and estimator == "full")
    problem = replace(bypassed(problem), estimator=estimator)
    basis = basis_of(problem)
    expected = list(variances_of(problem, upward_pass(problem, basis)))
    classes = geounit_classes(problem, basis)
    found = covariances(classes, [own_precisions(basis, level) for level in problem.measured], estimator)
    for marginal in random_marginals(np.random.default_rng(seed), problem.shape, recode=True):
        for level, one in enumerate(classes):
            ours = answer_variances(basis, one, found[level], marginal)[one.downward]
            np.testing.assert_allclose(ours, expected[level].of_answers(basis, marginal), rtol=1e-7, atol=1e-8)
