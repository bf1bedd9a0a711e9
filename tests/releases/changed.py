"""Which files of a release a reader opens, by whatever way, and whether it refuses each of them once it is changed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import SpinewiseError

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
#: Folders that are looked at, and what was opened to be read in them.
_seen: dict[str, set[str]] = {}


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open" or not _seen or not isinstance(arguments[0], str | os.PathLike):
        return
    path, flags = Path(os.path.realpath(arguments[0])), arguments[2]
    if not isinstance(flags, int) or flags & _WRITING or not path.is_file():
        return
    for folder, found in _seen.items():
        if path.is_relative_to(folder):
            found.add(path.relative_to(folder).as_posix())


sys.addaudithook(_note)


@contextmanager
def opened_files(public: Path) -> Iterator[set[str]]:
    """The files below a folder that this process opens to read in the block, manifests and signatures aside."""
    folder, found = os.path.realpath(public), set[str]()
    _seen[folder] = found
    try:
        yield found
    finally:
        del _seen[folder]
    found -= {name for name in found if name.endswith((".sig", "manifest.json", "answer.json", "combined.json"))}


def not_refused(public: Path, read: Callable[[], object]) -> tuple[set[str], list[str]]:
    """What a reader opens in a folder, and each of these files that it takes changed or missing, in words.

    Args:
        public: of a copy of a release, whose files are changed and brought back.
        read: reads it; it is called twice for each file that it opens.
    """
    with opened_files(public) as files:
        read()
    wrong = []
    for name in sorted(files):
        path, content = public / name, (public / name).read_bytes()
        middle = len(content) // 2
        other = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        for damage, changed in (("changed", other), ("gone", None)):
            path.unlink()
            if changed is not None:
                path.write_bytes(changed)
            try:
                read()
            except SpinewiseError as error:
                if error.exit_status != 2 or str(path) not in str(error):
                    wrong.append(f"{name} {damage}: status {error.exit_status}, {error}")
            else:
                wrong.append(f"{name} {damage}: taken as if it were the release's")
            path.write_bytes(content)
    return files, wrong
