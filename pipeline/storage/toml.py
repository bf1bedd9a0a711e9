"""TOML files that people write: read whole, and never waited for."""

from __future__ import annotations

import errno
import stat
import tomllib
from pathlib import Path
from typing import Any


class TomlError(Exception):
    """A text is not TOML; the message says where and why."""


def read_toml_text(path: Path) -> str:
    """The text of a file.

    Raises:
        OSError: it cannot be read, or is no file, such as a pipe, which could be waited for without end and read once.
        UnicodeDecodeError: it is not UTF-8.
    """
    kind = path.stat().st_mode
    if stat.S_ISDIR(kind):
        raise OSError(errno.EISDIR, "is a folder")
    if not stat.S_ISREG(kind):
        raise OSError(errno.EINVAL, "is not a file that can be read twice")
    return path.read_text("utf-8-sig")


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
