"""Exact least squares over areas and periods, the model of change, its intervals, and whole numbers in every period."""

from __future__ import annotations

from collections.abc import Sequence

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray
from oracles.dense import leaves_below
from oracles.random_problems import random_spine

from features.years.design import Design
from features.years.history import (
    VERDICTS,
    ChangeModel,
    ExactAnswers,
    LevelHistory,
    PeriodNumbers,
    SeriesQuery,
    change_of,
    change_precisions,
    histories,
    intervals,
    numbers_of,
    whole_histories,
)
from geography.spine import Level, Spine

Floats = NDArray[np.float64]
DESIGN = Design(((64,), (-30, 70), (3, -33, 71)), 2, "change-one")
PERIODS, CELLS = 3, 2


def some_measured(spine: Spine, seed: int) -> list[list[SeriesQuery]]:
    """Both cells of every geounit, and the total of every second level."""
    rng = np.random.default_rng(seed)
    found = []
    for depth, level in enumerate(spine.levels):
        queries = [SeriesQuery(np.eye(CELLS), rng.normal(50, 20, (PERIODS, len(level), CELLS)), 4000.0 * (1 + depth))]
        if depth % 2:
            queries.append(SeriesQuery(np.ones((1, CELLS)), rng.normal(90, 20, (PERIODS, len(level), 1)), 2500.0))
        found.append(queries)
    return found


def some_changes(spine: Spine, seed: int) -> list[Floats | None]:
    """Positive semidefinite precisions of every level but the top, different for each geounit."""
    rng = np.random.default_rng(seed)
    size = PERIODS * CELLS
    found: list[Floats | None] = [None]
    for level in spine.levels[1:]:
        roots = rng.normal(0, 0.1, (len(level), size, size - 2))
        shape = (len(level), PERIODS, CELLS, PERIODS, CELLS)
        found.append(np.matmul(roots, roots.transpose(0, 2, 1)).reshape(shape))
    return found


def dense(
    spine: Spine, design: Design, measured: Sequence[Sequence[SeriesQuery]], changes: Sequence[Floats | None]
) -> tuple[Floats, Floats]:
    """Estimate and covariance of all leaves' cells in all periods, by one system of equations."""
    size, periods = spine.n_leaves * CELLS, design.periods
    precision, linear = np.zeros((size * periods, size * periods)), np.zeros(size * periods)
    inverse = np.linalg.inv(np.linalg.inv(design.gram.astype(float)))
    for depth, level in enumerate(spine.levels):
        for unit in range(len(level)):
            inside = np.isin(np.arange(spine.n_leaves), leaves_below(spine, depth, unit)).astype(float)
            for query in measured[depth]:
                rows = np.kron(np.eye(periods), np.kron(inside, query.matrix))  # (period, answer)
                weight = np.kron(inverse, np.eye(len(query.matrix))) / query.variance
                precision += rows.T @ weight @ rows
                linear += rows.T @ weight @ query.values[:, unit].ravel()
            change = changes[depth]
            if change is not None:
                rows = np.kron(np.eye(periods), np.kron(inside, np.eye(CELLS)))
                precision += rows.T @ change[unit].reshape(periods * CELLS, -1) @ rows
    covariance = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    return covariance @ linear, covariance


