"""Small files that a command is told to write or to read."""

from __future__ import annotations

import os
from pathlib import Path

from pipeline.errors import InputError, ReleaseError
from pipeline.storage.small_files import read_small

#: Bytes of a proof or a checkpoint that is read.
_LONGEST = 1 << 24


def write_output(target: Path, data: bytes) -> None:
    """Write a file whole or not at all; ReleaseError where it cannot be written."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ReleaseError(f"cannot write {target}: {error.strerror}") from None


def read_input(path: Path) -> bytes:
    """The content of a file; InputError where it cannot be read."""
    try:
        return read_small(path, _LONGEST)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
