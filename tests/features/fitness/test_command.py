"""`spinewise fitness`, from public files or against the truth: as pandas finds it, in any language; what is secret."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.command import printed

from features.fitness.other_estimator import estimated_otherwise
from pipeline.errors import InputError, RefusedError
from pipeline.execution.progress import Silent
from pipeline.reading.reader import Reader, open_reader
from postprocess.statistics import NORMAL_QUANTILE


@pytest.fixture
def public(town: Path, tmp_path: Path) -> Path:
    """The public files alone: whatever reads more fails."""
    shutil.copytree(town / "public", tmp_path / "town" / "public")
    return tmp_path / "town"


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
    said = printed("fitness", public, "--threshold", "60", "--html", public / "fitness.html")
    assert "expected on the wrong side" in said
    assert "RESTRICTED" not in (public / "fitness.html").read_text("utf-8")


@pytest.fixture(scope="module")
def judged(town: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A copy of the town's release, judged in every way; and the data that were written."""
    folder = tmp_path_factory.mktemp("judged")
    root = folder / "town"
    shutil.copytree(town, root)
    said = printed("--quiet", "fitness", root, "--truth", "--compare", "--threshold", "60", "--workers", "1")
    assert said == f"{root / 'restricted' / 'fitness.html'}\n"
    return root, json.loads((root / "restricted" / "fitness.json").read_text())


def people_of(root: Path, part: str) -> pd.DataFrame:
    """One row for each block and cell that anybody is in, in public/ or in truth."""
    frame = pd.read_parquet(root / part / "histograms" / "block.parquet")
    return frame.astype({name: str for name in frame.columns if name != "count"})


def find(data: Mapping[str, Any], table: str, level: str, universe: str = "") -> dict[str, Any]:
    named = (universe, table, level)
    return next(one for one in data["tables"] if (one["universe"], one["table"], one["level"]) == named)


@pytest.mark.parametrize(("level", "digits"), [("county", 1), ("tract", 3)])
def test_errors_against_the_truth_are_those_of_the_files(
    judged: tuple[Path, dict[str, Any]], level: str, digits: int
) -> None:
    root, data = judged
    people = people_of(root, "restricted")
    grown = people["age"].map({"child": "young", "adult": "grown", "old": "grown"})
    published = pd.read_parquet(root / "public" / "tables" / "sex" / f"{level}.parquet").set_index("geocode")
    labels = [name for name in published.columns if ":" not in name]
    truth = people.assign(area=people["geocode"].str[:digits], label=grown + " * " + people["sex"])
    wide = truth.pivot_table(index="area", columns="label", values="count", aggfunc="sum", fill_value=0)
    wide = wide.reindex(index=published.index, columns=labels, fill_value=0)
    error = published[labels] - wide
    found = find(data, "sex", level)
    assert found["all"]["mae"] == pytest.approx(error.abs().to_numpy().mean())
    assert found["all"]["rmse"] == pytest.approx((error**2).to_numpy().mean() ** 0.5)
    assert found["all"]["bias"] == pytest.approx(error.to_numpy().mean())
    relative = error.abs().sum() / wide.sum()
    assert found["worst_group"]["group"] == relative.idxmax()
    target = found["largest_group_within_5_points"]
    largest = wide.idxmax(axis=1)
    own = np.array(
        [published.loc[area, largest[area]] / max(1, published.loc[area, labels].sum()) for area in wide.index]
    )
    true = np.array([wide.loc[area, largest[area]] / max(1, wide.loc[area].sum()) for area in wide.index])
    inhabited = wide.sum(axis=1).to_numpy() > 0
    assert target["all_areas"] == inhabited.sum()
    assert target["all_fit"] == (np.abs(own - true)[inhabited] <= 0.05 + 1e-12).sum()


