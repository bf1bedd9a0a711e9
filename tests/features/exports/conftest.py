"""One run of the small town, to export."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.once import release_once, spec_once
from releases.surveyed import write_surveyed


@pytest.fixture(scope="session")
def surveyed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with names, labels, polygons, a publisher, and persons in households."""
    return release_once(tmp_path_factory, "surveyed", spec_once(tmp_path_factory, "surveyed", write_surveyed))
