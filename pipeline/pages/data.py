"""The data of a page: arrays as text, areas and rows as its scripts read them, and packed texts by number.

Arrays as text in a page: whole numbers byte plane by byte plane, compressed, in base64.

The low bytes of all numbers come first, then the next bytes, and so on: most planes of a table of counts are nearly all
zero. The compression is that of pyarrow, whose version the manifest states, so that the same numbers give the same
text. `explorer.js` reads it back with the browser's own decompression.

The report's data: packed texts by number, in the page while they fit, else in files of their own beside it.

A file is a script, `report/NUMBER.js`, so that a page that was opened from a disk can load it, too. `decode.js` does so
when its number is first asked for.

The areas of a level and the rows of a table in a page, as `decode.js`, `figures.js` and `search.js` read them.

What fits is in the page, the rest in files beside it (`chunks`); large levels and tables are cut into pieces, a file
each.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from geography.spine import Spine
from postprocess.arrays import IntArray

#: Whole numbers beyond this are not exact in a browser.
LARGEST_NUMBER = 2**53
_LEVEL = 4


def packed_numbers(numbers: IntArray) -> str:
    """Whole numbers from 0, of any shape, in C order; compressed, in base64.

    The first byte says how many bytes a number has.

    Raises:
        ValueError: a number is negative or larger than 2^53.
    """
    flat = np.ascontiguousarray(numbers, dtype="<i8").ravel()
    largest = int(flat.max()) if flat.size else 0
    if largest > LARGEST_NUMBER or (flat.size and int(flat.min()) < 0):
        raise ValueError(f"whole numbers from 0 to 2^53 can be packed, got {int(flat.min())} to {largest}")
    width = max(1, (largest.bit_length() + 7) // 8)
    planes = flat.view(np.uint8).reshape(-1, 8)[:, :width].T
    return _packed(bytes([width]) + np.ascontiguousarray(planes).tobytes())


def packed_lines(lines: Sequence[str]) -> str:
    """Lines of text, compressed, in base64."""
    return _packed("\n".join(lines).encode())


def _packed(data: bytes) -> str:
    codec = pa.Codec("gzip", compression_level=_LEVEL)  # one of its own: threads must not share one
    return base64.b64encode(codec.compress(data, asbytes=True)).decode("ascii")


#: Characters of all tables, names and outlines in the page.
LARGEST = 3_000_000

#: Writes the file of a number; its text is whole.
Write = Callable[[int, str], None]


def nowhere(number: int, text: str) -> None:
    """Writes nothing: for a page without what is beside it."""


@dataclass
class Chunks:
    """What is in the page, by number, and how much there is.

    Attributes:
        write: of what does not fit.
        in_page: number -> packed text.
        size: characters in the page that count for `LARGEST`.
        beside: how many are in files.
    """

    write: Write = nowhere
    in_page: dict[int, str] = field(default_factory=dict)
    size: int = 0
    beside: int = 0

    def fit(self, *texts: str) -> bool:
        """Whether the page has room for these."""
        return self.size + sum(map(len, texts)) <= LARGEST

    def add(self, text: str) -> int:
        """The number of a text: in the page if it fits, else in a file."""
        if not self.fit(text):
            return self.add_beside([text])
        self.size += len(text)
        return self.add_in_page(text)

    def add_in_page(self, text: str) -> int:
        """The number of a text that has a limit of its own."""
        number = self._next()
        self.in_page[number] = text
        return number

    def add_beside(self, texts: Iterable[str]) -> int:
        """The number of the first of some texts in files; those of the others follow."""
        first = self._next()
        for number, text in enumerate(texts, first):
            self.write(number, f'held({number},"{text}")\n')
            self.beside += 1
        return first

    def _next(self) -> int:
        return len(self.in_page) + self.beside


#: Numbers of one table and level beyond which it is not tried whether all of it fits into the page.
_MOST_IN_PAGE = 12_000_000
#: Areas of a level beyond which their codes and names are cut into pieces, and of each piece.
WHOLE, _AREAS = 300_000, 65_536
#: Numbers of each piece of a table.
_NUMBERS = 1 << 17


def areas_of_level(
    chunks: Chunks, spine: Spine, number: int, label: str, names: Sequence[str] | None
) -> dict[str, object]:
    """The areas of a level as `figures.js` reads them.

    Args:
        chunks: that codes and names are added to.
        spine: whose level it is.
        number: of the level, from the top.
        label: of it, for people.
        names: of its areas, in order; None where they have none.
    """
    level, prefixed = spine.levels[number], _prefixed(spine, number)
    children = np.zeros(0, dtype=np.int64) if number == 0 else np.diff(spine.child_offsets(number - 1))
    rows = len(level) if len(level) <= WHOLE else _AREAS
    entry: dict[str, object] = {"name": level.name, "label": label, "n": len(level), "rows": rows, "map": None}
    entry |= {
        "codes": lines_of_areas(chunks, partial(_codes, spine, number, prefixed), len(level), rows),
        "prefixed": prefixed,
    }
    entry["children"] = chunks.add(packed_numbers(children))
    if names is not None:
        entry["names"] = lines_of_areas(chunks, lambda first, end: names[first:end], len(level), rows)
    return entry


def lines_of_areas(chunks: Chunks, lines: Callable[[int, int], Sequence[str]], areas: int, rows: int) -> int:
    """The number of the chunk of some lines, or of the first of their pieces.

    Args:
        lines: of the areas from one to another.
    """
    if areas <= rows:
        return chunks.add(packed_lines(lines(0, areas)))
    return chunks.add_beside(packed_lines(lines(first, first + rows)) for first in range(0, areas, rows))


def _prefixed(spine: Spine, number: int) -> bool:
    """Whether every geocode of a level begins with its parent's."""
    level, step = spine.levels[number], _AREAS
    return number > 0 and all(
        np.strings.startswith(level.geocodes[at : at + step], _above(spine, number, at, at + step)).all()
        for at in range(0, len(level), step)
    )


