"""Numbers of periods and changes with intervals that know the covariance over periods; rose, fell, or cannot tell."""

from __future__ import annotations

import numpy as np
import pytest

from features.years.design import Design
from features.years.history import (
    VERDICTS,
    LevelHistory,
    PeriodNumbers,
    SeriesQuery,
    between,
    histories,
    in_period,
    whole_histories,
)
from geography.errors import InputError
from geography.spine import Level, Spine

DESIGN = Design(((64,), (-30, 70), (3, -33, 71)), 2, "change-one")
N, VARIANCE = 4000, 3e5
TOTAL = np.ones(2)


def register(seed: int) -> tuple[np.ndarray, np.ndarray, LevelHistory]:
    """True whole numbers `(n, T, 2)` of one area above and many below; released ones and estimates of these."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(rng.integers(200, 3000, (N, 1, 2)), 3, axis=1)
    truth[:100, 2] += 150
    truth[100:200, 2] -= 150
    codes = np.array([f"{i:05d}" for i in range(N)])
    spine = Spine((Level("all", np.array(["all"]), np.array([-1])), Level("area", codes, np.zeros(N, dtype=np.int64))))
    root = np.linalg.cholesky(VARIANCE * DESIGN.covariance)
    measured = []
    for numbers in (truth.sum(axis=0)[None], truth):
        noise = np.einsum("st,tnc->snc", root, rng.normal(size=(3, len(numbers), 2)))
        measured.append([SeriesQuery(np.eye(2), numbers.transpose(1, 0, 2) + noise, VARIANCE)])
    linear = histories(spine, DESIGN, measured)
    return truth, whole_histories(spine, linear, 1)[1], linear[1]


def test_intervals_of_periods_and_changes_cover_the_truth() -> None:
    """Nine of ten; with the covariance forgotten, those of changes would be wider by a third and cover more."""
    truth, released, plain = register(1)
    numbers = in_period(released, plain, plain, TOTAL, 1)
    total = truth.sum(axis=2)
    assert 0.885 < ((numbers.low <= total[:, 1]) & (total[:, 1] <= numbers.high)).mean() < 0.925
    change = between(released, plain, plain, TOTAL, (0, 2))
    moved = total[:, 2] - total[:, 0]
    assert 0.885 < ((change.low <= moved) & (moved <= change.high)).mean() < 0.925
    assert np.array_equal(change.values, released.sum(axis=2)[:, 2] - released.sum(axis=2)[:, 0])
    assert ((change.low <= change.values) & (change.values <= change.high)).all()
    apart = 2 * 1.645 * np.sqrt(2 * VARIANCE * (DESIGN.covariance[0, 0] + DESIGN.covariance[2, 2]))
    assert (change.high - change.low).mean() < 0.95 * apart


def test_directions() -> None:
    """Areas that changed by 300 are told mostly, and hardly ever the wrong way; of others 5 % on either side."""
    _, released, plain = register(2)
    directions = between(released, plain, plain, TOTAL, (1, 2)).directions
    assert (directions[:100] == 1).mean() > 0.9
    assert (directions[100:200] == -1).mean() > 0.9
    assert (directions[:100] == -1).sum() == (directions[100:200] == 1).sum() == 0
    assert (directions[200:] == 1).mean() == pytest.approx(0.05, abs=0.015)
    assert (directions[200:] == -1).mean() == pytest.approx(0.05, abs=0.015)
    some = PeriodNumbers(np.zeros(5, int), np.array([1, 0, -3, -4, -9]), np.array([4, 5, 2, 0, -1]))
    assert [VERDICTS[one + 1] for one in some.directions.tolist()] == ["rose", *["cannot tell"] * 3, "fell"]


def test_a_change_backwards_is_the_change_turned_round() -> None:
    _, released, plain = register(3)
    forth, back = (between(released, plain, plain, np.array([1.0, 0.0]), pair) for pair in ((0, 1), (1, 0)))
    assert np.array_equal(forth.values, -back.values)
    assert np.array_equal(forth.low, -back.high)


def test_numbers_of_periods_are_not_below_zero() -> None:
    history = LevelHistory(np.full((1, 1, 1), 2.0), np.full((1, 1, 1, 1, 1), 100.0))
    numbers = in_period(np.full((1, 1, 1), 2), history, history, np.ones(1), 0)
    assert (numbers.low.tolist(), numbers.values.tolist()) == ([0], [2])
    assert numbers.high[0] > 15


def test_periods_that_are_none_are_refused() -> None:
    history = LevelHistory(np.ones((1, 2, 1)), np.ones((1, 2, 1, 2, 1)))
    released = np.ones((1, 2, 1), dtype=np.int64)
    with pytest.raises(InputError, match="period 3 of a series: it has periods 1 to 2"):
        in_period(released, history, history, np.ones(1), 2)
    with pytest.raises(InputError, match="found period 2 twice"):
        between(released, history, history, np.ones(1), (1, 1))
