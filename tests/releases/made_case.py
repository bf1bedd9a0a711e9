"""A case of the matrix for tests that look at it beside: it is made once a session, whoever asks first."""

from __future__ import annotations

from pathlib import Path

import pytest
from matrix.cases import CASES

from releases.command import PROJECT, forks
from releases.once import made_once


def made_case(factory: pytest.TempPathFactory, name: str) -> Path:
    """The folder in which a case is made; for reading only."""
    (case,) = (case for case in CASES if case.name == name)

    def make(folder: Path) -> Path:
        case.write(folder)
        case.make(folder, PROJECT, forks())
        return folder

    return made_once(factory, f"matrix-{name}", make)
