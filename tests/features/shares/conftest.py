"""The release of the matrix, for reading only."""

from __future__ import annotations

from pathlib import Path

import pytest
from matrix.cases import CASES
from matrix.conftest import FolderOf
from matrix.conftest import folder_of as folder_of  # a fixture


@pytest.fixture
def shared(folder_of: FolderOf) -> Path:
    """The directory of a small town; two folders above it are its inputs."""
    (case,) = (one for one in CASES if one.name == "shares")
    return folder_of(case) / case.published[-1]
