"""What rounding leaves of a precision is no direction that something was measured of."""

from __future__ import annotations

import numpy as np
import pytest

from postprocess.linear.information import information, range_projector


def turned(size: int, seed: int) -> np.ndarray:
    """A projector on a direction that no cell has alone."""
    direction = np.random.default_rng(seed).normal(size=size)
    direction /= np.linalg.norm(direction)
    return np.outer(direction, direction)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
@pytest.mark.parametrize("size", [3, 40])
def test_all_that_is_measured_is_known(size: int, scale: float) -> None:
    """The rest is unmeasured, all of it, and no variance is found in what rounding left."""
    known = np.stack([turned(size, seed) for seed in range(200)])[:, None]
    found = information(scale * known, known, own_is_full=False)
    assert np.allclose(np.trace(found.unmeasured, axis1=-2, axis2=-1), size - 1)
    assert np.allclose(found.unmeasured, np.eye(size) - known, atol=1e-8)
    assert not np.abs(found.covariance).max() > 1e-9 / scale


@pytest.mark.parametrize("ratio", [1e-3, 1e-9, 1e-11])
def test_a_small_precision_beside_a_large_one_is_measured(ratio: float) -> None:
    """A known direction of great precision does not hide what little was spent on another."""
    known = np.diag([1.0, 0.0, 0.0])[None, None]
    found = information(np.diag([1.0, ratio, 0.0])[None, None], known, own_is_full=False)
    assert np.allclose(found.unmeasured[0, 0], np.diag([0.0, 0.0, 1.0]))
    assert np.isclose(found.covariance[0, 0, 1, 1], 1 / ratio)


def test_the_range_of_rounding_is_empty() -> None:
    """Of a product of projectors that leaves nothing but rounding."""
    projectors = np.stack([turned(40, seed) for seed in range(200)])
    kept = np.eye(40) - projectors
    assert not range_projector(kept @ projectors @ kept).any()
