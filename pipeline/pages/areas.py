"""The areas of a level and the rows of a table in a page, as `decode.js`, `figures.js` and `search.js` read them.

What fits is in the page, the rest in files beside it (`chunks`); large levels and tables are cut into pieces, a file
each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.pages.chunks import Chunks
from pipeline.pages.encoding import packed_lines, packed_numbers
from postprocess.arrays import IntArray

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
