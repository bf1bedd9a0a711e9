"""A folder of input files and their spec, made complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import InputError
from pipeline.storage.files import new_folder
from pipeline.storage.paths import local_name


@dataclass(frozen=True)
class Imported:
    """What was written.

    Attributes:
        spec: the path of release.toml.
        messages: sentences for the user; of summary files without counts of single areas.
        mismatches: a line for each rule of a summary file that does not hold somewhere; they show published counts.
    """

    spec: Path
    messages: tuple[str, ...]
    mismatches: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImportFolder:
    """Writes files to a folder that is not yet in its place."""

    path: Path

    def parquet(self, name: str, table: pa.Table, *, private: bool = False) -> None:
        """Write a table; `private` gives the file mode 0600."""
        pq.write_table(table, local_name(self._new(name, private)), compression="zstd")

    def text(self, name: str, text: str, *, private: bool = False) -> None:
        """Write a text file `name` in UTF-8; `private` makes it readable by its owner only."""
        self._new(name, private).write_text(text, encoding="utf-8")

    def _new(self, name: str, private: bool) -> Path:
        path = self.path / name
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666))
        return path


def unused(name: str, taken: Container[str]) -> str:
    """A name of a column or a level that no other has."""
    while name in taken:
        name += "_"
    return name


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
