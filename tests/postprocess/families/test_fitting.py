"""Proportional fitting gives the table of most entropy, by a conic solver, and has the sums that it is scaled to."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from postprocess.families.fitting import FittedSums, fitted, scaled
from postprocess.marginal import Marginal


def marginal(name: str, *groups: list[int]) -> Marginal:
    return Marginal(name, tuple(np.array(group, dtype=np.int64) for group in groups))


def family(seed: int, n_children: int = 3) -> tuple[np.ndarray, list[FittedSums]]:
    """Tables 3 x 2 x 2 of children, and sums of theirs that cross: first by second, second by third, first."""
    rng = np.random.default_rng(seed)
    leaves = rng.integers(1, 40, (n_children, 12))
    queries = [
        marginal("ab", [0, 1, 2], [0, 1], [0, 0]),
        marginal("bc", [0, 0, 0], [0, 1], [0, 1]),
        marginal("c", [0, 0, 0], [0, 0], [0, 1]),
    ]
    given = np.ones(n_children, dtype=bool)
    return leaves, [FittedSums(query, query.answer(leaves).astype(float), given) for query in queries]


def most_entropy(leaves: np.ndarray, sums: list[FittedSums]) -> np.ndarray:
    """Of all tables with these sums and this parent the one of most entropy, by a conic solver."""
    x = cp.Variable(leaves.shape)
    limits = [cp.sum(x, axis=0) == leaves.sum(axis=0)]
    for one in sums:
        indicator = np.eye(one.marginal.size)[one.marginal.cell_answer]
        limits.append(x @ indicator == one.values)
    cp.Problem(cp.Maximize(cp.sum(cp.entr(x))), limits).solve(solver="CLARABEL")
    return np.asarray(x.value)


@pytest.mark.parametrize("seed", range(2))
def test_it_is_the_completion_of_maximum_entropy(seed: int) -> None:
    leaves, sums = family(seed)
    possible = np.ones((len(leaves), 1), dtype=bool)
    parents = sp.csr_array(leaves.sum(axis=0)[None, :])
    tables = fitted(parents, np.array([0, len(leaves)]), sums, possible, np.zeros(12, dtype=np.int64))
    oracle = most_entropy(leaves, sums)
    assert np.abs(tables - oracle).max() < 0.01
    assert np.abs(tables - leaves.sum(axis=0) / 3).max() > 1.0  # the oracle tells it from an even split
    np.testing.assert_allclose(tables.sum(axis=0), leaves.sum(axis=0), rtol=1e-12)
    for one in sums:
        np.testing.assert_allclose(one.marginal.answer(tables), one.values, atol=0.01)


def test_numbers_in_proportion_have_the_sums_that_are_wanted() -> None:
    found = scaled(np.array([1.0, 3.0, 0.0, 2.0]), np.array([0, 0, 1, 2]), np.array([8, 5, 1, 4]))
    assert found.tolist() == [2.0, 6.0, 0.0, 1.0]
