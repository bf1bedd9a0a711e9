"""Unbiased estimates of a level adjusted to those above: the best linear ones, by dense least squares."""

from __future__ import annotations

import numpy as np
import pytest

from postprocess.shares.estimates import adjusted

PARENTS = np.array([0, 0, 0, 1, 2, 2])


@pytest.mark.parametrize("of_parent", [0.5, 30.0])
def test_they_are_those_of_dense_least_squares(of_parent: float) -> None:
    rng = np.random.default_rng(3)
    values, variances = rng.normal(50.0, 9.0, (6, 1)), rng.uniform(1.0, 40.0, (6, 1))
    own = rng.normal(150.0, 9.0, 3)
    above, errors = np.empty((3, 1)), np.empty((3, 1))
    dense = []
    for parent in range(3):
        rows = np.flatnonzero(parent == PARENTS)
        design = np.vstack([np.eye(len(rows)), np.ones(len(rows))])
        weight = np.diag(1.0 / np.append(variances[rows, 0], of_parent))
        covariance = np.linalg.inv(design.T @ weight @ design)
        best = covariance @ design.T @ weight @ np.append(values[rows, 0], own[parent])
        above[parent], errors[parent] = best.sum(), covariance.sum()
        dense += list(zip(best, np.diag(covariance), strict=True))
    found = adjusted(values, variances, PARENTS, (above, errors))
    np.testing.assert_allclose(np.column_stack([found.values, found.variances]), dense)


def test_estimates_of_child_and_parent_have_the_covariance_of_brute_force() -> None:
    rng = np.random.default_rng(3)
    variances, n = np.array([4.0, 9.0, 25.0]), 200_000
    parents = np.zeros(3, dtype=np.int64)
    noise = rng.standard_normal((n, 3)) * np.sqrt(variances)
    own = 5.0 * rng.standard_normal(n)
    of_parent = 1.0 / (1.0 / 25.0 + 1.0 / variances.sum())
    above = of_parent * (own / 25.0 + noise.sum(axis=1) / variances.sum())
    part = variances / variances.sum()
    children = noise + part * (above - noise.sum(axis=1))[:, None]
    found = adjusted(noise[:1].T, variances[:, None], parents, (above[:1, None], np.array([[of_parent]])))
    np.testing.assert_allclose(found.values[:, 0], children[0])
    np.testing.assert_allclose(found.variances[:, 0], children.var(axis=0), rtol=0.02)
    np.testing.assert_allclose(found.common[:, 0], (children * above[:, None]).mean(axis=0), rtol=0.05)
    alone = adjusted(noise[:1].T, variances[:, None], parents, None)
    np.testing.assert_array_equal(alone.values, noise[:1].T)
    np.testing.assert_allclose(alone.common[:, 0], variances)


def test_a_family_of_which_one_is_not_measured_stays_as_it_is() -> None:
    values, variances = np.arange(6.0)[:, None], np.array([4.0, np.inf, 4.0, np.inf, 0.0, 0.0])[:, None]
    above = np.full((3, 1), 9.0), np.array([[1.0], [2.0], [np.inf]])
    found = adjusted(values, variances, PARENTS, above)
    np.testing.assert_array_equal(found.values[:, 0], [0.0, 1.0, 2.0, 9.0, 4.0, 5.0])  # an only child is its parent
    np.testing.assert_array_equal(found.variances[:, 0], [4.0, np.inf, 4.0, 2.0, 0.0, 0.0])
    assert np.isinf(found.of_totals).all()
