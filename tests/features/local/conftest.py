"""The releases of reports that the matrix makes, once a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from matrix.cases import CASES
from matrix.conftest import FolderOf, folder_of

__all__ = ["folder_of"]


@pytest.fixture
def made_of(folder_of: FolderOf) -> Callable[[str], Path]:
    """The folder of a case by its name; for reading only."""
    named = {case.name: case for case in CASES}
    return lambda name: folder_of(named[name])
