"""Releases of a series, made once for the tests that only read them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from releases.series_town import YEARS, write_series_town
from releases.small import run_period


@dataclass(frozen=True)
class MadeSeries:
    """The town's input, and the folder with its three releases."""

    given: Path
    out: Path

    @property
    def spec(self) -> Path:
        return self.given / "release.toml"

    def release(self, year: str) -> Path:
        return self.out / f"padron-{year}"


@pytest.fixture(scope="session")
def town_series(tmp_path_factory: pytest.TempPathFactory) -> MadeSeries:
    """Mixed periods; not to be changed."""
    folder = tmp_path_factory.mktemp("series")
    made = MadeSeries(folder / "in", folder / "out")
    spec = write_series_town(made.given)
    for year in YEARS:
        run_period(spec, made.out, year, made.given / f"persons-{year}.csv")
    return made


@pytest.fixture
def own_series(town_series: MadeSeries, tmp_path: Path) -> MadeSeries:
    """A copy that a test may change."""
    shutil.copytree(town_series.out, tmp_path / "out")
    return MadeSeries(town_series.given, tmp_path / "out")
