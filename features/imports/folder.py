"""A folder of input files and their spec, made complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import InputError
from pipeline.storage.files import new_folder
from pipeline.storage.local_name import local_name


class ImportFolder:
    """Writes files to a folder that is not yet in its place."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def parquet(self, name: str, table: pa.Table, *, private: bool = False) -> None:
        """Write a table; `private` gives the file mode 0600."""
        with self.file(name, private=private) as path:
            pq.write_table(table, local_name(path), compression="zstd")

    def text(self, name: str, text: str, *, private: bool = False) -> None:
        """Write a text file `name` in UTF-8; `private` makes it readable by its owner only."""
        with self.file(name, private=private) as path:
            path.write_text(text, encoding="utf-8")

    @contextmanager
    def file(self, name: str, *, private: bool = False) -> Iterator[Path]:
        """The path of a new, empty file to write to."""
        path = self.path / name
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666))
        yield path


@contextmanager
def import_folder(out: Path) -> Iterator[ImportFolder]:
    """A folder to write to, which becomes `out` when the block ends without an error; see `storage.files.new_folder`.

    Raises:
        InputError: `out` is there and is not an empty folder, or what is imported is wrong.
        ReleaseError: writing fails.
    """
    with new_folder(out) as folder:
        try:
            yield ImportFolder(folder)
            private = sorted(path.name for path in folder.iterdir() if not path.stat().st_mode & 0o077)
            # The records are not to be committed with the spec beside them.
            if private:
                (folder / ".gitignore").write_text("".join(f"/{name}\n" for name in private), encoding="utf-8")
        except InputError as error:
            raise InputError(str(error).replace(str(folder), str(out))) from error
