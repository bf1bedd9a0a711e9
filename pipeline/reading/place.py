"""Where a finished release is."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import InputError
from pipeline.layout import RunDirectory


def release_at(folder: Path) -> RunDirectory:
    """The release in `folder`, which is a run's directory or the public/ folder of one.

    Raises:
        InputError: there is no finished release.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; the directory of a release is needed")
    root = folder.parent if folder.name == "public" and not (folder / "public").exists() else folder
    run = RunDirectory(root.resolve())
    if not run.manifest.is_file():
        raise InputError(f"{folder}: no finished release is here; {run.manifest} is missing")
    return run
