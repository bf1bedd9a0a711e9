"""One run of the small town, to export."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.once import release_once, spec_once
from releases.small import run, write_town
from releases.surveyed import write_surveyed


@pytest.fixture(scope="session")
def town_spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The spec of the town."""
    return spec_once(tmp_path_factory, "town", write_town)


@pytest.fixture(scope="session")
def town(town_spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of its release; copy it before changing anything."""
    return release_once(tmp_path_factory, "town", town_spec)


@pytest.fixture(scope="session")
def surveyed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with names, labels, polygons, a publisher, and persons in households."""
    return run(write_surveyed(tmp_path_factory.mktemp("surveyed")), tmp_path_factory.mktemp("out"))
