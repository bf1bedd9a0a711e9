"""What stands at a path: a regular file and no pipe, read whole where it is small, as TOML, or as a file of a release.

What opens a file of a release takes a `Readable`, and no path. `PublishedFiles.unchanged` gives one of each file of a
finished release; a run gives one of each file of its own. `unchecked` gives one of any path: a test of the project
names every place that calls it, with the reason.
"""

from __future__ import annotations

import errno
import os
import stat
import tomllib
from pathlib import Path
from typing import Any, Final, NewType

from pipeline.errors import InputError


def local_name(path: Path) -> str:
    """The absolute path: pyarrow takes a relative one with a colon, "results:may/a.parquet", for an address."""
    return str(path.absolute())


def is_file(path: Path) -> bool:
    """Whether there is such a file; never where the name is longer than that of any, of which `Path.is_file` fails."""
    return os.path.isfile(path)  # noqa: PTH113


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


#: Bytes of a spec or of settings.
_LONGEST: Final = 1 << 26


class TomlError(Exception):
    """A text is not TOML; the message says where and why."""


def read_toml_text(path: Path) -> str:
    """The text of a file.

    Raises:
        OSError: it cannot be read, is too long, or is no regular file: a pipe could be waited for without end.
        UnicodeDecodeError: it is not UTF-8.
    """
    if path.is_dir():
        raise OSError(errno.EISDIR, "is a folder")
    return read_small(path, _LONGEST).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def parse_toml(text: str) -> dict[str, Any]:
    """The content of a TOML text.

    Raises:
        TomlError: it is none.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise TomlError("arrays or tables are nested too deep") from None
    except ValueError as error:  # TOMLDecodeError, and what Python's numbers and dates do not take
        raise TomlError(str(error)) from None


#: The path of a file that may be read as it is.
Readable = NewType("Readable", Path)


def unchecked(path: Path) -> Readable:
    """A file that is read without comparing it with a manifest."""
    return Readable(path)
