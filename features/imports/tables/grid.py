"""Grid cells as a spine: coordinates, or INSPIRE cell codes, to a tree of squares of which four make one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from geography.codes import counted, first_few
from pipeline.errors import InputError

_INSPIRE = re.compile(
    r"(?:CRS[0-9]+)?(?:RES)?(?P<size>[0-9]+)(?P<unit>k?m)N(?P<north>-?[0-9]+)E(?P<east>-?[0-9]+)", re.IGNORECASE
)
_NUMBER = re.compile(r"-?[0-9]+(?:[.,][0-9]*)?")
_MOST_LEVELS = 16


@dataclass(frozen=True)
class GridRequest:
    """The user's grid: one column of INSPIRE codes, or columns of x and y and the size of a cell in their units."""

    columns: tuple[str, ...]
    size: int | None = None

    @classmethod
    def parse(cls, text: str) -> GridRequest:
        """`CODES`, or `X,Y:SIZE`.

        Raises:
            InputError: the text is neither.
        """
        names, _, size = text.rpartition(":") if ":" in text else (text, "", "")
        columns = tuple(part.strip() for part in names.split(",") if part.strip())
        if (len(columns) == 1 and not size) or (len(columns) == 2 and size.isdecimal() and int(size) > 0):
            return cls(columns, int(size) if size else None)
        raise InputError(
            f"--grid: found {text!r}; allowed are a column of INSPIRE codes, --grid cell, or the columns of easting "
            "and northing with the size of a cell in their units, --grid x,y:100"
        )


@dataclass(frozen=True)
class Grid:
    """Square cells on a tree: each level's squares are twice as wide as those of the level below.

    Attributes:
        size: of a leaf, in metres or the coordinates' units.
        n_levels: the top has one square, or as few as the levels allow.
    """

    size: int
    n_levels: int

    @property
    def level_names(self) -> tuple[str, ...]:
        """Such as 4km, 2km, 1km."""
        return tuple(size_text(self.size << up) for up in reversed(range(self.n_levels)))

    def codes(self, north: int, east: int) -> tuple[str, ...]:
        """The codes of the leaf (its row and column) on every level, top first."""
        return tuple(
            cell_code(self.size << up, (north >> up) * (self.size << up), (east >> up) * (self.size << up))
            for up in reversed(range(self.n_levels))
        )


def size_text(size: int) -> str:
    """The side of a cell, in metres, as codes have it: "1km", "100m"."""
    return f"{size // 1000}km" if size % 1000 == 0 else f"{size}m"


def cell_code(size: int, north: int, east: int) -> str:
    """The INSPIRE code of a cell by its lower left corner, without the zeros in which the size ends."""
    unit = 10 ** _zeros(size)
    return f"{size_text(size)}N{north // unit}E{east // unit}"


def _zeros(size: int) -> int:
    return len(str(size)) - len(str(size).rstrip("0"))


def cells_of_codes(codes: Sequence[str], place: str) -> tuple[int, list[tuple[int, int]]]:
    """The size of INSPIRE cells, and the row and column of each.

    Short codes leave out the zeros that all cells of a size end in (1kmN2599E4695), long ones have full metres.

    Raises:
        InputError: a code is none, or the sizes differ.
    """
    matches = [_INSPIRE.fullmatch(code) for code in codes]
    if unreadable := [code for code, match in zip(codes, matches, strict=True) if match is None]:
        raise InputError(
            f"{place}: {counted(len(unreadable), 'code')} that "
            f"{'is' if len(unreadable) == 1 else 'are'} not an INSPIRE cell: "
            f"{first_few(unreadable)}; allowed are such as 1kmN2599E4695 or CRS3035RES1000mN2599000E4695000"
        )
    matched = [match for match in matches if match is not None]
    sizes = {int(match["size"]) * (1000 if match["unit"].lower() == "km" else 1) for match in matched}
    if len(sizes) != 1:
        raise InputError(f"{place}: cells of several sizes ({', '.join(map(size_text, sorted(sizes)))}); one is needed")
    (size,) = sizes
    zeros = _zeros(size)
    numbers = [(int(match["north"]), int(match["east"])) for match in matched]
    full = all(north % size == 0 and east % size == 0 for north, east in numbers) and any(
        "RES" in match[0].upper() or max(len(match["north"]), len(match["east"])) > 7 - zeros for match in matched
    )
    if full:
        return size, [(north // size, east // size) for north, east in numbers]
    step = size // 10**zeros
    if wrong_step := [match[0] for match, (n, e) in zip(matched, numbers, strict=True) if n % step or e % step]:
        raise InputError(f"{place}: {first_few(wrong_step)}: no corner of a cell of {size_text(size)}")
    return size, [(north // step, east // step) for north, east in numbers]


def cell_of_point(x: str, y: str, size: int) -> tuple[int, int] | None:
    """Row and column of the cell in which a point lies; None where a coordinate is not a number."""
    if not _NUMBER.fullmatch(x) or not _NUMBER.fullmatch(y):
        return None
    return _floored(y, size), _floored(x, size)


def _floored(text: str, size: int) -> int:
    """floor(number / size), exactly: the fraction of a unit never decides, as size is a whole number."""
    whole, _, fraction = text.replace(",", ".").partition(".")
    number = int(whole)
    if whole.startswith("-") and fraction.strip("0"):
        number -= 1
    return number // size


def grid_of(size: int, cells: Sequence[tuple[int, int]]) -> Grid:
    """The tree over the cells, up to one square where the levels allow."""
    n_levels = 1
    norths, easts = [north for north, _ in cells], [east for _, east in cells]
    corners = [(min(norths), min(easts)), (max(norths), max(easts))]
    while n_levels < _MOST_LEVELS:
        up = n_levels - 1
        if corners[0][0] >> up == corners[1][0] >> up and corners[0][1] >> up == corners[1][1] >> up:
            break
        n_levels += 1
    return Grid(size, n_levels)
