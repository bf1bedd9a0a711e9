"""Factors of large matrices: the same numbers as SciPy's, while other threads go on."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import lapack

from postprocess.families.cholesky import factor, inverse_of_factored, solve_factored

ROUTINES = {"d": (lapack.dpotrf, lapack.dpotri, lapack.dpotrs), "f": (lapack.spotrf, lapack.spotri, lapack.spotrs)}


def definite(n: int, precision: str) -> np.ndarray:
    """A random matrix with eigenvalues from 1 on."""
    root = np.random.default_rng(n).normal(size=(n, n // 2))
    return (root @ root.T + np.eye(n)).astype(precision)


@pytest.mark.parametrize("precision", ["d", "f"])
@pytest.mark.parametrize("n", [1, 70, 301])
def test_numbers_are_those_of_scipy(n: int, precision: str) -> None:
    matrix, right = definite(n, precision), np.arange(n, dtype=np.float64)
    factored, inverted, solved = ROUTINES[precision]
    expected, _ = factored(matrix.T, lower=1, clean=0)
    own = matrix.copy()
    assert factor(own)
    assert np.array_equal(own, expected.T)
    assert np.array_equal(solve_factored(own, right), solved(expected, right.astype(precision), lower=1)[0])
    assert inverse_of_factored(own)
    assert np.array_equal(own, inverted(expected, lower=1)[0].T)
    assert np.allclose(np.triu(own), np.triu(np.linalg.inv(matrix.astype(np.float64))), atol=1e-3)


def test_what_is_not_definite_has_no_factor() -> None:
    assert not factor(np.diag([1.0, -1.0]))
    assert not inverse_of_factored(np.diag([1.0, 0.0]))
    with pytest.raises(ValueError, match=r"potrf: found a matrix \(2, 3\)"):
        factor(np.ones((2, 3)))