@pytest.mark.parametrize("model", [False, True])
@pytest.mark.parametrize(("seed", "depth"), [(1, None), (2, None), (1, 2), (2, 1), (3, 0)])
def test_history_is_dense_least_squares(seed: int, depth: int | None, model: bool) -> None:
    """Estimates and covariances of every geounit of every level, over periods and cells, also under known totals.

    Those of a level are known in every period, and so are those above it. A planted fault, other totals, is another
    estimate.
    """
    spine = random_spine(np.random.default_rng(seed), 3, roots=1 + seed % 2)
    measured = some_measured(spine, seed)
    changes = some_changes(spine, seed) if model else None
    mean, covariance = dense(spine, DESIGN, measured, changes or [None] * 3)
    exact: list[ExactAnswers | None] = [None] * 3
    if depth is not None:
        n = len(spine.levels[depth])
        sums = np.random.default_rng(seed).integers(50, 150, (PERIODS, n, 1)).astype(float)
        inside = np.array([np.isin(np.arange(spine.n_leaves), leaves_below(spine, depth, i)) for i in range(n)])
        rows = np.kron(np.eye(PERIODS), np.kron(inside.astype(float), np.ones((1, CELLS))))
        gain = covariance @ rows.T @ np.linalg.inv(rows @ covariance @ rows.T)
        mean, covariance = mean + gain @ (sums.ravel() - rows @ mean), covariance - gain @ rows @ covariance
        for level in range(depth, -1, -1):
            exact[level] = ExactAnswers(np.ones((1, CELLS)), sums)
            above = np.zeros((PERIODS, len(spine.levels[level - 1]), 1))
            np.add.at(above.transpose(1, 0, 2), spine.levels[level].parents, sums.transpose(1, 0, 2))
            sums = above
    size = PERIODS * CELLS
    for level, history in enumerate(histories(spine, DESIGN, measured, changes, None if depth is None else exact)):
        for unit in range(len(spine.levels[level])):
            below = np.isin(np.arange(spine.n_leaves), leaves_below(spine, level, unit)).astype(float)
            rows = np.kron(np.eye(PERIODS), np.kron(below, np.eye(CELLS)))
            assert np.allclose(history.mean[unit].ravel(), rows @ mean, rtol=0, atol=1e-7)
            assert np.allclose(history.covariance[unit].reshape(size, size), rows @ covariance @ rows.T, atol=1e-6)
        if depth is not None and level <= depth:
            assert np.abs(history.sums(np.ones(CELLS))[1]).max() < 1e-6
    if depth is not None:
        wrong = [None if one is None else ExactAnswers(one.matrix, one.values + 1) for one in exact]
        shifted = histories(spine, DESIGN, measured, changes, wrong)
        assert np.abs(shifted[-1].mean - history.mean).max() > 0.01


def flat(n: int) -> Spine:
    codes = np.array([f"{i:05d}" for i in range(n)])
    return Spine((Level("all", np.array(["all"]), np.array([-1])), Level("area", codes, np.zeros(n, dtype=np.int64))))


def grown(
    n: int, change: ChangeModel, noise: float, seed: int, jumps: int = 0
) -> tuple[Floats, list[list[SeriesQuery]]]:
    """True numbers `(n, T, 2)` that change as the model says, the first of them with a jump; and noisy ones."""
    rng = np.random.default_rng(seed)
    size = np.exp(rng.uniform(np.log(50), np.log(5000), n))[:, None] * np.array([1.0, 1.1])
    truth = np.repeat(size[:, None, :], 3, axis=1)
    roots = np.linalg.cholesky(change.covariance(size))
    for period in (1, 2):
        truth[:, period] = truth[:, period - 1] + np.matmul(roots, rng.normal(size=(n, 2, 1)))[:, :, 0]
    truth[:jumps, 1:] += 0.5 * size[:jumps, None, :]
    root = np.linalg.cholesky(noise * DESIGN.covariance)
    leaves = truth.transpose(1, 0, 2) + np.einsum("st,tnc->snc", root, rng.normal(size=(3, n, 2)))
    top = truth.sum(axis=0)[:, None] + np.einsum("st,tnc->snc", root, rng.normal(size=(3, 1, 2)))
    return truth, [[SeriesQuery(np.eye(2), top, noise)], [SeriesQuery(np.eye(2), leaves, noise)]]


@pytest.mark.parametrize("jumps", [0, 40])
def test_variances_of_changes_are_found(jumps: int) -> None:
    """Of 4,000 areas, whether or not 1 % of them jump by half of their size; none where there is none."""
    change = ChangeModel(0.5, 4e-4, 0.6)
    _, measured = grown(4000, change, 2e5, 6, jumps)
    found = change_precisions(flat(4000), histories(flat(4000), DESIGN, measured))[1][1]
    assert found is not None
    for size in (200.0, 2000.0):
        assert float(found.variance(np.array(size))) == pytest.approx(float(change.variance(np.array(size))), rel=0.2)
    assert found.correlation == pytest.approx(0.6, abs=0.1)
    _, measured = grown(2000, ChangeModel(0.0, 0.0), 2e5, 7)
    plain = histories(flat(2000), DESIGN, measured)[1]
    none = change_of(plain, np.ones((2000, 2, 2)), plain.mean.mean(axis=1))
    assert float(none.variance(np.array(1000.0))) < 0.1 * 2e5 * DESIGN.covariance[0, 0]


