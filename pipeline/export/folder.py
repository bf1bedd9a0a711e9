"""A folder of exported files that is either whole or not there."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import InputError, ReleaseError
from pipeline.files import write_problem


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to write to, which becomes `out` when the block ends without an error.

    Args:
        out: must not be there yet, or be an empty folder; so nothing of the user's is ever replaced.

    Raises:
        InputError: `out` holds something, or cannot be made.
        ReleaseError: writing fails; nothing is left then.
    """
    try:
        if out.is_symlink() or (out.exists() and not out.is_dir()):
            raise InputError(f"--out {out}: found something that is not a folder; a new or empty folder is needed")
        if out.is_dir() and any(out.iterdir()):
            raise InputError(f"--out {out}: the folder is not empty; name a new or empty one")
        out.parent.mkdir(parents=True, exist_ok=True)
        partial = out.parent / f".{out.name}.{os.getpid()}.{secrets.token_hex(4)}"
        partial.mkdir()
    except OSError as error:
        raise InputError(f"--out {out}: cannot be made ({error.strerror or error})") from None
    try:
        yield partial
        if out.is_dir():
            out.rmdir()
        partial.rename(out)
    except OSError as error:
        raise ReleaseError(write_problem(error, out)) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