def _codes(spine: Spine, number: int, prefixed: bool, first: int, end: int) -> list[str]:
    """Geocodes of a level from one to another, without their parents' where these are prefixes."""
    codes: list[str] = spine.levels[number].geocodes[first:end].tolist()
    if not prefixed:
        return codes
    lengths = np.strings.str_len(_above(spine, number, first, end)).tolist()
    return [code[length:] for code, length in zip(codes, lengths, strict=True)]


def _above(spine: Spine, number: int, first: int, end: int) -> NDArray[np.str_]:
    return spine.levels[number - 1].geocodes[spine.levels[number].parents[first:end]]


def rows_of_table(chunks: Chunks, parts: Iterable[IntArray], areas: int, size: int) -> dict[str, object]:
    """Rows of a table, part by part, `(n, columns)`, as `figures.js` reads them: in the page, or in pieces beside it.

    Args:
        chunks: that they are added to.
        parts: of counts, or of these, then 0, 1 or how far each interval reaches below + 2, then how far above; see
            `figures.js`.
        areas, size: of the level, and numbers in a row.
    """
    if areas * size <= _MOST_IN_PAGE:
        whole = np.concatenate(list(parts))
        packed = packed_numbers(whole.T)
        if chunks.fit(packed):
            return {"numbers": chunks.add(packed), "rows": areas}
        parts = [whole]
    rows = max(1, _NUMBERS // size)
    pieces = (packed_numbers(piece.T) for piece in _cut(parts, rows))
    return {"numbers": chunks.add_beside(pieces), "rows": rows}


def _cut(parts: Iterable[IntArray], rows: int) -> Iterator[IntArray]:
    """The same rows in pieces of `rows`; the last may be shorter."""
    kept: list[IntArray] = []
    waiting = 0
    for part in parts:
        rest = part
        while waiting + len(rest) >= rows:
            yield np.concatenate([*kept, rest[: rows - waiting]])
            rest, kept, waiting = rest[rows - waiting :], [], 0
        if len(rest):
            kept.append(rest)
            waiting += len(rest)
    if waiting:
        yield np.concatenate(kept)
