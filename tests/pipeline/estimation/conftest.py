"""The town with joint draws and margins, whose whole estimation is small enough to be computed again."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.once import release_once, spec_once
from releases.small import QUICK, write_town

#: Two simulated runs, unbiased estimates, and 19 draws.
DRAWS = ("replicates = 3\nunbiased = true", "replicates = 2\nunbiased = true\ndraws = 19")


@pytest.fixture(scope="session")
def drawn_spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return spec_once(tmp_path_factory, "drawn town", lambda folder: write_town(folder, DRAWS, QUICK[1]))


@pytest.fixture(scope="session")
def drawn_town(drawn_spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of its release, for reading only."""
    return release_once(tmp_path_factory, "drawn town", drawn_spec)
