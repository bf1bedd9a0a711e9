"""The joint linear estimate equals dense least squares over all cliques and areas, with its variances."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from features.marginals.cliques import AttributeSizes, Clique, marginal
from features.marginals.linear import NoisyTable, downward, upward

DOMAIN = AttributeSizes(("a", "b", "c"), (2, 3, 2))
#: Two parents; the first has three leaves, the second two.
PARENTS = [np.zeros(2, dtype=np.int64), np.array([0, 0, 0, 1, 1])]
SIZES = [1, 2, 5]


def _summing(clique: Clique, domain: AttributeSizes = DOMAIN) -> NDArray[np.float64]:
    """The matrix from cells of the whole schema, which is small here, to those of a clique's table."""
    cells = np.eye(domain.size(range(len(domain.names))))
    return marginal(cells, tuple(range(len(domain.names))), clique, domain).T.astype(np.float64)


def _random_levels(seed: int, cliques: list[list[Clique]]) -> list[list[NoisyTable]]:
    rng = np.random.default_rng(seed)
    return [
        [
            NoisyTable(clique, rng.integers(-5, 50, (n, DOMAIN.size(clique))), rng.uniform(0.5, 9.0, n))
            for clique in declared
        ]
        for n, declared in zip(SIZES, cliques, strict=True)
    ]


def _dense(levels: list[list[NoisyTable]], clique: Clique) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Estimates and variances of a clique's table at each level, by a dense pseudo-inverse over all leaves' cells."""
    n_leaves = SIZES[-1]
    above = [np.eye(n_leaves)]
    for parent, n in zip(reversed(PARENTS), reversed(SIZES[:-1]), strict=True):
        matrix = np.zeros((n, len(parent)))
        matrix[parent, np.arange(len(parent))] = 1.0
        above.insert(0, matrix @ above[0])
    rows, right = [], []
    for of_leaves, measurements in zip(above, levels, strict=True):
        for one in measurements:
            for area in range(len(of_leaves)):
                weight = 1.0 / np.sqrt(one.variance[area])
                rows.append(weight * np.kron(of_leaves[area], _summing(one.clique)))
                right.append(weight * one.values[area])
    matrix = np.vstack(rows)
    covariance = np.linalg.pinv(matrix.T @ matrix, hermitian=True)
    estimate = covariance @ matrix.T @ np.concatenate(right)
    out = []
    for of_leaves in above:
        asked = np.kron(of_leaves, _summing(clique))
        shape = len(of_leaves), DOMAIN.size(clique)
        out.append(((asked @ estimate).reshape(shape), np.diag(asked @ covariance @ asked.T).reshape(shape)))
    return out


@pytest.mark.parametrize(
    "cliques",
    [
        [[(0, 1), (1, 2)], [(0, 1), (1, 2)], [(0, 1), (1, 2)]],
        [[(0, 1, 2)], [(0, 1), (1, 2)], [(0, 1), (1, 2), (1,)]],
        [[(0, 1), (0, 2), (1, 2)], [(0,), (1, 2)], [(0, 1), (1, 2)]],
        [[], [(0, 1), (1, 2)], [(0, 1), (1, 2)]],
    ],
)
def test_estimates_and_variances_are_those_of_dense_least_squares(cliques: list[list[Clique]]) -> None:
    levels = _random_levels(1, cliques)
    estimates = downward(upward(levels, PARENTS, DOMAIN, SIZES), PARENTS)
    for clique in [(), (1,), (0, 1), (1, 2)]:
        for level, (dense, variances) in zip(estimates, _dense(levels, clique), strict=True):
            np.testing.assert_allclose(level.table(clique), dense, atol=1e-8)
            of_cells = np.broadcast_to(level.variances(clique)[:, None], variances.shape)
            np.testing.assert_allclose(of_cells, variances, rtol=1e-9)


def test_a_level_without_some_cliques_takes_them_from_its_parents_as_far_as_they_go() -> None:
    # Only the top has the pair of a and b: the leaves are estimated with no residual of it, which nothing determines.
    levels = _random_levels(2, [[(0, 1), (1, 2)], [(0,), (1, 2)], [(0,), (1, 2)]])
    up = upward(levels, PARENTS, DOMAIN, SIZES)
    estimates = downward(up, PARENTS)
    assert np.isinf(estimates[2].variances((0, 1))).all()
    for level, (dense, variances) in zip(estimates, _dense(levels, (1, 2)), strict=True):
        np.testing.assert_allclose(level.table((1, 2)), dense, atol=1e-8)
        np.testing.assert_allclose(level.variances((1, 2)), variances[:, 0], rtol=1e-9)
    top, variances = _dense(levels, (0, 1))[0]
    np.testing.assert_allclose(estimates[0].table((0, 1)), top, atol=1e-8)
    np.testing.assert_allclose(estimates[0].variances((0, 1)), variances[:, 0], rtol=1e-9)
    for parent, (level, below) in zip(PARENTS, pairwise(estimates), strict=True):
        sums = np.zeros_like(level.table((0, 1)))
        np.add.at(sums, parent, below.table((0, 1)))
        np.testing.assert_allclose(sums, level.table((0, 1)), atol=1e-8)


# -- another estimator ------------------------------------------------------------------------------------------------
