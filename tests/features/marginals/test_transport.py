"""Two-way tables with given sums: solutions equal cvxpy's, whole numbers the best; and how alike areas are."""

from __future__ import annotations

from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray

from features.marginals.transport import (
    ExpectedCells,
    Shrinkage,
    TwoWayTables,
    centred,
    nearest,
    project_columns,
    round_columns,
    round_tables,
)


def _tables(seed: int, shape: tuple[int, int, int], most: int = 20) -> TwoWayTables:
    """Random ones, some rows and columns of which are empty; estimates are the truth with much noise."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, most, shape) * (rng.random(shape) < 0.4)
    truth[0, -1], truth[0, :, -1] = 0, 0
    variance = np.broadcast_to(rng.uniform(0.2, 5.0, (*shape[:2], 1)), shape)
    return TwoWayTables(truth + rng.normal(0, 6, shape), variance, truth.sum(axis=2), truth.sum(axis=1))


def _by_cvxpy(tables: TwoWayTables, number: int) -> NDArray[np.float64]:
    x = cp.Variable(tables.estimate.shape[1:], nonneg=True)
    weights = 1.0 / np.sqrt(tables.variance[number])
    sums = [cp.sum(x, axis=1) == tables.rows[number], cp.sum(x, axis=0) == tables.columns[number]]
    objective = cp.sum_squares(cp.multiply(weights, x - tables.estimate[number]))
    cp.Problem(cp.Minimize(objective), sums).solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11)
    return np.asarray(x.value)


@pytest.mark.parametrize("shape", [(6, 3, 7), (6, 8, 3), (4, 5, 5), (3, 1, 4), (3, 4, 1), (2, 6, 40)])
def test_solutions_are_those_of_another_solver(shape: tuple[int, int, int]) -> None:
    tables = _tables(1, shape)
    x = nearest(tables)
    np.testing.assert_allclose(x.sum(axis=2), tables.rows, atol=1e-6)
    np.testing.assert_allclose(x.sum(axis=1), tables.columns, atol=1e-6)
    assert x.min() >= 0
    for number in range(len(x)):
        np.testing.assert_allclose(x[number], _by_cvxpy(tables, number), atol=2e-4)


def _all_with_sums(rows: list[int], columns: list[int]) -> list[NDArray[np.int64]]:
    """All whole-number tables with these sums, by going through all rows."""
    if not rows:
        return [np.zeros((0, len(columns)), dtype=np.int64)] if not any(columns) else []
    out = []
    for first in product(*(range(min(rows[0], column) + 1) for column in columns)):
        if sum(first) == rows[0]:
            left = [column - taken for column, taken in zip(columns, first, strict=True)]
            out += [np.vstack([[first], rest]) for rest in _all_with_sums(rows[1:], left)]
    return out


@pytest.mark.parametrize("seed", range(25))
def test_whole_numbers_next_to_the_solution_are_there_and_are_the_nearest_of_all(seed: int) -> None:
    tables = _tables(100 + seed, (1, 3, 4), most=4)
    x = nearest(tables)
    rounded = round_tables(x, tables, np.zeros(x.shape, dtype=np.int64))[0]
    near = [
        table
        for table in _all_with_sums(tables.rows[0].tolist(), tables.columns[0].tolist())
        if np.abs(table - x[0]).max() < 1 + 1e-6
    ]
    assert any((table == rounded).all() for table in near)

    def away(table: NDArray[np.int64]) -> float:
        return float(((table - x[0]) ** 2).sum())

    assert away(rounded) <= min(map(away, near)) + 1e-3


def test_columns_alone_are_projected_as_by_another_solver_and_rounded_to_their_sums() -> None:
    rng = np.random.default_rng(4)
    estimate, variance = rng.normal(2, 5, (5, 4, 3)), rng.uniform(0.2, 5.0, (5, 4, 3))
    allowed = rng.random((5, 4, 3)) < 0.7
    allowed[:, 0] = True
    columns = rng.integers(0, 15, (5, 3))
    x = project_columns(estimate, variance, allowed, columns)
    for table, column in product(range(5), range(3)):
        own = cp.Variable(4, nonneg=True)
        objective = cp.sum_squares(
            cp.multiply(1 / np.sqrt(variance[table, :, column]), own - estimate[table, :, column])
        )
        limits = [cp.sum(own) == columns[table, column], own[~allowed[table, :, column]] == 0]
        cp.Problem(cp.Minimize(objective), limits).solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11)
        np.testing.assert_allclose(x[table, :, column], own.value, atol=1e-4)
    rounded = round_columns(x, allowed, columns, np.zeros(x.shape, dtype=np.int64))
    np.testing.assert_array_equal(rounded.sum(axis=1), columns)
    assert not rounded[~allowed].any()
    assert np.abs(rounded - x).max() < 1


# -- how alike areas are ----------------------------------------------------------------------------------------------


Floats = NDArray[np.float64]
NOISE = 25.0


def _numbers(spread: float, n: int = 60_000, seed: int = 1) -> tuple[Floats, Floats, ExpectedCells]:
    """Expectations of one class, numbers spread around them, and the same with noise."""
    rng = np.random.default_rng(seed)
    m = rng.uniform(20.0, 40.0, n)
    truth = np.maximum(m + spread * m * rng.normal(size=n), 0.0)
    return m, truth, ExpectedCells(m, truth + np.sqrt(NOISE) * rng.normal(size=n), np.full(n, NOISE), np.ones(n))


def _uniform(n: int) -> list[Floats]:
    rng = np.random.default_rng(9)
    return [rng.random(n), rng.random(n)]


@pytest.mark.parametrize("spread", [0.3, 0.6])
def test_the_mean_errs_as_the_best_linear_one_and_knows_by_how_much(spread: float) -> None:
    m, truth, cells = _numbers(spread)
    mean, variance = Shrinkage.of([cells]).mean(cells)
    prior = m + (spread * m) ** 2
    known = np.mean(((cells.estimate * (prior - m) + m * NOISE) / (prior - m + NOISE) - truth) ** 2)
    error = float(np.mean((mean - truth) ** 2))
    assert error < 1.04 * known
    assert float(variance.mean()) == pytest.approx(error, rel=0.1)


def test_a_number_that_contradicts_its_expectation_keeps_its_measurement() -> None:
    """One in two hundred is eight times what is expected: a normal spread for all would take most of that away."""
    rng = np.random.default_rng(3)
    m = np.full(40_000, 10.0)
    strange = rng.random(len(m)) < 0.005
    truth = np.where(strange, 80.0, m + np.sqrt(m) * rng.normal(size=len(m)))
    y = truth + 5.0 * rng.normal(size=len(m))
    mean, _ = Shrinkage.of([one := ExpectedCells(m, y, np.full(len(m), NOISE), np.ones(len(m)))]).mean(one)
    assert abs(np.mean((mean - truth)[strange])) < 2.0
    spread = float(np.mean((y - m) ** 2)) - NOISE
    normal = m + (y - m) * spread / (spread + NOISE)
    assert np.mean((normal - truth)[strange]) < -15.0
    assert np.mean((mean - truth)[~strange] ** 2) < 1.05 * 10 * NOISE / (10 + NOISE)


@pytest.mark.parametrize("spread", [0.3, 0.6])
def test_what_is_drawn_varies_as_the_truth_and_neither_the_mean_nor_the_measurement_does(spread: float) -> None:
    m, truth, cells = _numbers(spread)
    shrinkage = Shrinkage.of([cells])
    of_truth = float(np.std(truth - m))
    drawn, _ = shrinkage.drawn(cells, _uniform(len(m)))
    assert float(np.std(drawn - m)) == pytest.approx(of_truth, rel=0.03)
    assert float(np.std(shrinkage.mean(cells)[0] - m)) < 0.98 * of_truth
    assert float(np.std(cells.estimate - m)) > 1.03 * of_truth


def test_where_sums_are_held_draws_vary_as_the_truth_once_they_are_held() -> None:
    """Parts of 3 of 100: the deviations have two dimensions, and so has the noise that is left."""
    rng = np.random.default_rng(5)
    n = 30_000
    away = rng.normal(0.0, 9.0, (n, 3, 1))
    away -= away.mean(axis=1, keepdims=True)
    y, free = centred(away + np.sqrt(NOISE) * rng.normal(size=away.shape), np.ones(away.shape, bool), of_rows=False)
    m = np.full(away.shape, 100 / 3)
    cells = ExpectedCells(m, m + y, np.full(away.shape, NOISE), free)
    drawn, _ = Shrinkage.of([cells]).drawn(cells, [one.reshape(away.shape) for one in _uniform(away.size)])
    held = drawn - drawn.mean(axis=1, keepdims=True)
    assert float(held.std()) == pytest.approx(float(away.std()), rel=0.03)
