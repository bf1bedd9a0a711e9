"""`fitness` and `plan --like` of amounts below 0: areas have the size of their records, and sums are no people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.command import needs, printed
from releases.small import run
from releases.wages import BALANCES, write_wages

from pipeline.release.area_sizes import size_classes
from postprocess.statistics import NORMAL_QUANTILE

LEVELS = {"county": 1, "tract": 2, "block": 3}


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wages(tmp_path_factory.mktemp("judged"), *BALANCES, ("replicates = 4", "replicates = 2"))


@pytest.fixture(scope="module")
def release(spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Into whose restricted/ errors are written."""
    return run(spec, tmp_path_factory.mktemp("judged released"))


def size_of(people: int) -> str:
    limits = ((0, "empty"), (49, "1 to 49"), (499, "50 to 499"), (999, "500 to 999"))
    return next(name for most, name in limits if people <= most)


def table(release: Path, level: str, universe: str = "") -> pd.DataFrame:
    return pd.read_parquet(release / f"public/{universe}tables/total/{level}.parquet").set_index("geocode")


def found(data: Mapping[str, Any], level: str, name: str = "total") -> Mapping[str, Any]:
    wanted = ("wages", name, level)
    (one,) = (one for one in data["tables"] if (one["universe"], one["table"], one["level"]) == wanted)
    assert isinstance(one, Mapping)
    return one


@needs("fitness")
def test_each_area_is_judged_once_in_the_class_of_its_records(release: Path) -> None:
    """By the public files alone; the oracle is pandas on the published tables. Sums have no shares of people."""
    data = json.loads(printed("fitness", release, "--json"))
    for level in LEVELS:
        one, sums = found(data, level), table(release, level, "companions/wages/")
        people = table(release, level)["total"].reindex(sums.index)
        assert level != "block" or (sums["total"] < 0).any(), "some area has a negative sum"
        wide = (sums["total:high90"] - sums["total:low90"]) / (2 * NORMAL_QUANTILE)
        assert (one["all"]["areas"], one["unit"]) == (len(sums), "10")
        assert one["all"]["rmse"] == pytest.approx((wide**2).mean() ** 0.5)
        assert one["all"]["mae"] == pytest.approx(wide.mean() * (2 / np.pi) ** 0.5)
        sizes = people.map(size_of)
        assert {row["size"]: row["areas"] for row in one["by_size"]} == sizes.value_counts().to_dict()
        for row in one["by_size"]:
            assert row["rmse"] == pytest.approx((wide[sizes == row["size"]] ** 2).mean() ** 0.5)
        for row in (one["all"], *one["by_size"]):
            assert [row[name] for name in ("cv", "mape", "malpe", "relative", "relative_bias")] == [None] * 5
    for name in ("sex", "detailed"):
        assert found(data, "tract", name)["largest_group_within_5_points"] is None
        assert found(data, "tract", name)["worst_group"] is None
    assert any(one["largest_group_within_5_points"] for one in data["tables"] if not one["universe"])


@needs("fitness")
def test_against_the_truth_every_area_counts_once_and_other_ways_are_of_counts(release: Path) -> None:
    printed("--quiet", "fitness", release, "--truth", "--compare", "--workers", "1")
    data = json.loads((release / "restricted/fitness.json").read_text("utf-8"))
    codes, units = (
        pd.read_parquet(release / f"restricted/{folder}histograms/block.parquet").astype({"geocode": str})
        for folder in ("", "companions/wages/")
    )
    for level, digits in LEVELS.items():
        published = table(release, level, "companions/wages/")["total"]
        true, people = (
            frame.groupby(frame["geocode"].str[:digits])["count"].sum().reindex(published.index, fill_value=0)
            for frame in (units, codes)
        )
        assert level != "block" or (true < 0).any()
        one, error = found(data, level), published - true
        assert one["all"]["areas"] == len(published)
        assert one["all"]["mae"] == pytest.approx(error.abs().mean())
        assert one["all"]["rmse"] == pytest.approx((error**2).mean() ** 0.5)
        assert one["all"]["bias"] == pytest.approx(error.mean())
        assert one["all"]["taes"] is None
        sizes = people.map(size_of)
        for row in one["by_size"]:
            inside = error[sizes == row["size"]]
            assert (row["areas"], row["mae"]) == (len(inside), pytest.approx(inside.abs().mean()))
    own = [(one["universe"], one["table"], one["level"]) for one in data["tables"] if not one["universe"]]
    assert {"noise apart", "cell keys"} <= {way["way"] for way in data["compared"]}
    for way in data["compared"]:
        assert [(one["universe"], one["table"], one["level"]) for one in way["tables"]] == own


@needs("plan")
def test_a_plan_takes_sizes_of_areas_from_records(spec: Path, release: Path) -> None:
    rows = json.loads(printed("plan", spec, "--like", release, "--json"))["by_size"]
    for level in LEVELS:
        sizes = table(release, level)["total"].map(size_of).value_counts().to_dict()
        for universe, unit in (("", ""), ("wages", "10")):
            own = [one for one in rows if (one["universe"], one["table"], one["level"]) == (universe, "total", level)]
            assert {one["size"]: one["areas"] for one in own} == sizes
            assert {one["unit"] for one in own} == {unit}
            assert all((one["relative"] is None) == (universe == "wages") for one in own if one["size"] != "empty")


def test_no_class_is_of_less_than_nobody() -> None:
    assert size_classes(np.array([0, 1, 49, 50])).tolist() == [0, 1, 1, 2]
    with pytest.raises(ValueError, match="below 0"):
        size_classes(np.array([3, -5]))
