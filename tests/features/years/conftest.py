"""The series that the matrix makes, for the tests that look at it, and copies of it for those that change it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from matrix.cases import CASES
from releases.command import PROJECT, forks
from releases.once import made_once
from releases.series_town import MadeSeries


@pytest.fixture(scope="session")
def town_series(tmp_path_factory: pytest.TempPathFactory) -> MadeSeries:
    """Three mixed periods; not to be changed."""
    (case,) = (case for case in CASES if case.name == "series")

    def make(folder: Path) -> Path:
        case.write(folder)
        case.make(folder, PROJECT, forks())
        return folder

    folder = made_once(tmp_path_factory, f"matrix-{case.name}", make)
    return MadeSeries(folder, folder / "out")


@pytest.fixture
def own_series(town_series: MadeSeries, tmp_path: Path) -> MadeSeries:
    """A copy that a test may change."""
    shutil.copytree(town_series.out, tmp_path / "out")
    return MadeSeries(town_series.given, tmp_path / "out")
