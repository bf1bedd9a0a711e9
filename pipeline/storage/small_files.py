"""Small files that a user names, read whole: regular ones alone, never waited for, and never more than is allowed."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from pipeline.errors import InputError
from pipeline.storage.regular import NOT_REGULAR, is_special


def check_not_special(path: Path, where: str) -> None:
    """InputError where a path that the user gives is there and is neither a regular file nor a folder.

    Args:
        where: what the message begins with, such as "--areas ".
    """
    if is_special(path):
        raise InputError(f"{where}{path} {NOT_REGULAR}; write what it gives to a file, and name that")


def read_small(path: Path, longest: int) -> bytes:
    """The whole content of a file.

    Args:
        longest: bytes that it may have.

    Raises:
        OSError: it cannot be read, is not a regular file, or is longer; `strerror` says so.
    """
    # A pipe would be waited for; what is opened is looked at, and not what had the name before.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, NOT_REGULAR, os.fspath(path))
        content = file.read(longest + 1)
    if len(content) > longest:
        raise OSError(errno.EFBIG, f"has more than {longest:,} bytes, which is too much for it", str(path))
    return content
