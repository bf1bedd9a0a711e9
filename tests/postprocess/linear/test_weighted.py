"""Variances and covariances of weighted sums equal those of dense generalised least squares over the whole spine."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.dense import dense_covariance, leaves_below
from oracles.random_problems import random_problem

from postprocess.algebra import Basis
from postprocess.linear import weighted
from postprocess.linear.classes import geounit_classes
from postprocess.linear.expected import covariances
from postprocess.linear.upward import basis_of
from postprocess.linear.weighted import moments, of_leaves, of_level, product_form


def flat(weights: tuple[np.ndarray, ...]) -> np.ndarray:
    """Weights on all cells, `(k, n_cells)`, from those on the values of each attribute."""
    out = np.ones((len(weights[0]), 1))
    for one in weights:
        out = (out[:, :, None] * one[:, None, :]).reshape(len(out), -1)
    return out


@pytest.mark.parametrize("seed", range(10))
def test_equals_dense_least_squares(seed: int) -> None:
    """Real weights on cells and on leaves, with zeros, invariants and several roots."""
    problem, _ = random_problem(
        seed, zeros=seed % 2 == 0, invariants=seed % 3 == 0, roots=1 + seed % 2, shape=(3, 2, 2), n_levels=3
    )
    spine, basis = problem.spine, basis_of(problem)
    classes = geounit_classes(problem, basis)
    own = [basis.precision([(one.marginal, one.variance) for one in level])[None] for level in problem.measured]
    found = covariances(classes, own, "full")
    dense = dense_covariance(problem)
    rng = np.random.default_rng(seed)
    left, right = (tuple(rng.normal(size=(4, n)) for n in problem.shape) for _ in range(2))

    def compare(got: tuple[np.ndarray, ...], leaves: np.ndarray) -> None:
        rows = [np.kron(leaves, flat(weights)) for weights in (left, right)]
        for ours, (one, other) in zip(got, ((0, 0), (1, 1), (0, 1)), strict=True):
            expected = (rows[one] @ dense * rows[other]).sum(axis=1)
            np.testing.assert_allclose(ours, expected, rtol=1e-7, atol=1e-6)

    for level, one in enumerate(classes):
        ours = moments(basis, of_level(one, found[level]), left, right)
        for i in range(len(spine.levels[level])):
            inside = np.isin(np.arange(spine.n_leaves), leaves_below(spine, level, i)).astype(float)
            compare(tuple(part[one.downward[i]] for part in ours), inside)
    for signs in ((0, 1), (-1, 0, 1), (-2, 0.5, 3)):
        leaves = rng.choice(np.array(signs, dtype=float), spine.n_leaves)
        got = moments(basis, of_leaves(spine, classes, found, leaves), left, right)
        compare(tuple(part[0] for part in got), leaves)


def test_sums_that_differ_in_symmetric_attributes_alone_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As blocks of many rows do: compared with the matrices of all cells."""
    monkeypatch.setattr(weighted, "LARGE", 0)
    rng = np.random.default_rng(0)
    shape = (5, 3, 2)
    basis = Basis(shape, (1, 2))
    blocks = rng.normal(size=(3, basis.n_blocks, 5, 5))
    blocks += np.swapaxes(blocks, -1, -2)
    left, right = (tuple(rng.integers(-1, 2, (12, n)).astype(float) for n in shape) for _ in range(2))
    left = (left[0][np.arange(12) % 2], *left[1:])
    right = (right[0][np.arange(12) % 4], *right[1:])
    matrices = basis.restricted(blocks, np.arange(30))
    expected = np.stack([(flat(left) @ matrix * flat(right)).sum(axis=1) for matrix in matrices])
    np.testing.assert_allclose(product_form(basis, blocks, left, right), expected, rtol=1e-9, atol=1e-9)


def test_what_invariants_fix_has_no_variance() -> None:
    problem, _ = random_problem(3, invariants=True, shape=(3, 2, 2), n_levels=2)
    basis = basis_of(problem)
    classes = geounit_classes(problem, basis)
    own = [basis.precision([(one.marginal, one.variance) for one in level])[None] for level in problem.measured]
    found = covariances(classes, own, "full")
    everybody = tuple(np.ones((1, n)) for n in problem.shape)
    some = (np.array([[1.0, 0, 0]]), *everybody[1:])
    of_all, of_some, both = moments(basis, of_level(classes[0], found[0]), everybody, some)
    assert (of_all == 0).all()
    assert (both == 0).all()
    assert (of_some > 0.1).all()


def test_what_is_not_measured_is_not_determined() -> None:
    unknown = 0
    for seed in range(12):
        problem, _ = random_problem(seed, complete=False, n_levels=2, shape=(3, 2))
        basis = basis_of(problem)
        classes = geounit_classes(problem, basis)
        own = [basis.precision([(one.marginal, one.variance) for one in level])[None] for level in problem.measured]
        found = covariances(classes, own, "full")
        one_cell, everybody = (np.eye(3)[:1], np.eye(2)[:1]), (np.ones((1, 3)), np.ones((1, 2)))
        left, _, both = moments(basis, of_level(classes[1], found[1]), one_cell, everybody)
        unknown += int(np.isnan(left).any())
        assert (np.isnan(both) >= np.isnan(left)).all()
    assert unknown > 2
