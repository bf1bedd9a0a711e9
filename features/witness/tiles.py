"""The files of a log, as C2SP's tlog-tiles lays them out, so that any web server can publish the folder as it is.

    checkpoint                        the newest signed checkpoint
    tile/<level>/<number>[.p/<width>] up to 256 hashes; at level 0 of entries, above of whole tiles of the level below
    tile/entries/<number>[.p/<width>] up to 256 entries, each preceded by its length in two bytes

A number is written in groups of three digits, all but the last after an x: 1234067 is x001/x234/067. What is in a file
never changes: a tile that is not full gets a new name with every size. So the last step of adding an entry, the new
checkpoint, is the one that counts.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pipeline.errors import ReleaseError
from pipeline.release.merkle import leaf_hash, root_of
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
