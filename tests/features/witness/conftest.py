"""A release made by hand with a key to sign it with, and one of the small town."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.by_hand import write_release

from pipeline.release.layout import RunDirectory


@pytest.fixture
def release(tmp_path: Path) -> RunDirectory:
    return write_release(tmp_path)
