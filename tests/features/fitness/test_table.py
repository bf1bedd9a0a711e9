"""Errors of a table equal what pandas computes, number by number."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from features.fitness.table import TableFitness
from pipeline.model.texts.message import Message
from pipeline.release.area_sizes import SIZE_LABELS, SIZES
from postprocess.differences import ErrorSums
from postprocess.statistics import MEAN_ABSOLUTE

LABELS = ("a", "b", "c")


@pytest.fixture
def numbers() -> tuple[np.ndarray, np.ndarray]:
    """True and published numbers of 400 areas of every size, some empty; group c is small and too often published."""
    rng = np.random.default_rng(3)
    truth = rng.poisson(np.exp(rng.uniform(-3, 12.5, (400, 1))) * [0.8, 0.19, 0.01])
    noise = np.rint(rng.normal([0, 0.5, 2], 3, truth.shape)).astype(np.int64)
    return truth, np.maximum(truth + noise, 0)


def long_form(truth: np.ndarray, published: np.ndarray) -> pd.DataFrame:
    """One row a number."""
    frame = pd.DataFrame({"area": np.repeat(np.arange(len(truth)), 3), "group": np.tile(LABELS, len(truth))})
    frame = frame.assign(truth=truth.ravel(), published=published.ravel())
    people = frame.groupby("area")["truth"].transform("sum")
    bins = [*SIZES, math.inf]
    frame["size"] = pd.cut(people, bins, right=False, labels=list(SIZE_LABELS)).astype(str)
    return frame.assign(error=frame["published"] - frame["truth"])


def by_pandas(frame: pd.DataFrame) -> dict[str, float]:
    """The measures, by their definitions."""
    error, truth = frame["error"], frame["truth"]
    filled = frame[truth > 0]
    percent = 100 * filled["error"] / filled["truth"]
    rmse = float((error**2).mean() ** 0.5)
    return {
        "areas": frame["area"].nunique(),
        "numbers": len(frame),
        "l1": error.abs().groupby(frame["area"]).sum().mean(),
        "mae": error.abs().mean(),
        "rmse": rmse,
        "bias": error.mean(),
        "cv": 100 * rmse / truth.mean() if truth.sum() else math.nan,
        "mape": percent.abs().mean(),
        "malpe": percent.mean(),
        "relative": 100 * error.abs().sum() / truth.sum() if truth.sum() else math.nan,
        "relative_bias": 100 * error.sum() / truth.sum() if truth.sum() else math.nan,
    }


def same(found: object, expected: dict[str, float]) -> None:
    for name, value in expected.items():
        own = getattr(found, name)
        assert (own is None) == (isinstance(value, float) and math.isnan(value)), name
        if own is not None:
            assert own == pytest.approx(value, rel=1e-12, abs=1e-12), name


def test_all_sizes_and_groups(numbers: tuple[np.ndarray, np.ndarray]) -> None:
    truth, published = numbers
    totals = (published.sum(axis=0), truth.sum(axis=0))
    table = TableFitness("", "race", "block", LABELS, Message("truth"), totals)
    for part in (slice(0, 150), slice(150, 400)):
        table.add(published[part], truth[part], truth[part].sum(axis=1))
    frame = long_form(truth, published)
    same(table.whole, by_pandas(frame))
    assert [size for size, _ in table.by_size] == [size for size in SIZE_LABELS if size in set(frame["size"])]
    assert len(table.by_size) >= 8
    for size, measures in table.by_size:
        same(measures, by_pandas(frame[frame["size"] == size]))
    for group in table.groups:
        same(group.measures, by_pandas(frame[frame["group"] == group.group]))
    assert table.worst_group is not None
    assert table.worst_group.group == "c"
    biased = frame.groupby(["size", "group"])[["error", "truth"]].sum()
    ratio = (100 * biased["error"] / biased["truth"].where(biased["truth"] > 0)).abs()
    assert table.most_biased is not None
    assert (table.most_biased.size, table.most_biased.group) == ratio.idxmax()
    shares = pd.DataFrame(published / totals[0] - truth / totals[1]).abs().sum()
    assert table.share_errors == pytest.approx(100 * shares.mean(), rel=1e-12)
    assert table.data()["all"]["taes"] == table.share_errors


def test_expected_errors_are_those_of_normal_ones(numbers: tuple[np.ndarray, np.ndarray]) -> None:
    _, published = numbers
    rng = np.random.default_rng(5)
    spread = rng.uniform(0, 6, published.shape)
    spread[::7, 1] = np.nan
    sums = ErrorSums(3)
    sums.add_expected(published, spread)
    found = sums.measures()
    known = ~np.isnan(spread)
    drawn = rng.normal(0, np.where(known, spread, 0), (2000, *spread.shape))[:, known]
    assert found.numbers == known.sum()
    assert found.mae == pytest.approx(np.abs(drawn).mean(), rel=0.01)
    assert found.rmse == pytest.approx((drawn**2).mean() ** 0.5, rel=0.01)
    assert (found.bias, found.malpe, found.relative_bias) == (None, None, None)
    filled = known & (published > 0)
    assert found.mape == pytest.approx(100 * MEAN_ABSOLUTE * (spread[filled] / published[filled]).mean())


def test_signs_are_taken_from_draws(numbers: tuple[np.ndarray, np.ndarray]) -> None:
    truth, published = numbers
    expected, drawn = ErrorSums(3), ErrorSums(3)
    expected.add_expected(published, np.ones(published.shape))
    drawn.add(published, truth)
    expected.take_signs(drawn)
    assert expected.measures().bias == pytest.approx((published - truth).mean())
    assert expected.measures().rmse == pytest.approx(1)
    found = ErrorSums(2).measures()
    assert (found.areas, found.numbers, found.mae, found.rmse, found.bias, found.mape) == (0, 0, None, None, None, None)
