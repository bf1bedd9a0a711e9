"""One run of the small town, and one with names, for tests that only look at it."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.named import write_named_town
from releases.small import run, write_town


@pytest.fixture(scope="session")
def town_spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The spec of the town."""
    return write_town(tmp_path_factory.mktemp("town"))


@pytest.fixture(scope="session")
def town(town_spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of its release; copy it before changing anything."""
    return run(town_spec, tmp_path_factory.mktemp("released"))


@pytest.fixture(scope="session")
def named_town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of the town with names and labels, for reading only; tests that change files take a copy."""
    folder = tmp_path_factory.mktemp("named")
    language = ('title = "The', 'language = "en"\ntitle = "The')
    return run(write_named_town(folder / "town", language), folder / "out")
