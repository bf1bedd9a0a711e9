"""A folder of input files and their spec, made whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import InputError


class ImportFolder:
    """Writes files to a folder that is not yet in its place."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def parquet(self, name: str, table: pa.Table, *, private: bool = False) -> None:
        """Write a table; `private` gives the file mode 0600."""
        with self.file(name, private=private) as path:
            pq.write_table(table, path, compression="zstd")

    def text(self, name: str, text: str, *, private: bool = False) -> None:
        with self.file(name, private=private) as path:
            path.write_text(text, encoding="utf-8")

    @contextmanager
    def file(self, name: str, *, private: bool = False) -> Iterator[Path]:
        """The path of a new, empty file to write to."""
        path = self.path / name
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666))
        yield path


@contextmanager
def new_folder(target: Path) -> Iterator[ImportFolder]:
    """A folder to write to, which becomes `target` when the block ends without an error.

    Raises:
        InputError: `target` is there and is not an empty folder, or cannot be written.
    """
    check_new(target)
    staging = target.parent / f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        staging.mkdir(parents=True)
        try:
            yield ImportFolder(staging)
            staging.rename(target)  # over an empty folder, too
        except InputError as error:
            shutil.rmtree(staging, ignore_errors=True)
            raise InputError(str(error).replace(str(staging), str(target))) from error
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror or error}") from error


def check_new(target: Path) -> None:
    """InputError where `target` is something, and not an empty folder."""
    try:
        if target.is_dir():
            there = sorted(item.name for item in target.iterdir())
            if there:
                raise InputError(f"{target}: the folder holds {there[0]} already; give one that is new or empty")
        elif target.exists():
            raise InputError(f"{target}: is not a folder; give one that is new or empty")
    except OSError as error:
        raise InputError(f"{target}: cannot be read: {error.strerror or error}") from error
