"""The spine: the tree of geounits, level by level, in one canonical order; its codes; and chains of only children.

Codes as arrays of text: conversion, and the checks that every list of codes has to pass.

A geounit without siblings holds the same persons as its parent. If both are measured, two shares of the budget are
spent on the same numbers; with bypassing, the upper one alone is measured, with both shares. Source: Cumings-Menon,
Abowd, Ashmead, Kifer, Leclerc, Ocker, Ratcliffe and Zhuravlev, "Geographic Spines in the 2020 Census Disclosure
Avoidance System" (arXiv 2203.16654), section 4.3, and the published production code of 2020, which "reallocates child
geounit proportions to parent geounits, for each child geounit without siblings".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from geography.errors import SpineError

#: How many offending codes an error message shows.
SHOWN = 3


def first_few(items: Sequence[object] | NDArray[Any], *, quoted: bool = True) -> str:
    """The first few of `items`, in quotes unless they are numbers, and how many more there are."""
    first = ", ".join(repr(str(item)) if quoted else str(item) for item in items[:SHOWN])
    return f"{first} and {len(items) - SHOWN:,} more" if len(items) > SHOWN else first


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """The number with its noun: "1 code", "2,000 codes"."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def strictly_increasing(codes: NDArray[np.str_]) -> bool:
    """True where each code is greater than the one before, by code point."""
    return bool((codes[1:] > codes[:-1]).all())


def check_level_names(names: Sequence[str]) -> None:
    """Raises SpineError unless each level has a name, and no two have the same."""
    if not names:
        raise SpineError("no levels are named; at least one is needed")
    for number, name in enumerate(names):
        if not isinstance(name, str) or not name.strip():
            raise SpineError(f"level {number + 1} is named {name!r}; a name of at least one letter is needed")
        if name in names[:number]:
            raise SpineError(f"levels: the name {name!r} occurs twice in {', '.join(names)}; names must differ")


def check_lengths(codes: NDArray[np.str_], name: str, width: int) -> None:
    """Raises SpineError where a code does not have `width` characters."""
    lengths = np.strings.str_len(codes)
    if not (wrong := np.flatnonzero(lengths != width)).size:
        return
    examples = ", ".join(f"{str(codes[i])!r} ({lengths[i]})" for i in wrong[:SHOWN])
    hint = "; was a leading zero lost?" if (lengths[wrong] == width - 1).all() else ""
    raise SpineError(
        f"level {name!r}: {counted(len(wrong), 'code')} of the wrong length: {examples}"
        f"{', ...' if len(wrong) > SHOWN else ''}; each must have {width} characters{hint}"
    )


def check_nul(texts: Sequence[str], what: str) -> None:
    """Raises SpineError where a text has a NUL character: numpy drops those at the end, and codes would meet."""
    if rows := [row for row, text in enumerate(texts, 1) if "\0" in text]:
        raise SpineError(
            f"{what}: {counted(len(rows), 'text')} with a NUL character, in row {first_few(rows, quoted=False)}: "
            f"{first_few([texts[row - 1] for row in rows])}; no code or name may have one"
        )


