"""Releases of the matrix, for reading only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from matrix.cases import CASES
from matrix.conftest import FolderOf
from matrix.conftest import folder_of as folder_of  # a fixture


@pytest.fixture
def made(folder_of: FolderOf) -> Callable[[str], Path]:
    """The directory of the release of a case, by its name."""
    cases = {case.name: case for case in CASES}
    return lambda name: folder_of(cases[name]) / cases[name].published[-1]


@pytest.fixture
def town(made: Callable[[str], Path]) -> Path:
    """A small town with running sums."""
    return made("cumulative")
