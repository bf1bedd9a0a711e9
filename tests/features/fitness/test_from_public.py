"""What is foretold from draws and from variances is what simulated truths give; who is on which side of a threshold."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from features.fitness.fitness import beyond_zero, threshold
from features.fitness.from_public import public_tables
from geography.spine import Level
from pipeline.model.labels import Labels
from pipeline.model.measure import COUNTS
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.model.universe import Table
from pipeline.release.tables import ReleasedTable, write_table
from pipeline.storage.readable import unchecked
from postprocess.largest_group import fits
from postprocess.statistics import NORMAL_QUANTILE as QUANTILE
from postprocess.statistics import Moments

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


def test_nothing_is_told_without_intervals_and_draws(counts: np.ndarray[Any, Any], tmp_path: Path) -> None:
    opened = release_of(counts, tmp_path, margins=False, drawn=None)
    assert public_tables(opened, opened) == []


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


def test_sides_by_hand() -> None:
    codes = np.array(["a", "b", "c", "d", "e"])
    published = np.array([999, 1000, 1001, 1002, 5])
    truth = np.array([1000, 999, 1001, 1000, 4])
    spread = np.array([1.0, 1.0, 0.0, np.nan, 2.0])
    found = threshold("", "tract", 1000, codes, published, spread, truth)
    assert (found.areas, found.above, found.lost, found.gained, found.unknown) == (5, 3, 1, 1, 1)
    assert [(area.geocode, area.truth) for area in found.listed] == [("a", 1000), ("b", 999)]
    # Half a person from the other side, one standard error being a person.
    assert [area.probability for area in found.listed] == pytest.approx([0.30853754] * 2)
    assert beyond_zero(np.array([0.5, -3.0, 0.0]), np.zeros(3)).tolist() == [0, 0, 0]
