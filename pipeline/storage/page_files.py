"""Pages that a command writes where its user says: never over a file of another kind, whole or not at all."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import InputError, ReleaseError
from pipeline.storage.files import write_bytes

_ENDINGS = (".html", ".htm")


def check_page_file(option: str, path: Path) -> None:
    """InputError, before anything is computed, if no page is to be written to the path: it may name an input."""
    if path.suffix not in _ENDINGS:
        raise InputError(f"{option} {path}: found the ending {path.suffix!r}; the name of a page ends in .html")
    if not path.parent.is_dir():
        raise InputError(f"{option} {path}: there is no folder {path.parent}")


def write_page_file(option: str, path: Path, page: str) -> None:
    """Write a page; InputError where that fails, and what stood there is as it was."""
    try:
        write_bytes(path, page.encode(), path.parent)
    except (OSError, ReleaseError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{option} {path}: cannot be written ({why})") from None
