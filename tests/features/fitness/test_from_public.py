"""Errors of tables are those of pandas; what is foretold from public files is what simulated truths give."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from features.fitness.fitness import threshold
from features.fitness.from_public import public_tables
from features.fitness.table import TableFitness
from geography.spine import Level
from pipeline.model.labels import Labels
from pipeline.model.measure import COUNTS
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.model.texts.message import Message
from pipeline.model.universe import Table
from pipeline.release.area_sizes import SIZE_LABELS, SIZES
from pipeline.release.tables import ReleasedTable, write_table
from pipeline.storage.readable import unchecked
from postprocess.largest_group import fits
from postprocess.statistics import NORMAL_QUANTILE as QUANTILE
from postprocess.statistics import Moments

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


SCHEMA = Schema((Attribute("race", ("a", "b", "c")),))
TABLE = Table("race", Query.parse("race", SCHEMA), ("tract",))
SPREAD, DRAWS = 12.0, 30


def release_of(counts: np.ndarray[Any, Any], folder: Path, *, margins: bool, drawn: np.ndarray[Any, Any] | None) -> Any:
    """What the functions ask a release for; independent errors of the same standard deviation in every number."""
    codes = np.array([f"t{number:03d}" for number in range(len(counts))])
    half = np.full(counts.shape, SPREAD * QUANTILE)
    path, staging = folder / "race.parquet", folder
    rows = ReleasedTable("race", "tract", "race", codes, ("a", "b", "c"), counts, counts - half, counts + half)
    write_table(path, staging, [rows])
    index = pd.MultiIndex.from_product([range(1, DRAWS + 1), codes], names=["draw", "geocode"])
    variances = np.full(counts.shape, SPREAD**2)
    moments = Moments(variances, 3 * variances, variances)
    return SimpleNamespace(
        universe=SimpleNamespace(name="", tables=(TABLE,), measure=COUNTS),
        labels=Labels(),
        spec=SimpleNamespace(publish=SimpleNamespace(margins=margins, draws=0 if drawn is None else DRAWS)),
        levels=("tract",),
        spine=SimpleNamespace(level=lambda _: Level("tract", codes, np.full(len(codes), -1))),
        index_of=lambda _: 0,
        histogram=lambda _: sp.csr_array(counts),
        files=SimpleNamespace(table=lambda *_: path, readable=unchecked),
        draws=lambda *_: None if drawn is None else pd.DataFrame(drawn.reshape(-1, 3), index=index),
        half_widths=SimpleNamespace(moments_of_level=lambda *_: moments),
    )


@pytest.fixture
def counts() -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(9)
    return rng.poisson(rng.uniform(5, 600, (200, 1)) * [0.5, 0.3, 0.2])


def test_target_from_variances(counts: np.ndarray[Any, Any], tmp_path: Path) -> None:
    """As many areas are within five points as in truths drawn around the published counts, sizes apart."""
    opened = release_of(counts, tmp_path, margins=True, drawn=None)
    (found,) = public_tables(opened, opened)
    rng = np.random.default_rng(10)
    group = counts.argmax(axis=1)
    fitting = np.zeros(len(counts))
    for _ in range(400):
        truth = counts + rng.normal(0, SPREAD, counts.shape)
        shares, own = truth / truth.sum(axis=1)[:, None], counts / counts.sum(axis=1)[:, None]
        place = np.arange(len(counts))
        fitting += np.abs(shares[place, group] - own[place, group]) <= 0.05
    large = counts.sum(axis=1) >= 200
    assert found.target is not None
    foretold = found.target_sums.fit[4:].sum()
    assert foretold == pytest.approx(fitting[large].sum() / 400, rel=0.03)
    assert foretold < 0.98 * large.sum()
    assert found.whole.rmse == pytest.approx(SPREAD)
    assert found.whole.bias is None


@pytest.mark.parametrize("margins", [True, False])
def test_bias_and_target_from_draws(counts: np.ndarray[Any, Any], tmp_path: Path, margins: bool) -> None:
    """Draws say that two persons too many are published of every number; alone, they say the rest too."""
    rng = np.random.default_rng(12)
    drawn = counts - 2 + rng.normal(0, 5, (DRAWS, *counts.shape))
    opened = release_of(counts, tmp_path, margins=margins, drawn=drawn)
    (found,) = public_tables(opened, opened)
    error = counts - drawn
    assert found.whole.bias == pytest.approx(error.mean())
    assert found.whole.rmse == pytest.approx(SPREAD if margins else (error**2).mean() ** 0.5)
    fit = np.array([fits(counts, truth) for truth in drawn]).mean(axis=0)
    large = counts.sum(axis=1) >= 500
    assert found.target is not None
    assert found.target.areas == large.sum()
    assert found.target.fit == pytest.approx(fit[large].sum())


def test_the_probability_is_that_of_simulated_truths() -> None:
    """Noise of known size around known numbers: as many truths are on the other side as is foretold of each area."""
    rng = np.random.default_rng(7)
    published = np.arange(985, 1016)
    spread = np.full(published.shape, 8.0)
    truth = np.rint(rng.normal(published, spread, (40_000, len(published))))
    other = ((truth >= 1000) != (published >= 1000)).mean(axis=0)
    found = threshold("", "tract", 1000, published.astype(np.str_), published, spread)
    assert found.expected_wrong == pytest.approx(other.sum(), rel=0.01)
    foretold = {int(area.geocode): area.probability for area in found.listed}
    for place, people in enumerate(published.tolist()):
        if people in foretold:
            assert foretold[people] == pytest.approx(other[place], abs=0.01)
    assert found.doubtful == (other >= 0.05).sum()
    assert len(found.listed) == 20
