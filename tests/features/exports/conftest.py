"""One run of the small town, to export."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.small import run
from releases.surveyed import write_surveyed


@pytest.fixture(scope="session")
def surveyed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with names, labels, polygons, a publisher, and persons in households."""
    return run(write_surveyed(tmp_path_factory.mktemp("surveyed")), tmp_path_factory.mktemp("out"))