def text_array(
    values: Sequence[str | None] | NDArray[np.str_], what: str, *, missing_allowed: bool = False
) -> NDArray[np.str_]:
    """`values` as a text array, missing ones as ""; SpineError where one is not text, or is empty and may not be."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "U":
        texts = values
    else:
        items = ["" if value is None or value != value else value for value in values]
        if not_text := [item for item in items if not isinstance(item, str)]:
            raise SpineError(
                f"{what}: {len(not_text):,} not text: {first_few(not_text, quoted=False)}; give codes as text, "
                "since numbers lose leading zeros"
            )
        check_nul(items, what)
        texts = np.array(items, dtype=np.str_)
    if not len(texts):
        raise SpineError(f"{what}: the list is empty; at least one is needed")
    if not missing_allowed and (empty := np.flatnonzero(texts == "")).size:
        rows = first_few(empty + 1, quoted=False)
        raise SpineError(f"{what}: {len(empty):,} empty, in row {rows}; each row needs a code")
    return texts


def text_column(column: pa.ChunkedArray, name: str) -> pa.Array:
    """The column as text without nulls; SpineError where it holds neither text nor whole numbers, or a NUL."""
    held = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = pa.types.is_string(held) or pa.types.is_large_string(held) or pa.types.is_null(held)
    if not is_text and not pa.types.is_integer(held):
        raise SpineError(f"level {name!r}: the column holds {held}; codes must be text or whole numbers")
    text = pc.fill_null(pc.cast(column, pa.string()), "")
    if pc.any(pc.match_substring(text, "\0")).as_py():
        check_nul(text.to_pylist(), f"level {name!r}")
    return text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text


#: Geocodes that are hashed at a time.
_HASHED_AT_ONCE = 1 << 16


@dataclass(frozen=True, eq=False)
class Level:
    """One rank of the spine; its arrays are read-only, its length is the number of geounits.

    Attributes:
        name: such as "county".
        geocodes: `(n,)` text, one code per geounit, unique within the level.
        parents: `(n,)` int64, index of the parent in the level above; -1 at the top level.
    """

    name: str
    geocodes: NDArray[np.str_]
    parents: NDArray[np.int64]

    def __post_init__(self) -> None:
        for field, dtype in (("geocodes", np.str_), ("parents", np.int64)):
            array = np.ascontiguousarray(getattr(self, field), dtype=dtype).view()
            array.flags.writeable = False
            object.__setattr__(self, field, array)
        if self.geocodes.ndim != 1 or self.geocodes.shape != self.parents.shape:
            raise SpineError(
                f"level {self.name!r}: {self.geocodes.shape} geocodes and {self.parents.shape} parents; "
                "one parent for each geocode is needed"
            )

    def __len__(self) -> int:
        return len(self.geocodes)

    def __repr__(self) -> str:
        return f"Level({self.name!r}, {len(self):,} geounits)"


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The geounits of a public list that a spine leaves out.

    Attributes:
        codes: per level their geocodes; None where they are not known any more, as in a finished release: whatever is
            not on the spine is then one of them.
    """

    codes: tuple[NDArray[np.str_], ...] | None = None

    def has(self, level: int, codes: NDArray[np.str_]) -> NDArray[np.bool_]:
        """Which of some codes `(n,)`, none of them on the spine, are left out of a level; empty ones are not."""
        if self.codes is None:
            return np.asarray(codes != "")
        return np.isin(codes, self.codes[level])


