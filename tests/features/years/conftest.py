"""The series that the matrix makes, for the tests that look at it, and copies of it for those that change it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from releases.asked import ledger_of
from releases.made_case import made_case
from releases.series_town import MadeSeries


@pytest.fixture(scope="session")
def town_series(tmp_path_factory: pytest.TempPathFactory) -> MadeSeries:
    """Three mixed periods; not to be changed."""
    folder = made_case(tmp_path_factory, "series")
    return MadeSeries(folder, folder / "out")


@pytest.fixture
def own_series(town_series: MadeSeries, tmp_path: Path) -> MadeSeries:
    """A copy that a test may change."""
    shutil.copytree(town_series.out, tmp_path / "out")
    return MadeSeries(town_series.given, tmp_path / "out")


@pytest.fixture
def people(tmp_path: Path) -> Iterator[Path]:
    """A ledger that runs find, with a dataset of 5/2."""
    with ledger_of(tmp_path, dataset="people", budget="5/2") as place:
        yield place
