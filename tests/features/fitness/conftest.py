"""A run of the small town, to judge."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.small import run, write_town


@pytest.fixture(scope="session")
def town_spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The spec of the town."""
    return write_town(tmp_path_factory.mktemp("town"))


@pytest.fixture(scope="session")
def town(town_spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of its release; copy it before changing anything."""
    return run(town_spec, tmp_path_factory.mktemp("released"))
