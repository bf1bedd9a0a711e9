"""Inputs and small releases that are made once a session, by whichever of its workers asks first."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from releases.small import run


def spec_once(factory: pytest.TempPathFactory, name: str, write: Callable[[Path], Path]) -> Path:
    """The spec that `write` writes into a folder with its inputs; to be read only."""
    return made_once(factory, f"{name} inputs", write)


def release_once(factory: pytest.TempPathFactory, name: str, spec: Path) -> Path:
    """A copy of the release of a spec that `spec_once` gave, for this worker alone."""
    root = made_once(factory, f"{name} released", lambda folder: run(spec, folder))
    return Path(shutil.copytree(root, factory.mktemp(name) / root.name))


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Path]) -> Path:
    """What `make` gives that was called with a new folder, in this worker or in another."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder, told = base / "once" / name, base / "once" / f"{name}.txt"
    told.parent.mkdir(exist_ok=True)
    with FileLock(told.with_suffix(".lock")):
        if not told.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            told.write_text(str(make(folder)), encoding="utf-8")
        return Path(told.read_text("utf-8"))
