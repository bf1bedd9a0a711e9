"""An append-only log of releases, published as files: what was published once can be neither changed nor taken back.

Whoever keeps a checkpoint notices a log that was rolled back or that shows others something else: no two checkpoints of
one log can contradict each other. Whoever reads the log notices a release that was drawn again.

Its files are as C2SP's tlog-tiles lays them out, so that any web server can publish the folder as it is.

    checkpoint                        the newest signed checkpoint
    tile/<level>/<number>[.p/<width>] up to 256 hashes; at level 0 of entries, above of whole tiles of the level below
    tile/entries/<number>[.p/<width>] up to 256 entries, each preceded by its length in two bytes

A number is written in groups of three digits, all but the last after an x: 1234067 is x001/x234/067. What is in a file
never changes: a tile that is not full gets a new name with every size. So the last step of adding an entry, the new
checkpoint, is the one that counts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from filelock import FileLock

from features.witness.checkpoint import Checkpoint, check_origin, read_checkpoint
from features.witness.entry import LONGEST_ENTRY, Entry
from pipeline.errors import InputError, ReleaseError
from pipeline.release.merkle import EMPTY_ROOT, ProofError, check_consistency, consistency_path, leaf_hash, root_of
from pipeline.signatures.signing_keys import PublicKey, SigningKey
from pipeline.storage.durable import make_folder
from pipeline.storage.files import write_bytes

WIDTH: Final = 256
_HASH: Final = 32
#: Bytes that a file of a log has at most.
_LONGEST: Final = WIDTH * (2 + 0xFFFF)


def tile_path(folder: Path, level: str, number: int, width: int = WIDTH) -> Path:
    """Where a tile is.

    Args:
        folder: of the log.
        level: a number, or "entries".
        number: of the tile at its level.
        width: hashes or entries in it.
    """
    groups = [f"{number % 1000:03d}"]
    while number := number // 1000:
        groups.insert(0, f"x{number % 1000:03d}")
    path = folder.joinpath("tile", level, *groups)
    return path if width == WIDTH else path.with_name(f"{path.name}.p") / str(width)


def read_entries(folder: Path, size: int) -> list[bytes]:
    """The first `size` entries, after every tile was checked against them.

    Raises:
        ReleaseError: a file is missing or damaged, or a tile does not have the hashes of the entries.
    """
    entries: list[bytes] = []
    for number in range(-(-size // WIDTH)):
        width = min(WIDTH, size - number * WIDTH)
        path = _present(folder, "entries", number, width)
        found = _split(_content(path), path)
        if len(found) < width:
            raise ReleaseError(f"{path} has {len(found)} entries; {width} are needed for a log of {size}")
        entries += found[:width]
    for level, number, hashes in _tiles([leaf_hash(entry) for entry in entries], 0):
        path = _present(folder, str(level), number, len(hashes))
        if _content(path)[: len(hashes) * _HASH] != b"".join(hashes):
            raise ReleaseError(f"{path} does not have the hashes of the log's entries: something was changed")
    return entries


def write_entries(folder: Path, entries: Sequence[bytes], first: int, staging: Path) -> None:
    """Write the tiles that entries from `first` on change; those before it are there."""
    for number in range(first // WIDTH, -(-len(entries) // WIDTH)):
        bundle = entries[number * WIDTH : (number + 1) * WIDTH]
        data = b"".join(struct.pack(">H", len(entry)) + entry for entry in bundle)
        write_bytes(tile_path(folder, "entries", number, len(bundle)), data, staging)
    for level, number, hashes in _tiles([leaf_hash(entry) for entry in entries], first):
        write_bytes(tile_path(folder, str(level), number, len(hashes)), b"".join(hashes), staging)


def _tiles(hashes: list[bytes], first: int) -> list[tuple[int, int, list[bytes]]]:
    """Level, number and hashes of all tiles from the one that leaf `first` is in."""
    tiles, level, start = [], 0, first // WIDTH
    while hashes:
        cut = [hashes[place : place + WIDTH] for place in range(0, len(hashes), WIDTH)]
        tiles += [(level, number, tile) for number, tile in enumerate(cut) if number >= start]
        hashes = [root_of(tile) for tile in cut if len(tile) == WIDTH]
        level, start = level + 1, start // WIDTH
    return tiles


def _present(folder: Path, level: str, number: int, width: int) -> Path:
    """The file of a tile, or of the full one that has taken its place."""
    path = tile_path(folder, level, number, width)
    full = tile_path(folder, level, number)
    return full if not path.is_file() and full.is_file() else path


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST)
    except OSError as error:
        raise ReleaseError(f"{path} cannot be read: {error.strerror}") from None


def _split(data: bytes, path: Path) -> list[bytes]:
    entries, place = [], 0
    while place < len(data):
        length = int.from_bytes(data[place : place + 2], "big")
        entry = data[place + 2 : place + 2 + length]
        if len(data) - place < 2 or len(entry) < length:
            raise ReleaseError(f"{path} is damaged: its last entry is cut off")
        entries.append(entry)
        place += 2 + length
    return entries


class LogError(ReleaseError):
    """A log contradicts itself, or an earlier state of it."""


@dataclass(frozen=True)
class Log:
    """A log as it is now, checked from its entries to its signed checkpoint.

    Attributes:
        folder: where it is.
        checkpoint: the newest.
        entries: one a release.
    """

    folder: Path
    checkpoint: Checkpoint
    entries: tuple[Entry, ...]

    @property
    def hashes(self) -> list[bytes]:
        """The hashes of the tree's leaves."""
        return [leaf_hash(entry.data()) for entry in self.entries]

    def place_of(self, entry: Entry) -> int | None:
        """Where an entry stands, from 0; None where it does not."""
        return self.entries.index(entry) if entry in self.entries else None


