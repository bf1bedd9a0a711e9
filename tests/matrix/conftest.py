"""Each case is made once a session, by whichever worker asks first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from releases.command import PROJECT, forks
from releases.once import made_once

from matrix.case import Case

#: The folder in which a case is made.
FolderOf = Callable[[Case], Path]


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> FolderOf:
    """For reading only; what changes files takes a copy."""

    def folder_of(case: Case) -> Path:
        def make(folder: Path) -> Path:
            case.write(folder)
            case.make(folder, PROJECT, forks())
            return folder

        return made_once(tmp_path_factory, f"matrix-{case.name}", make)

    return folder_of


@pytest.fixture
def made(request: pytest.FixtureRequest, folder_of: FolderOf) -> tuple[Case, Path]:
    """A case and the folder that it is made in."""
    return request.param, folder_of(request.param)
