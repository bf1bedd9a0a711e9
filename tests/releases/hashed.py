"""Which files of a release were opened, and which of them were hashed before that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pipeline.storage.files import sha256_file
from pipeline.storage.guard import GuardedFile


@dataclass(frozen=True)
class Seen:
    """Paths below public/: of Parquet files that were opened, and of files that were compared, each time."""

    opened: set[str] = field(default_factory=set)
    hashed: list[str] = field(default_factory=list)


@contextmanager
def every_file_hashed_first() -> Iterator[Seen]:
    """Fails where a Parquet file is opened in the block that was not compared with the manifest in it."""
    seen = Seen()

    def hashing(path: Path) -> str:
        seen.hashed.append(_name(path))
        return sha256_file(path)

    def opening(path: Path, *more: Any, **named: Any) -> GuardedFile:
        assert _name(path) in seen.hashed, f"{path} was read and never compared with the manifest"
        seen.opened.add(_name(path))
        return GuardedFile(path, *more, **named)

    with patch("pipeline.release.manifest.sha256_file", hashing), patch("pipeline.storage.files.GuardedFile", opening):
        yield seen


def _name(path: Path) -> str:
    return "/".join(path.parts[path.parts.index("public") + 1 :])
