"""The town of this folder is the one that is quick to compute: many of its tests compute it again."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.once import release_once, spec_once
from releases.small import QUICK, write_town


@pytest.fixture(scope="session")
def town_spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The spec of the town."""
    return spec_once(tmp_path_factory, "quick town", lambda folder: write_town(folder, *QUICK))


@pytest.fixture(scope="session")
def town(town_spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of its release; copy it before changing anything."""
    return release_once(tmp_path_factory, "quick town", town_spec)
