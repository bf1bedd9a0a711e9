"""A file's path as the libraries below must be given it, so that they take it for nothing but a path."""

from __future__ import annotations

import os
from pathlib import Path


def local_name(path: Path) -> str:
    """The absolute path: pyarrow takes a relative one with a colon, "results:may/a.parquet", for an address."""
    return str(path.absolute())


def is_file(path: Path) -> bool:
    """Whether there is such a file; never where the name is longer than that of any, of which `Path.is_file` fails."""
    return os.path.isfile(path)  # noqa: PTH113
