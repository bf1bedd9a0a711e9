"""Public shares: estimates, what is expected, spread and intervals, against brute force and dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from postprocess.arrays import FloatArray
from postprocess.shares.estimates import adjusted
from postprocess.shares.intervals import LEAST_PART, constant_coverage

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


N = 30_000
S = 20.0
Z = float(ndtri(0.95))


def ends(truth: FloatArray, centre: float, spread: float, seed: int = 0) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Estimates of truths, and their intervals."""
    estimate = truth + S * np.random.default_rng(seed).standard_normal(len(truth))
    full = np.ones(len(truth))
    return estimate, *constant_coverage(estimate, S * full, centre * full, spread**2 * full)


def held(low: FloatArray, high: FloatArray, truth: FloatArray) -> float:
    return float(((low <= truth) & (truth <= high)).mean())


@pytest.mark.parametrize("spread", [1.0, 8.0, 70.0])
@pytest.mark.parametrize("distance", [0, 20, 400, -30])
def test_nine_truths_of_ten_are_held_however_far_they_are(spread: float, distance: int) -> None:
    truth = np.full(N, 1000.0 + distance)
    _, low, high = ends(truth, 1000.0, spread)
    assert held(low, high, truth) == pytest.approx(0.9, abs=4.5 * np.sqrt(0.09 / N))


def test_an_interval_that_trusts_what_is_expected_does_not() -> None:
    """The fault that these intervals are without: that of the model holds 97 % near it and next to nothing far away."""
    spread = 8.0
    weight = spread**2 / (spread**2 + S**2)
    for distance, least, most in ((0.0, 0.99, 1.0), (24.0, 0.0, 0.1)):
        truth = np.full(N, 1000.0 + distance)
        estimate, low, high = ends(truth, 1000.0, spread)
        middle, half = 1000.0 + weight * (estimate - 1000.0), Z * np.sqrt(weight) * S
        assert least <= held(middle - half, middle + half, truth) <= most
        assert held(low, high, truth) == pytest.approx(0.9, abs=0.01)


def test_they_are_shorter_where_the_expectation_is_right_and_hardly_longer_where_it_is_not() -> None:
    direct = 2.0 * Z * S
    rng = np.random.default_rng(1)
    lengths = {}
    for far in (1.0, 10.0, 20.0, 40.0):
        _, low, high = ends(1000.0 + np.rint(far * rng.standard_normal(N)), 1000.0, far)
        lengths[far] = float((high - low + 1.0).mean()) / direct
    assert list(lengths.values()) == pytest.approx([0.82, 0.83, 0.86, 0.92], abs=0.006)
    longest = (-ndtri(0.1 * LEAST_PART) - ndtri(0.1 * (1.0 - LEAST_PART))) * S
    for distance in (50, 200, 5000):
        _, low, high = ends(np.full(N, 1000.0 + distance), 1000.0, 5.0)
        assert (high - low).max() <= longest < 1.19 * direct


def test_without_an_expectation_they_are_those_of_the_measurement() -> None:
    estimate, low, high = ends(np.full(N, 1000.0), np.nan, np.inf)
    np.testing.assert_array_equal(low, np.ceil(estimate - Z * S))
    np.testing.assert_array_equal(high, np.floor(estimate + Z * S))


def test_they_are_the_truths_of_which_the_estimate_is_usual() -> None:
    """By brute force: every whole number is tried, with w by bisection of its defining equation."""
    spread, centre = 12.0, 1000.0
    estimate, low, high = ends(np.full(40, 1015.0), centre, spread, 3)
    for u, first, last in zip(estimate, low, high, strict=True):
        usual = [t for t in range(850, 1200) if _usual(u, float(t), centre, spread)]
        assert (usual[0], usual[-1]) == (first, last)
        assert len(usual) == last - first + 1


def _usual(estimate: float, truth: float, centre: float, spread: float) -> bool:
    low, high = LEAST_PART, 1.0 - LEAST_PART
    for _ in range(60):
        middle = 0.5 * (low + high)
        slope = ndtri(0.1 * middle) - ndtri(0.1 * (1.0 - middle))
        low, high = (middle, high) if slope < 2.0 * S * (truth - centre) / spread**2 else (low, middle)
    part = 0.5 * (low + high)
    return bool(truth + S * ndtri(0.1 * part) <= estimate <= truth - S * ndtri(0.1 * (1.0 - part)))
