"""TOML files that people write: read whole, and never waited for."""

from __future__ import annotations

import errno
import tomllib
from pathlib import Path
from typing import Any, Final

from pipeline.storage.small_files import read_small

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
