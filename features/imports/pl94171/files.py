"""Finds the files of one state's P.L. 94-171 summary file, in a folder or a zip."""

from __future__ import annotations

import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from pipeline.errors import InputError

_NAME = re.compile(r"(?P<state>[a-z]{2})(?P<part>geo|0000[1-9])(?P<year>\d{4})[^/]*\.pl", re.IGNORECASE)
_WANTED = "such as rigeo2020.pl, ri000012020.pl, ri000022020.pl and ri000032020.pl"

#: How a file's fields are cut.
Layout = Literal["pipes", "commas", "columns"]


@dataclass(frozen=True)
class SummaryPart:
    """One of the files.

    Attributes:
        path: the folder or zip file, and `member` the file in it.
        layout: how its fields are cut.
    """

    path: Path
    member: str
    layout: Layout

    @property
    def place(self) -> str:
        """The file, for messages."""
        return f"{self.path}/{self.member}"

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The file's bytes; InputError where it cannot be read."""
        with _readable(self.place):
            if self.path.is_dir():
                with (self.path / self.member).open("rb") as file:
                    yield file
            else:
                with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as member:
                    yield member


@dataclass(frozen=True)
class SummaryFiles:
    """The files of one state: the geographic header, and segments 1 to 2 (2010) or 3 (2020)."""

    state: str
    year: str
    geo: SummaryPart
    segments: tuple[SummaryPart, ...]


def find_files(path: Path) -> SummaryFiles:
    """The summary file at `path`, a folder or a zip.

    Raises:
        InputError: `path` is neither, or does not hold the files of exactly one state and year.
    """
    summaries: dict[tuple[str, str], dict[str, list[str]]] = {}
    for member in _members(path):
        if (match := _NAME.fullmatch(member.rsplit("/", 1)[-1])) is None:
            continue
        of_state = summaries.setdefault((match["state"].lower(), match["year"]), {})
        of_state.setdefault(match["part"].lower(), []).append(member)
    if not summaries:
        raise InputError(f"{path}: no file of a P.L. 94-171 summary file was found; needed are files {_WANTED}")
    if len(summaries) > 1:
        listing = ", ".join(f"{state} {year}" for state, year in sorted(summaries))
        raise InputError(
            f"{path}: files of several summary files were found ({listing}); give those of one state and year"
        )
    (((state, year), parts),) = summaries.items()
    for part, members in parts.items():
        if len(members) > 1:
            raise InputError(f"{path}: {' and '.join(sorted(members))} are both the part {part}; one is allowed")
    if missing := [part for part in ("geo", "00001", "00002") if part not in parts]:
        names = ", ".join(f"{state}{part}{year}.pl" for part in missing)
        raise InputError(f"{path}: {names} is missing; needed are files {_WANTED} (the last from 2020 on)")
    numbers = sorted(part for part in parts if part != "geo")
    if numbers[2:] not in ([], ["00003"]):
        raise InputError(
            f"{path}: {parts[numbers[-1]][0]} is not a segment of a P.L. 94-171 summary file; allowed are 1 to 3"
        )
    geo = _part(path, parts["geo"][0], "columns")
    return SummaryFiles(state, year, geo, tuple(_part(path, parts[number][0], "commas") for number in numbers))


def _members(path: Path) -> list[str]:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return sorted(item.name for item in path.iterdir() if item.is_file())
    except OSError as error:
        problem = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        raise InputError(f"{path}: {problem}; a folder or zip file with {_WANTED} is needed") from None
    if not stat.S_ISREG(mode) or not zipfile.is_zipfile(path):
        raise InputError(f"{path}: neither a folder nor a zip file; one with files {_WANTED} is needed")
    with _readable(str(path)), zipfile.ZipFile(path) as archive:
        return sorted(item.filename for item in archive.infolist() if not item.is_dir())


def _part(path: Path, member: str, otherwise: Layout) -> SummaryPart:
    """The file, its fields cut at pipes where its first line has one."""
    part = SummaryPart(path, member, "pipes")
    with part.open() as file:
        first = file.readline(1 << 16)
    if not first:
        raise InputError(f"{part.place}: the file is empty (0 bytes); at least one record is needed")
    return part if b"|" in first else SummaryPart(path, member, otherwise)


@contextmanager
def _readable(place: str) -> Iterator[None]:
    """Turns what goes wrong with reading a file into an InputError that names it."""
    try:
        yield
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{place}: cannot be read: {str(error) or type(error).__name__}") from error