def test_intervals_hold_for_areas_that_jump_and_are_short_for_others() -> None:
    """300 of 6,000 areas jump. What is centred on the model's estimate misses these, which the same test finds."""
    truth, measured = grown(6000, ChangeModel(0.1, 1e-5, 0.5), 4e5, 8, 300)
    spine = flat(6000)
    plain = histories(spine, DESIGN, measured)
    modelled = histories(spine, DESIGN, measured, change_precisions(spine, plain)[0])
    for weights in (np.array([0.0, 1.0, 0.0]), np.array([-1.0, 1.0, 0.0])):
        both = []
        for history in (plain[1], modelled[1]):
            numbers, covariance = history.sums(np.ones(2))
            both.append((numbers @ weights, np.einsum("s,nst,t->n", weights, covariance, weights)))
        low, high = intervals(both[0], both[1])
        true = np.rint(truth.sum(axis=2) @ weights)
        held = (low <= true) & (true <= high)
        assert 0.85 < held[:300].mean() < 0.95
        assert 0.88 < held[300:].mean() < 0.92
        assert (high - low)[300:].mean() < 0.95 * 2 * 1.645 * np.sqrt(both[0][1]).mean()
        centred = np.abs(both[1][0] - true) < 1.645 * np.sqrt(both[1][1]) + 0.5
        assert centred[:300].mean() < 0.8 * centred[300:].mean()


def projected(mean: Floats, weight: Floats, total: int) -> Floats:
    """The numbers x >= 0 with this sum and the least sum of weight (x - mean)^2, by bisection of the multiplier."""
    low, high = -1e9, 1e9
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(mean + middle / weight, 0).sum() < total else (low, middle)
    return np.maximum(mean + low / weight, 0)


def test_whole_numbers_add_up_in_every_period_and_are_the_nearest() -> None:
    """Not below 0, sums of their parents, within one of the weighted projection; the same with the same seed."""
    spine = random_spine(np.random.default_rng(9), 3, most=5)
    rng = np.random.default_rng(10)
    linear = []
    for level in spine.levels:
        variances = rng.uniform(1, 9, (len(level), PERIODS, CELLS))
        covariance = np.zeros((len(level), PERIODS, CELLS, PERIODS, CELLS))
        for period in range(PERIODS):
            for cell in range(CELLS):
                covariance[:, period, cell, period, cell] = variances[:, period, cell]
        linear.append(LevelHistory(rng.normal(6, 8, (len(level), PERIODS, CELLS)), covariance))
    whole = whole_histories(spine, linear, 1)
    assert np.array_equal(whole[0], np.maximum(np.rint(linear[0].mean), 0))
    for depth in (1, 2):
        assert whole[depth].min() >= 0
        parents = spine.levels[depth].parents
        for parent in range(len(spine.levels[depth - 1])):
            children = np.flatnonzero(parents == parent)
            assert np.array_equal(whole[depth][children].sum(axis=0), whole[depth - 1][parent])
            for period in range(PERIODS):
                for cell in range(CELLS):
                    exact = projected(
                        linear[depth].mean[children, period, cell],
                        1 / linear[depth].covariance[children, period, cell, period, cell],
                        int(whole[depth - 1][parent, period, cell]),
                    )
                    assert np.abs(whole[depth][children, period, cell] - exact).max() < 1 + 1e-6
    again = whole_histories(spine, linear, 1)
    assert all(np.array_equal(a, b) for a, b in zip(whole, again, strict=True))