def new_log(folder: Path, origin: str, key: SigningKey) -> None:
    """Make a log without entries in a new folder; InputError where the folder holds something."""
    check_origin(origin)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: exists already and is not an empty folder; a log is never overwritten")
    make_folder(folder)
    with _writing(folder) as staging:
        write_bytes(folder / "checkpoint", Checkpoint(origin, 0, EMPTY_ROOT).signed(key), staging)


def open_log(folder: Path, key: PublicKey) -> Log:
    """The log in a folder.

    Raises:
        InputError: there is none.
        ReleaseError: a file is damaged, or the files do not have the root that the key has signed.
    """
    if not (folder / "checkpoint").is_file():
        raise InputError(f"{folder}: no log is here; {folder / 'checkpoint'} is missing")
    checkpoint = read_checkpoint(folder / "checkpoint", key)
    entries = read_entries(folder, checkpoint.size)
    if root_of([leaf_hash(entry) for entry in entries]) != checkpoint.root:
        raise LogError(f"{folder}: its entries do not have the root that is signed: an entry was changed")
    return Log(folder, checkpoint, tuple(Entry.read(entry) for entry in entries))


def add_entry(folder: Path, entry: Entry, key: SigningKey) -> int:
    """Add a release, and sign the new checkpoint; returns its place. One that is there already is not added again.

    Raises:
        InputError: there is no log.
        LogError: the log has the same release with other draws, or is damaged.
    """
    if not (folder / "checkpoint").is_file():
        raise InputError(f"{folder}: no log is here; {folder / 'checkpoint'} is missing (spinewise log new makes one)")
    data = entry.data()
    if len(data) > LONGEST_ENTRY:
        raise LogError(f"the entry of {entry.release} has {len(data)} bytes; {LONGEST_ENTRY} are the most")
    with _writing(folder) as staging:
        log = open_log(folder, key.public())
        if (place := log.place_of(entry)) is not None:
            return place
        for number, other in enumerate(log.entries):
            if reason := entry.contradicts(other):
                raise LogError(f"{entry.release} is not added, since entry {number} contradicts it: {reason}")
        entries = [*(each.data() for each in log.entries), data]
        write_entries(folder, entries, log.checkpoint.size, staging)
        root = root_of([leaf_hash(each) for each in entries])
        checkpoint = Checkpoint(log.checkpoint.origin, len(entries), root)
        write_bytes(folder / "checkpoint", checkpoint.signed(key), staging)
        return len(entries) - 1


def redrawings(log: Log) -> list[str]:
    """Entries that cannot both be honest, a sentence each: the first of each that contradicts one before it."""
    problems = []
    for number, entry in enumerate(log.entries):
        reasons = ((before, entry.contradicts(other)) for before, other in enumerate(log.entries[:number]))
        found = next(((before, reason) for before, reason in reasons if reason), None)
        if found is not None:
            problems.append(f"entries {found[0]} and {number}: {found[1]}")
    return problems


def contradiction(log: Log, seen: Checkpoint) -> str:
    """Why a log cannot be the one that a signed checkpoint was seen of, in a sentence; "" if it can."""
    now = log.checkpoint
    if seen.origin != now.origin:
        return f"the checkpoint is of the log {seen.origin}, this is {now.origin}"
    if seen.size > now.size:
        return (
            f"rolled back: a checkpoint of {seen.size} entries was signed, and the log has {now.size}; it is an old "
            "copy, or entries were taken out"
        )
    path = consistency_path(log.hashes, seen.size)
    try:
        check_consistency(seen.size, seen.root, now.size, now.root, path)
    except ProofError:
        return (
            f"split view: the log's first {seen.size} entries are not those of the checkpoint, which the same key has "
            "signed; the two together prove that the log shows different things to different readers"
        )
    return ""


@contextmanager
def _writing(folder: Path) -> Iterator[Path]:
    """The folder held for one writer; gives a folder for files being written."""
    try:
        with (
            FileLock(folder / ".lock"),
            TemporaryDirectory(prefix=".staging-", dir=folder) as staging,
        ):
            yield Path(staging)
    except PermissionError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