@dataclass(frozen=True, eq=False)
class Spine:
    """Levels from top to bottom; every leaf is at the last level.

    The order is canonical: at each level geounits are sorted by their parent's position, then by their geocode. So the
    children of a geounit, and the leaves below it, are contiguous. The top level may hold several geounits.

    Attributes:
        levels: top first.
        left_out: what the public list has beside them; None where all of it is here.
        part: this is part of a larger spine. Its top geounits have several parents, which are not here, so their codes
            need not increase: those of a state can be smaller than those of one in the region before.

    Raises:
        SpineError: there is no level, or a level breaks that order, holds a code twice, or leaves a parent childless.
    """

    levels: tuple[Level, ...]
    left_out: LeftOut | None = None
    part: bool = False

    def __post_init__(self) -> None:
        if not self.levels:
            raise SpineError("the spine has no levels; at least one is needed")
        names = self.level_names
        if len(set(names)) < len(names):
            raise SpineError(f"a level's name occurs twice in {', '.join(names)}; names must differ")
        for above, level in zip((None, *self.levels[:-1]), self.levels, strict=True):
            _check_level(level, above, part=self.part)

    @property
    def level_names(self) -> tuple[str, ...]:
        """The names of the levels, top first."""
        return tuple(level.name for level in self.levels)

    @property
    def n_levels(self) -> int:
        """Number of levels, with the leaves' own."""
        return len(self.levels)

    @property
    def leaf_level(self) -> Level:
        """The last level."""
        return self.levels[-1]

    @property
    def n_leaves(self) -> int:
        """Number of geounits of the last level."""
        return len(self.leaf_level)

    def index_of(self, name: str) -> int:
        """Position of the level called `name`, 0 at the top; SpineError where there is none."""
        if name not in self.level_names:
            raise SpineError(f"level {name!r} is not in the spine; its levels are {', '.join(self.level_names)}")
        return self.level_names.index(name)

    def level(self, name: str) -> Level:
        """The level called `name`; SpineError where there is none."""
        return self.levels[self.index_of(name)]

    def down_to(self, name: str) -> Spine:
        """The levels from the top to the one called `name`; SpineError where there is none."""
        number = self.index_of(name)
        left_out = self.left_out
        if left_out is not None and left_out.codes is not None:
            left_out = LeftOut(left_out.codes[: number + 1])
        return Spine(self.levels[: number + 1], left_out)

    def child_offsets(self, level: int) -> NDArray[np.int64]:
        """`(n_level + 1,)`: the children of geounit i, one level down, are `offsets[i]:offsets[i + 1]`.

        Raises:
            IndexError: `level` is not a level above the leaf level.
        """
        if not 0 <= level < self.n_levels - 1:
            raise IndexError(f"level {level} has no level below; allowed are 0 to {self.n_levels - 2}")
        n = len(self.levels[level])
        return np.searchsorted(self.levels[level + 1].parents, np.arange(n + 1)).astype(np.int64)

    def repeats(self, level: int) -> bool:
        """Whether all geounits of a level are only children, so that its areas are those of the level above."""
        return level > 0 and len(self.levels[level]) == len(self.levels[level - 1])

    def leaf_offsets(self, level: int) -> NDArray[np.int64]:
        """`(n_level + 1,)`: the leaves below geounit i are `offsets[i]:offsets[i + 1]`."""
        offsets = np.arange(len(self.levels[level]) + 1, dtype=np.int64)
        for number in range(level, self.n_levels - 1):
            offsets = self.child_offsets(number)[offsets]
        return offsets

    def leaf_ancestors(self, level: int) -> NDArray[np.int64]:
        """`(n_leaves,)` index, in the given level, of each leaf's ancestor."""
        ancestors = np.arange(self.n_leaves, dtype=np.int64)
        for below in reversed(self.levels[level + 1 :]):
            ancestors = below.parents[ancestors]
        return ancestors

    def find_leaves(self, codes: NDArray[np.str_]) -> NDArray[np.int64]:
        """`(n,)` index of the leaf of each code; -1 where no leaf has the code."""
        geocodes = np.asarray(codes, dtype=np.str_)
        order = self._leaf_order
        leaves = self.leaf_level.geocodes
        position = np.searchsorted(leaves, geocodes, sorter=order)
        row = np.minimum(position, self.n_leaves - 1)
        index = row if order is None else order[row]
        return np.where(leaves[index] == geocodes, index, -1).astype(np.int64)

    @cached_property
    def _leaf_order(self) -> NDArray[np.int64] | None:
        """The leaves in the order of their codes; None where that is the spine's own order."""
        codes = self.leaf_level.geocodes
        return None if strictly_increasing(codes) else np.argsort(codes, kind="stable")

    def rows_below(self, level: int, first: int, last: int) -> tuple[slice, ...]:
        """The rows, at `level` and each level below it, of geounits `first` to `last` (excluded) and all below them.

        Raises:
            IndexError: there are no such geounits.
        """
        if not 0 <= level < self.n_levels or not 0 <= first < last <= len(self.levels[level]):
            raise IndexError(f"no geounits {first} to {last} at level {level} of {self}")
        rows = [slice(first, last)]
        for below in self.levels[level + 1 :]:
            start, stop = np.searchsorted(below.parents, [rows[-1].start, rows[-1].stop])
            rows.append(slice(int(start), int(stop)))
        return tuple(rows)

    def slice(self, level: int, first: int, last: int | None = None) -> Spine:
        """The spine of geounits `first` to `last` (excluded) of `level`, its top level, and all below them.

        Args:
            level: index of the level, 0 at the top.
            first: index of the first geounit.
            last: index after the last geounit; without it, the spine of `first` alone.

        Raises:
            IndexError: there are no such geounits.
        """
        rows = self.rows_below(level, first, first + 1 if last is None else last)
        top = self.levels[level]
        levels = [Level(top.name, top.geocodes[rows[0]], np.full(rows[0].stop - first, -1, dtype=np.int64))]
        for below, above, own in zip(self.levels[level + 1 :], rows, rows[1:], strict=False):
            levels.append(Level(below.name, below.geocodes[own], below.parents[own] - above.start))
        return Spine(tuple(levels), part=True)

    def fingerprint(self) -> str:
        """SHA-256 in hexadecimal over the level names, geocodes and parents."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        header = [["spine", 1], *([level.name, len(level)] for level in self.levels)]
        digest = hashlib.sha256(json.dumps(header).encode())
        for level in self.levels:
            # The lengths make the joined codes unambiguous, whatever characters they hold.
            digest.update(np.strings.str_len(level.geocodes).astype("<i8").tobytes())
            for first in range(0, len(level), _HASHED_AT_ONCE):
                digest.update("".join(level.geocodes[first : first + _HASHED_AT_ONCE].tolist()).encode())
            digest.update(level.parents.astype("<i8").tobytes())
        return digest.hexdigest()

    def to_table(self) -> pa.Table:
        """A table with one row per leaf and one string column per level, as `spine_from_table` reads it."""
        columns = [
            pa.array(level.geocodes.tolist(), pa.string()).take(pa.array(self.leaf_ancestors(number)))
            for number, level in enumerate(self.levels)
        ]
        return pa.table(dict(zip(self.level_names, columns, strict=True)))

    def __repr__(self) -> str:
        return f"Spine({' > '.join(f'{level.name} {len(level):,}' for level in self.levels)})"


def _check_level(level: Level, above: Level | None, *, part: bool) -> None:
    """Raises SpineError unless `level` is in canonical order below `above`; `part` as of the spine."""
    where = f"level {level.name!r}"
    codes, parents = level.geocodes, level.parents
    if not len(level):
        raise SpineError(f"{where}: no geounits; at least one is needed")
    if above is None:
        steps = np.zeros(len(level) - 1, dtype=np.int64)
        tree = bool((parents == -1).all())
    else:
        steps = np.diff(parents)
        tree = bool(parents[0] == 0 and parents[-1] == len(above) - 1 and ((steps == 0) | (steps == 1)).all())
    if not tree:
        allowed = "-1 at the top level" if above is None else f"0 to {len(above) - 1} in order, each at least once"
        raise SpineError(f"{where}: the parents are not {allowed}")
    increasing = codes[1:] > codes[:-1]
    if not (part and above is None) and (unsorted := np.flatnonzero(~increasing & (steps == 0))).size:
        raise SpineError(f"{where}: codes out of order or twice under one parent: {first_few(codes[unsorted + 1])}")
    if not increasing.all():
        ordered = np.sort(codes)
        if (twice := np.unique(ordered[1:][ordered[1:] == ordered[:-1]])).size:
            raise SpineError(
                f"{where}: codes under two parents: {first_few(twice)}; a code must be unique in its level"
            )


#: The last level of a geounit that is not measured, because one above is measured in its place.
NOT_MEASURED = -1


def only_children(spine: Spine) -> list[NDArray[np.bool_]]:
    """Per level, top first, `(n,)` True where a geounit has a parent and no siblings."""
    only_child = [np.zeros(len(spine.levels[0]), dtype=np.bool_)]
    for number in range(spine.n_levels - 1):
        alone = np.diff(spine.child_offsets(number)) == 1
        only_child.append(alone[spine.levels[number + 1].parents])
    return only_child


def last_levels(spine: Spine, measured: Sequence[bool]) -> list[NDArray[np.int64]]:
    """The lowest level whose share of the budget the measurement of each geounit takes.

    Of a chain of geounits, each the only child of the one above, the highest at a level with queries is measured, with
    the shares of its own level and of all levels of the chain below it. So on every path from the top to a leaf the
    shares add up to what they do without bypassing.

    Args:
        spine: the geounits.
        measured: per level, whether the strategy has queries there.

    Returns:
        Per level, top first, `(n,)`: the index of that level, which is the geounit's own where nothing is bypassed;
        `NOT_MEASURED` where a geounit above is measured instead, or where the level has no queries.
    """
    alone = only_children(spine)
    bottom = [np.full(len(level), number, dtype=np.int64) for number, level in enumerate(spine.levels)]
    for number in range(spine.n_levels - 2, -1, -1):
        first = spine.child_offsets(number)[:-1]
        bottom[number] = np.where(alone[number + 1][first], bottom[number + 1][first], number)
    last: list[NDArray[np.int64]] = []
    taken = np.zeros(0, dtype=np.bool_)
    for number, level in enumerate(spine.levels):
        above = taken[level.parents] & alone[number] if number else np.zeros(len(level), dtype=np.bool_)
        keeps = ~above & bool(measured[number])
        last.append(np.where(keeps, bottom[number], NOT_MEASURED))
        taken = above | keeps
    return last
