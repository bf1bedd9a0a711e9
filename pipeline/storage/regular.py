"""Whether what has a file's name is a file: whoever opens a pipe to read it waits for a writer, beyond any alarm."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

#: What a path that is neither a regular file nor a folder is called in messages.
NOT_REGULAR: Final = "is not a file that can be read twice, but a pipe, a device or the like"


def is_special(path: Path) -> bool:
    """Whether a path, or what a link leads to, is there and is neither a regular file nor a folder."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def check_regular(path: Path) -> None:
    """OSError where a path is there and is neither a regular file nor a folder: whoever opened a pipe would wait."""
    if is_special(path):
        raise OSError(errno.EINVAL, NOT_REGULAR, os.fspath(path))
