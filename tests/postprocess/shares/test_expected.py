"""The foretold variances, against dense algebra: the estimator applied to each source of error by itself."""

from __future__ import annotations

import numpy as np
import pytest

from postprocess.arrays import FloatArray
from postprocess.shares.expectation import shared_variances

TOP, TRACTS = 40.0, np.array([300.0, 150.0, np.inf])
PARENTS = np.repeat([0, 1, 2], [2, 3, 4])
LEAVES = np.array([200.0, 200.0, 90.0, 120.0, 300.0, 80.0, 80.0, 500.0, 100.0])
TRACT_SHARES = np.array([0.2, 0.3, 0.5])
SHARES = np.array([0.4, 0.6, 0.1, 0.5, 0.4, 0.25, 0.05, 0.3, 0.4])
TRACT_SPREAD, SPREAD = np.array([400.0, 90.0, 700.0]), 3000.0 * SHARES
TRACT_USED, USED = TRACT_SPREAD * 1.5, SPREAD * np.array([1, 1, 1.2, 1.2, np.inf, 1, 1.3, np.inf, 1])


def _upward() -> tuple[FloatArray, FloatArray]:
    """Variances of tracts and of the top by all that is measured below and there."""
    summed = np.bincount(PARENTS, LEAVES)
    tracts = 1.0 / (1.0 / TRACTS + 1.0 / summed)
    return tracts, np.array([1.0 / (1.0 / TOP + 1.0 / tracts.sum())])


def _solved(b: FloatArray, v: FloatArray, centre: FloatArray, used: FloatArray, total: float) -> FloatArray:
    """The least squares of one family by its KKT system."""
    n = len(b)
    system = np.ones((n + 1, n + 1))
    system[:n, :n] = np.diag(1.0 / v + 1.0 / used)
    system[n, n] = 0.0
    return np.linalg.solve(system, np.append(b / v + centre / used, total))[:n]


def _errors(sources: FloatArray) -> FloatArray:
    """Errors of 3 tracts and 9 leaves for noise on top (1), tracts (3), leaves (9) and distances z (3 and 9).

    All numbers are relative to a truth with persons T = 0, around which everything is linear.
    """
    top, tracts, leaves, z_tracts, z_leaves = np.split(sources, [1, 4, 13, 16])
    summed = np.bincount(PARENTS, LEAVES)
    below = np.bincount(PARENTS, leaves)
    v_tracts, v_top = _upward()
    b_tracts = v_tracts * (tracts / TRACTS + below / summed)
    b_top = v_top[0] * (top[0] / TOP + b_tracts.sum() / v_tracts.sum())
    # The truth is x_c = s_c x_u + z_c: errors are relative to it, so the centre is s_c e_u - z_c.
    e_tracts = _solved(b_tracts, v_tracts, TRACT_SHARES * b_top - z_tracts, TRACT_USED, b_top)
    e_leaves = np.concatenate(
        [
            _solved(leaves[own], LEAVES[own], SHARES[own] * e_tracts[u] - z_leaves[own], USED[own], e_tracts[u])
            for u, own in enumerate([u == PARENTS for u in range(3)])
        ]
    )
    return np.concatenate([e_tracts, e_leaves])


def _given_their_sum(spread: FloatArray, parents: FloatArray) -> FloatArray:
    same = parents[:, None] == parents[None, :]
    total = np.bincount(parents, spread)[parents]
    return np.diag(spread) - same * spread[:, None] * spread[None, :] / total[:, None]


def test_variances_are_those_of_the_estimator_applied_to_every_source_of_error() -> None:
    linear = np.stack([_errors(one) for one in np.eye(25)], axis=1)
    variance = np.zeros((25, 25))
    # Nothing is measured of the third tract itself: its noise has no weight.
    variance[:13, :13] = np.diag([TOP, *np.where(np.isfinite(TRACTS), TRACTS, 0.0), *LEAVES])
    variance[13:16, 13:16] = _given_their_sum(TRACT_SPREAD, np.zeros(3, dtype=np.int64))
    variance[16:, 16:] = _given_their_sum(SPREAD, PARENTS)
    expected = np.diag(linear @ variance @ linear.T)
    v_tracts, v_top = _upward()
    top = (np.zeros(3, dtype=np.int64), v_top)
    tracts = shared_variances(v_tracts, TRACT_SPREAD, TRACT_USED, TRACT_SHARES, top)
    leaves = shared_variances(LEAVES, SPREAD, USED, SHARES, (PARENTS, tracts))
    assert np.concatenate([tracts, leaves]) == pytest.approx(expected, rel=1e-9)


def test_without_terms_it_is_the_usual_recursion_and_with_nothing_measured_the_model() -> None:
    none, zero = np.full(9, np.inf), np.zeros(9)
    above = np.array([30.0, 20.0, 10.0])
    total = np.bincount(PARENTS, LEAVES)[PARENTS]
    usual = LEAVES - LEAVES**2 / total + (LEAVES / total) ** 2 * above[PARENTS]
    assert shared_variances(LEAVES, none, none, zero, (PARENTS, above)) == pytest.approx(usual)
    over = np.bincount(PARENTS, SPREAD)[PARENTS]
    model = SPREAD * (1 - SPREAD / over) + SHARES**2 * above[PARENTS]
    assert shared_variances(none, SPREAD, SPREAD, SHARES, (PARENTS, above)) == pytest.approx(model)
    assert np.isnan(shared_variances(none, none, none, zero, (PARENTS, above))).all()
