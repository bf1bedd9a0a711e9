"""How alike areas are is found again from noisy numbers; contradicted expectations go, draws vary as truth."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from features.marginals.transport import ExpectedCells, Shrinkage, centred

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


def test_centred_deviations_are_those_beside_the_held_sums() -> None:
    rng = np.random.default_rng(6)
    used = np.zeros((1, 4, 3), bool)
    used[:, :3] = True
    out, free = centred(rng.normal(size=used.shape), used)
    np.testing.assert_allclose(out.sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(out.sum(axis=2), 0.0, atol=1e-12)
    np.testing.assert_allclose(free[used], (1 - 1 / 3) * (1 - 1 / 3))
    # The part that is left of the variance, by dense algebra.
    centre = np.eye(3) - 1 / 3
    np.testing.assert_allclose(np.diag(np.kron(centre, centre)), free[0, :3].ravel())
