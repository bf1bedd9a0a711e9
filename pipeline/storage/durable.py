"""Files whose names survive a crash of the machine: the folder's own entry must reach the disk too."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Wait until what the folder lists is on the disk.

    Raises:
        OSError: the folder cannot be opened, or its file system cannot do it.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path, *, private: bool = False) -> None:
    """Create `path` and what is missing above it, durably; all of it with mode 0700 if `private`, else by the umask.

    `Path.mkdir(parents=True, mode=...)` gives its mode to the last folder alone, and the others what the umask allows.
    """
    if path.is_dir():
        return
    make_folder(path.parent, private=private)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700 if private else 0o777)
    sync_folder(path.parent)
