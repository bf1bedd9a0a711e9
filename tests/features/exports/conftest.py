"""One run of the small town, to export."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.small import run, write_town
from releases.surveyed import write_surveyed


@pytest.fixture(scope="session")
def town_spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The spec of the town."""
    return write_town(tmp_path_factory.mktemp("town"))


@pytest.fixture(scope="session")
def town(town_spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of its release; copy it before changing anything."""
    return run(town_spec, tmp_path_factory.mktemp("released"))


@pytest.fixture(scope="session")
def surveyed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with names, labels, polygons, a publisher, and persons in households."""
    return run(write_surveyed(tmp_path_factory.mktemp("surveyed")), tmp_path_factory.mktemp("out"))
