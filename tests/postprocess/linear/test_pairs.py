"""Covariances of pairs of geounits from their factors equal those of dense generalised least squares."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from oracles.dense import dense_covariance, leaves_below
from oracles.random_problems import random_problem

from geography.spine import Spine
from postprocess.linear.classes import geounit_classes
from postprocess.linear.expected import covariances
from postprocess.linear.pairs import PairFactors, pair_factors
from postprocess.linear.upward import basis_of
from postprocess.marginal import Marginal


def common(spine: Spine, first: tuple[int, int], second: tuple[int, int]) -> int:
    """The level of the last geounit above both, or of one that is above the other; -1 where there is none."""
    paths = []
    for level, row in (first, second):
        path = [row]
        for number in range(level, 0, -1):
            path.append(int(spine.levels[number].parents[path[-1]]))
        paths.append(path[::-1])
    return sum(itertools.accumulate((a == b for a, b in zip(*paths, strict=False)), min)) - 1


@pytest.mark.parametrize("seed", range(6))
def test_equals_dense_least_squares(seed: int) -> None:
    """Answers with one and with several rows, of every pair of geounits of any levels, with one, and with two roots."""
    problem, _ = random_problem(
        seed, zeros=seed % 2 == 0, invariants=seed % 3 == 0, roots=1 + seed % 2, shape=(3, 2, 2), n_levels=3
    )
    spine, basis = problem.spine, basis_of(problem)
    classes = geounit_classes(problem, basis)
    own = [basis.precision([(one.marginal, one.variance) for one in level])[None] for level in problem.measured]
    found = covariances(classes, own, "full")
    dense = dense_covariance(problem)
    marginal = Marginal("whole", tuple(np.arange(n) for n in problem.shape))
    parts = basis.answer_factors(marginal)[1]
    places = basis.answer_order(marginal)
    sizes = np.sqrt(parts[0] * math.prod(basis.symmetric_shape))
    by_level = [pair_factors(basis, classes, found, level, marginal) for level in range(spine.n_levels)]

    def answers(block_rows: np.ndarray) -> np.ndarray:
        return np.asarray((block_rows[:, :, None] * parts[:, None, :]).sum(axis=0).ravel()[places])

    units = [(level, row) for level in range(spine.n_levels) for row in range(len(spine.levels[level]))]
    inside = {unit: np.isin(np.arange(spine.n_leaves), leaves_below(spine, *unit)).astype(float) for unit in units}
    cells = np.eye(math.prod(problem.shape))
    for one, other in itertools.combinations_with_replacement(units, 2):
        depth = common(spine, one, other)
        upper, lower = sorted((one, other))
        left, right = (classes[level].downward[row] for level, row in (lower, upper))
        factors: PairFactors = by_level[lower[0]]
        n_rows = factors.nested.shape[-1]
        n_rows -= n_rows > 1
        if depth < 0:
            ours = np.zeros(len(cells))
        elif depth == upper[0]:
            ours = answers(factors.nested[left, depth, :, :n_rows])
        else:
            products = factors.shared[left, depth] * by_level[upper[0]].shared[right, depth]
            ours = answers(-products.sum(axis=-1)[:, :n_rows])
        first, second = (np.kron(inside[unit], cells) for unit in (one, other))
        np.testing.assert_allclose(ours, (first @ dense * second).sum(axis=1), rtol=1e-6, atol=1e-6)
        # Each answer with the whole of the other, the mean of both ways.
        if depth < 0:
            with_whole = np.zeros(n_rows)
        elif depth == upper[0]:
            with_whole = factors.crossed[left, depth, :n_rows]
        else:
            here, there = factors.shared[left, depth, 0], by_level[upper[0]].shared[right, depth, 0]
            with_whole = -0.5 * (here @ there[-1] + there @ here[-1])[:n_rows]
        ours = (with_whole[:, None] * sizes[None, :]).ravel()[places]
        whole = [np.kron(inside[unit], np.ones(len(cells))) for unit in (one, other)]
        expected = 0.5 * (first @ dense @ whole[1] + second @ dense @ whole[0])
        np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-6)
