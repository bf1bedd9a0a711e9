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
    found = adjusted((values, variances), (above, errors), PARENTS)
    np.testing.assert_allclose(np.column_stack(found), dense)


def test_a_family_of_which_one_is_not_measured_stays_as_it_is() -> None:
    values, variances = np.arange(6.0)[:, None], np.array([4.0, np.inf, 4.0, np.inf, 0.0, 0.0])[:, None]
    above = np.full((3, 1), 9.0), np.array([[1.0], [2.0], [np.inf]])
    estimates, errors = adjusted((values, variances), above, PARENTS)
    np.testing.assert_array_equal(estimates[:, 0], [0.0, 1.0, 2.0, 9.0, 4.0, 5.0])  # an only child is its parent
    np.testing.assert_array_equal(errors[:, 0], [4.0, np.inf, 4.0, 2.0, 0.0, 0.0])
