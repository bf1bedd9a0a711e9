"""Files with a secret that only their owner may use: never replaced, and read only where nobody else could."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from geography.errors import InputError
from pipeline.storage.durable import sync_folder

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_private(path: Path, what: str, longest: int) -> bytes:
    """The first `longest` bytes of a file with a secret.

    Args:
        path: the file.
        what: what it is called in messages, such as "key file".
        longest: bytes that are read at most.

    Raises:
        InputError: there is no such file, or users other than its owner may use it; nothing of it is shown.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"{what} {path}: cannot be opened ({error.strerror})") from None
    with file:
        mode = os.fstat(file.fileno()).st_mode  # of the very file that is read
        if not stat.S_ISREG(mode):
            raise InputError(f"{what} {path}: found something that is not a regular file")
        if os.name == "posix" and mode & _OTHERS:
            raise InputError(
                f"{what} {path}: found mode {stat.S_IMODE(mode):04o}, which lets users other than the owner use "
                "the key; 0600 or 0400 is allowed (chmod 600), and if others may have read it, a new key is needed"
            )
        return file.read(longest)


def write_private(path: Path, what: str, content: bytes) -> None:
    """Create a file with mode 0600, whole or not at all. An existing file is never replaced.

    Raises:
        InputError: the file exists, or the folder does not take it.
    """
    try:
        # mkstemp creates with mode 0600; link, unlike rename, fails where the name is taken.
        descriptor, temporary = tempfile.mkstemp(prefix=".key-", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, path)
        finally:
            Path(temporary).unlink()
    except FileExistsError:
        raise InputError(f"{what} {path}: exists already; a key is never overwritten") from None
    except OSError as error:
        raise InputError(f"{what} {path}: cannot be written ({error.strerror})") from None
    with contextlib.suppress(OSError):  # a folder cannot be synced on every file system
        sync_folder(path.parent)
