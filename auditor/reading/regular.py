"""Whether what has a file's name is a file: whoever opens a pipe to read it waits for a writer, beyond any alarm."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from auditor.reading.findings import FormError

_NOT_REGULAR = "is not a file, but a pipe, a device or the like"


def is_special(path: Path) -> bool:
    """Whether a path, or what a link leads to, is there and is neither a regular file nor a folder."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def check_regular(path: Path) -> None:
    """OSError where a path is there and is neither a regular file nor a folder."""
    if is_special(path):
        raise OSError(errno.EINVAL, _NOT_REGULAR, os.fspath(path))


def check_folder(folder: Path) -> None:
    """FormError for the first of all that is in a folder, at any depth, that is neither a regular file nor a folder."""
    for path in sorted(folder.rglob("*")):
        if is_special(path):
            raise FormError(f"{path} {_NOT_REGULAR}")