def test_thresholds_by_hand(judged: tuple[Path, dict[str, Any]]) -> None:
    root, data = judged
    for one in data["thresholds"]:
        digits = {"county": 1, "tract": 3, "block": 5}[one["level"]]
        spine = pd.read_parquet(root / "public" / "spine.parquet")[one["level"]].unique()
        own, true = (
            people.assign(area=people["geocode"].str[:digits])
            .groupby("area")["count"]
            .sum()
            .reindex(spine, fill_value=0)
            for people in (people_of(root, "public"), people_of(root, "restricted"))
        )
        assert (one["areas"], one["above"]) == (len(spine), (own >= 60).sum())
        assert (one["lost"], one["gained"]) == (((own < 60) & (true >= 60)).sum(), ((own >= 60) & (true < 60)).sum())


def test_other_ways_are_of_the_same_counts(judged: tuple[Path, dict[str, Any]]) -> None:
    """Every way has every table; swapping keeps totals, the other estimator keeps invariants, noise apart does not."""
    _, data = judged
    ways = {way["way"]: way["tables"] for way in data["compared"]}
    drawn = ["OpenDP"] if find_spec("opendp") else []
    assert list(ways) == ["estimator topdown", "noise apart", *drawn, "cell keys", "swapping"]
    names = [(one["universe"], one["table"], one["level"]) for one in data["tables"]]
    for tables in ways.values():
        assert [(one["universe"], one["table"], one["level"]) for one in tables] == names
        for own, other in zip(data["tables"], tables, strict=True):
            assert own["all"]["areas"] == other["all"]["areas"]
    place = names.index(("", "total", "county"))
    assert [ways[name][place]["all"]["mae"] for name in ("estimator topdown", "swapping")] == [0, 0]
    assert ways["noise apart"][place]["all"]["mae"] > 0
    assert [ways["swapping"][names.index(("", "total", level))]["all"]["mae"] for level in ("tract", "block")] == [0, 0]


def test_the_other_estimator_is_that_of_a_run_of_its_own(town: Path) -> None:
    """Estimated again as it was, the histograms are those that were published, for every universe."""
    from unittest import mock

    from pipeline.spec.sections import PostprocessSection

    opened = open_reader(town)
    with mock.patch.object(PostprocessSection, "model_copy", lambda self, **_: self):
        found = estimated_otherwise(opened.run, 1, Silent())
    (histograms,) = found.values()
    releases: list[Reader] = [opened, opened.companion("units")]
    for release in releases:
        for level, other in zip(release.levels, histograms[release.universe.name], strict=True):
            assert (release.histogram(level) != other).nnz == 0


def test_nothing_leaves_restricted(judged: tuple[Path, dict[str, Any]], town: Path) -> None:
    root, _ = judged
    for name in ("fitness.json", "fitness.html"):
        path = root / "restricted" / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "RESTRICTED" in (root / "restricted" / "fitness.html").read_text()
    own = {path.relative_to(root) for path in (root / "public").rglob("*")}
    assert own == {path.relative_to(town) for path in (town / "public").rglob("*")}


def test_true_figures_are_not_printed_and_need_true_counts(town: Path, tmp_path: Path) -> None:
    for options in (("--json",), ("--html", "page.html")):
        with pytest.raises(InputError, match="--truth: the page and the data go to restricted/ only"):
            printed("fitness", town, "--truth", *options)
    shutil.copytree(town / "public", tmp_path / "town" / "public")
    with pytest.raises(InputError, match=r"has no true counts \(histograms/block.parquet\)"):
        printed("fitness", tmp_path / "town", "--truth")
    assert not (tmp_path / "town" / "restricted").exists()


def test_errors_about_true_counts_are_not_shown(town: Path, tmp_path: Path) -> None:
    root = tmp_path / "town"
    shutil.copytree(town, root)
    (root / "restricted" / "histograms" / "tract.parquet").write_bytes(b"secret")
    with pytest.raises(RefusedError) as caught:
        printed("fitness", root, "--truth")
    assert "tract.parquet" not in str(caught.value)
    assert "tract.parquet" in (root / "restricted" / "refused.txt").read_text()
    assert not (root / "restricted" / "fitness.json").exists()
