"""The joint linear estimate equals dense least squares over all cliques and areas, with its variances."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles.clique_population import Population, population

from features.marginals.cliques import AttributeSizes, Clique, cell_variances, marginal, residuals, subsets, table
from features.marginals.intervals import CliqueDesign
from features.marginals.linear import KnownResidual, NoisyTable, combined, downward, upward
from features.marginals.whole import Seed
from pipeline.privacy.budget import NoiseSpec

DOMAIN = AttributeSizes(("a", "b", "c"), (2, 3, 2))
N_CELLS = 12
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


def test_variances_of_cells_are_the_diagonal_of_the_dense_covariance() -> None:
    rng = np.random.default_rng(6)
    variances = {part: rng.uniform(0.1, 5.0, 1) for part in subsets((0, 1, 2))}
    covariance = np.zeros((N_CELLS, N_CELLS))
    for part, v in variances.items():
        spread = np.stack([table({part: residuals(row[None, :], (0, 1, 2), DOMAIN)[part]}, (0, 1, 2), DOMAIN)[0]
                           for row in np.eye(N_CELLS)])  # fmt: skip
        # Spread over the cells that are summed, the projector's variance is divided by their number.
        covariance += v[0] * spread / (N_CELLS // DOMAIN.size(part))
    np.testing.assert_allclose(np.diag(covariance), cell_variances(variances, (0, 1, 2), DOMAIN)[0])


def test_what_is_exact_or_unknown_is_combined_as_it_is() -> None:
    first = KnownResidual(np.array([[1.0], [1.0], [1.0], [1.0]]), np.array([0.0, np.inf, np.inf, 2.0]))
    second = KnownResidual(np.array([[2.0], [2.0], [2.0], [2.0]]), np.array([3.0, 3.0, np.inf, 2.0]))
    both = combined(first, second)
    assert both.variance.tolist() == [0.0, 3.0, np.inf, 1.0]
    assert both.values[[0, 1, 3], 0].tolist() == [1.0, 2.0, 1.5]


# -- another estimator ------------------------------------------------------------------------------------------------


def _measured(people: Population) -> tuple[CliqueDesign, dict[tuple[int, ...], np.ndarray]]:
    noise = dict.fromkeys(people.tree.bags, NoiseSpec("discrete_gaussian", Fraction(1200)))
    rng = np.random.default_rng(1)
    truth = {bag: people.table(bag, 0) for bag in people.tree.bags}
    tables = {bag: table + rng.integers(-60, 61, table.shape) for bag, table in truth.items()}
    return CliqueDesign(people.tree, (), [noise]), tables


def test_another_estimator_finds_the_same_of_our_measurements() -> None:
    """Where all cells have many persons, the model nearest to the measurements is the least-squares estimate."""
    mbi = pytest.importorskip("mbi", reason="mbi is not installed (2.0 or later)")
    import jax

    jax.config.update("jax_enable_x64", True)
    from mbi import estimation

    people = population(1, n=20_000)
    values = np.random.default_rng(2).integers(0, people.tree.domain.sizes, people.records.values.shape)
    people = replace(people, records=replace(people.records, values=values))
    design, tables = _measured(people)
    domain = people.tree.domain
    measurements = [
        mbi.LinearMeasurement(
            table[0].astype(float), domain.named(clique), stddev=math.sqrt(design.noise[0][clique].variance)
        )
        for clique, table in tables.items()
    ]
    release = design.release([tables], Seed(1))
    model = estimation.LBFGS().estimate(mbi.Domain(domain.names, domain.sizes), measurements, iters=400)
    for bag in people.tree.bags:
        assert people.table(bag, 0).min() > 700
        theirs = np.asarray(model.project(tuple(people.tree.domain.names[a] for a in bag)).datavector())
        ours = release.estimates[0].table(bag)[0]
        np.testing.assert_allclose(theirs, ours, atol=1e-6)
        assert np.abs(tables[bag][0] - ours).mean() > 2.0
