"""Temporary folders that do not outlive their process: those of a process that was killed go at the next start.

A folder is locked while its process lives. The system drops the lock however the process ends, also where processes
cannot see each other's numbers, as in containers that share a temporary directory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from pipeline.errors import ReleaseError
from pipeline.storage.files import write_problem

PREFIX: Final = "spinewise-"
_LOCK: Final = ".lock"
#: Seconds after which a folder without a lock was not just made.
_YOUNG: Final = 60.0


@contextmanager
def temporary_folder(purpose: str, parent: Path | None = None) -> Iterator[Path]:
    """A folder with mode 0700 that is removed when the block ends; leftovers of dead processes are removed first.

    Args:
        purpose: what it is for, part of its name.
        parent: an existing folder; by default the system's, which TMPDIR names.

    Raises:
        ReleaseError: it cannot be made.
    """
    place = Path(tempfile.gettempdir()) if parent is None else parent
    remove_leftovers(place)
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}-", dir=place))
    except OSError as error:
        raise ReleaseError(write_problem(error, place / f"{PREFIX}{purpose}")) from error
    lock = FileLock(folder / _LOCK, timeout=0, mode=0o600)
    try:
        lock.acquire()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            lock.release()


def remove_leftovers(place: Path) -> None:
    """Remove this user's folders in `place` whose processes have ended; what cannot be removed is left."""
    with suppress(OSError):
        for folder in place.glob(f"{PREFIX}*-*"):
            with suppress(OSError):
                if _is_left(folder):
                    shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    """Whether a folder is this user's own, was made by `temporary_folder`, and no process holds it."""
    status = folder.lstat()
    if not folder.is_dir() or folder.is_symlink() or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        return False
    if not (folder / _LOCK).exists():
        # Its process may be about to lock it; one of another program is never touched.
        return time.time() - status.st_mtime > _YOUNG and not any(folder.iterdir())
    lock = FileLock(folder / _LOCK, timeout=0, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        return False
    lock.release()
    return True
