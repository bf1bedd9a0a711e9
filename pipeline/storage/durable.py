"""Files whose names survive a crash of the machine: the folder's own entry must reach the disk too."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["sync_folder"]


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
