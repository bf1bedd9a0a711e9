"""A release made by hand with a key to sign it with, and one of the small town."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.by_hand import write_release
from releases.once import release_once, spec_once
from releases.small import write_town

from pipeline.release.layout import RunDirectory
from pipeline.signatures.signing_keys import SigningKey


@pytest.fixture
def release(tmp_path: Path) -> RunDirectory:
    return write_release(tmp_path)


@pytest.fixture(scope="session")
def key() -> SigningKey:
    return SigningKey.generate("statistics.example/releases")


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a release of the town; copy it before changing anything."""
    return release_once(tmp_path_factory, "town", spec_once(tmp_path_factory, "town", write_town))
