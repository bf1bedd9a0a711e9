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


def test_the_page_shows_no_truth(public: Path, tmp_path: Path) -> None:
    page = tmp_path / "fitness.html"
    said = printed("fitness", public, "--threshold", "60", "--html", page)
    text = page.read_text(encoding="utf-8")
    assert "RESTRICTED" not in text
    assert ">true<" not in text
    for part in ("within 5 points", "expected on the wrong side"):
        assert part in said


def test_what_is_refused(public: Path) -> None:
    for options, message in (
        (("--compare",), "--compare: other ways protect true counts, and it requires --truth"),
        (("--threshold", "5", "--at", "street"), "no level 'street'; the levels are county, tract, block"),
    ):
        with pytest.raises(InputError, match=message):
            printed("fitness", public, *options)
