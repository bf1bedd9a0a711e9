"""A small release, and a key to sign it with."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.by_hand import write_release

from pipeline.release.layout import RunDirectory
from pipeline.witness.signing_keys import SigningKey


@pytest.fixture
def release(tmp_path: Path) -> RunDirectory:
    return write_release(tmp_path)


@pytest.fixture(scope="session")
def key() -> SigningKey:
    return SigningKey.generate("statistics.example/releases")