def test_whole_numbers_keep_sums_that_were_measured_well() -> None:
    """Cells with correlated errors, many below 0: the nearest by the whole covariance, by another solver."""
    rng = np.random.default_rng(11)
    spine = random_spine(np.random.default_rng(12), 2, most=5)
    n = len(spine.leaf_level)
    one = 40 * (np.eye(CELLS) - 1 / CELLS) + 0.5 / CELLS  # sums over cells are known to 0.7, cells to 6
    covariance = np.einsum("st,ij->sitj", np.eye(PERIODS), one)
    linear = []
    for size, scale in ((1, 8.0 * n), (n, 8.0)):
        mean = rng.normal(scale / CELLS, 6, (size, PERIODS, CELLS))
        linear.append(LevelHistory(mean, np.broadcast_to(covariance, (size, *covariance.shape))))
    whole = whole_histories(spine, linear, 1)
    for period in range(PERIODS):
        x = cp.Variable((n, CELLS))
        far = sum(cp.quad_form(x[i] - linear[1].mean[i, period], np.linalg.inv(one)) for i in range(n))
        cp.Problem(cp.Minimize(far), [x >= 0, cp.sum(x, axis=0) == whole[0][0, period]]).solve(solver="CLARABEL")
        assert np.abs(whole[1][:, period] - x.value).max() < 1 + 1e-3
    alone = [
        LevelHistory(each.mean, each.covariance * np.eye(PERIODS * CELLS).reshape(covariance.shape)) for each in linear
    ]
    off, wrong = (
        np.abs(found[1].sum(axis=2) - linear[1].mean.sum(axis=2)).mean()
        for found in (whole, whole_histories(spine, alone, 1))
    )
    assert off < wrong


AREAS, VARIANCE, TOTAL = 4000, 3e5, np.ones(2)


def register(seed: int) -> tuple[np.ndarray, np.ndarray, LevelHistory]:
    """True whole numbers `(n, T, 2)` of one area above and many below; released ones and estimates of these."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(rng.integers(200, 3000, (AREAS, 1, 2)), 3, axis=1)
    truth[:100, 2] += 150
    truth[100:200, 2] -= 150
    root = np.linalg.cholesky(VARIANCE * DESIGN.covariance)
    measured = []
    for numbers in (truth.sum(axis=0)[None], truth):
        noise = np.einsum("st,tnc->snc", root, rng.normal(size=(3, len(numbers), 2)))
        measured.append([SeriesQuery(np.eye(2), numbers.transpose(1, 0, 2) + noise, VARIANCE)])
    linear = histories(flat(AREAS), DESIGN, measured)
    return truth, whole_histories(flat(AREAS), linear, 1)[1], linear[1]


def test_intervals_of_periods_and_changes_cover_the_truth() -> None:
    """Nine of ten; with the covariance forgotten, those of changes would be wider by a third and cover more."""
    truth, released, plain = register(1)
    numbers = numbers_of(released, plain, plain, TOTAL, 1)
    total = truth.sum(axis=2)
    assert 0.885 < ((numbers.low <= total[:, 1]) & (total[:, 1] <= numbers.high)).mean() < 0.925
    change = numbers_of(released, plain, plain, TOTAL, 2, 0)
    moved = total[:, 2] - total[:, 0]
    assert 0.885 < ((change.low <= moved) & (moved <= change.high)).mean() < 0.925
    assert np.array_equal(change.values, released.sum(axis=2)[:, 2] - released.sum(axis=2)[:, 0])
    assert ((change.low <= change.values) & (change.values <= change.high)).all()
    apart = 2 * 1.645 * np.sqrt(2 * VARIANCE * (DESIGN.covariance[0, 0] + DESIGN.covariance[2, 2]))
    assert (change.high - change.low).mean() < 0.95 * apart


def test_directions() -> None:
    """Areas that changed by 300 are told mostly, and hardly ever the wrong way; of others 5 % on either side."""
    _, released, plain = register(2)
    forth, back = (numbers_of(released, plain, plain, TOTAL, *pair) for pair in ((2, 1), (1, 2)))
    assert np.array_equal(forth.values, -back.values)
    assert np.array_equal(forth.low, -back.high)
    directions = forth.directions
    assert (directions[:100] == 1).mean() > 0.9
    assert (directions[100:200] == -1).mean() > 0.9
    assert (directions[:100] == -1).sum() == (directions[100:200] == 1).sum() == 0
    assert (directions[200:] == 1).mean() == pytest.approx(0.05, abs=0.015)
    assert (directions[200:] == -1).mean() == pytest.approx(0.05, abs=0.015)
    some = PeriodNumbers(np.zeros(5, int), np.array([1, 0, -3, -4, -9]), np.array([4, 5, 2, 0, -1]))
    assert [VERDICTS[one + 1] for one in some.directions.tolist()] == ["rose", *["cannot tell"] * 3, "fell"]
