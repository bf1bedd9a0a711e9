"""`spinewise fitness` from public files: what it foretells, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.command import printed

from pipeline.errors import InputError
from pipeline.reading.reader import open_reader
from postprocess.statistics import NORMAL_QUANTILE


@pytest.fixture
def public(town: Path, tmp_path: Path) -> Path:
    """The public files alone: whatever reads more fails."""
    shutil.copytree(town / "public", tmp_path / "town" / "public")
    return tmp_path / "town"


@pytest.fixture
def plan(town: Path, tmp_path: Path) -> Path:
    """The two counties as districts, so that what is foretold of them is what is published of counties."""
    blocks = pd.read_parquet(town / "public" / "spine.parquet")["block"]
    path = tmp_path / "plan.csv"
    pd.DataFrame({"block": blocks, "district": blocks.str[:1]}).to_csv(path, index=False)
    return path


def test_errors_come_from_the_published_intervals(public: Path) -> None:
    data = json.loads(printed("fitness", public, "--json"))
    assert not data["restricted"]
    assert not (public / "restricted").exists()
    for one in data["tables"]:
        files = public / "public" / ("companions/units" if one["universe"] else "")
        frame = pd.read_parquet(files / "tables" / one["table"] / f"{one['level']}.parquet")
        labels = [name for name in frame.columns if ":" not in name and name != "geocode"]
        wide = np.array([(frame[f"{name}:high90"] - frame[f"{name}:low90"]) / (2 * NORMAL_QUANTILE) for name in labels])
        known = wide[~np.isnan(wide)]
        assert one["all"]["numbers"] == known.size
        assert one["all"]["mae"] == pytest.approx(known.mean() * (2 / np.pi) ** 0.5)
        assert one["all"]["rmse"] == pytest.approx((known**2).mean() ** 0.5)
        assert one["all"]["bias"] is None


def test_districts_have_the_variances_of_what_they_are(public: Path, plan: Path) -> None:
    """Counties are exact in all: so is the deviation. Among everybody else, one half has the error of the group."""
    data = json.loads(
        printed("fitness", public, "--plan", plan, "--minority", "sex=f", "--minority", "age=child,adult", "--json")
    )["plan"]
    counties = open_reader(public).query("total").at("county")["total"].tolist()
    assert [one["published"] for one in data["districts"]] == counties
    assert [one["spread"] for one in data["districts"]] == [0, 0]
    assert data["low"] == pytest.approx(data["deviation"])
    assert data["high"] == pytest.approx(data["deviation"])
    question = open_reader(public).query("sex")
    margins = question.at("county")
    for one in data["majorities"]:
        if one["group"] != "f":
            continue
        # The published interval is simulated and whole, and twice as wide as the linear one at the most.
        women, men = margins.loc[one["district"], ["f", "m"]]
        assert one["share"] == pytest.approx(100 * women / (women + men))
        assert 0 <= one["flip"] <= 0.5


def test_variance_of_an_excess_by_differences(public: Path) -> None:
    """m - t / 2 is half of members less the others, whose variance the release states in another way."""
    from features.fitness.plans import Group, _variances

    release = open_reader(public)
    everybody, women = release.query("total"), release.query("total").where(sex="f")
    men = release.query("total").where(sex="m")
    inside = np.array([code.startswith("A0") for code in release.spine.leaf_level.geocodes.tolist()])
    inside[0] = False
    left, right, both = _variances(release, inside, women, everybody)
    own, others, common = _variances(release, inside, women, men)
    assert left - both + right / 4 == pytest.approx((own + others - 2 * common) / 4, rel=1e-9)
    counts = Group("women", women, everybody).counts(release.histogram("block"))
    assert counts[:, 0].tolist() == release.query("sex").at("block")["f"].tolist()
    assert counts[:, 1].tolist() == release.query("total").at("block")["total"].tolist()


def test_thresholds_use_the_margin(public: Path) -> None:
    data = json.loads(printed("fitness", public, "--threshold", "60", "--at", "tract", "--json"))["thresholds"]
    assert [(one["people"], one["level"]) for one in data] == [(60, "tract")]
    numbers = open_reader(public).query("total").at("tract")
    from scipy.stats import norm

    spread = numbers["total:moe90"] / NORMAL_QUANTILE
    gap = (numbers["total"] - 59.5).abs()
    wrong = np.where(spread > 0, norm.sf(gap / spread.where(spread > 0, 1)), 0)
    assert data[0]["expected_wrong"] == pytest.approx(wrong.sum())
    assert data[0]["lost"] is None


def test_the_page_shows_no_truth(public: Path, plan: Path, tmp_path: Path) -> None:
    page = tmp_path / "fitness.html"
    said = printed("fitness", public, "--plan", plan, "--threshold", "60", "--minority", "sex=f", "--html", page)
    text = page.read_text(encoding="utf-8")
    assert "From public files alone" in text
    assert "RESTRICTED" not in text
    assert ">true<" not in text
    for part in ("total deviation", "noise decides", "within 5 points", "expected on the wrong side"):
        assert part in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--compare",), "--compare: other ways protect true counts, and it requires --truth"),
        (("--minority", "sex=f"), "found --minority or --among, and no --plan"),
        (("--threshold", "5", "--at", "street"), "no level 'street'; the levels are county, tract, block"),
    ],
)
def test_what_is_refused(public: Path, options: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        printed("fitness", public, *options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--among", "sex=f"), "--among: a group is needed"),
        (("--minority", "women"), "--minority: found 'women'; TERM=VALUES is needed"),
        (("--minority", "sex=x"), "where: sex: found 'x'; its values are f, m"),
    ],
)
def test_what_is_refused_of_groups(public: Path, plan: Path, options: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        printed("fitness", public, "--plan", plan, *options)
