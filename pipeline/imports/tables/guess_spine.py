"""Guesses which columns of a table are the levels of the spine, and makes the list of areas from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipeline.errors import InputError
from pipeline.imports.pl94171.layout import SPINE_LEVELS
from pipeline.imports.tables.profile import Column, read_text

#: Names of levels in many countries' files, from the top down; those in a line are alike.
_LEVEL_NAMES = (
    ("world", "continent"),
    ("nation", "country", "us"),
    ("region", "nuts1"),
    ("division", "nuts2"),
    ("state", "province", "land", "bundesland", "governorate", "oblast", "department", "nuts3", "prefecture"),
    ("county", "district_county", "kreis", "canton", "parish", "lau1"),
    ("municipality", "commune", "gemeinde", "town", "township", "city", "district", "subdistrict", "ward", "lau2"),
    ("tract", "sa3", "msoa", "lsoa", "sector", "zone", "superzone"),
    ("taz", "sa2"),
    ("block_group", "blockgroup", "oa", "output_area", "maz", "mgra", "sa1", "village", "enumeration_area", "ea"),
    ("block", "mesh_block", "grid", "cell_id"),
    ("leaf",),
)
_RANK = {name: rank for rank, names in enumerate(_LEVEL_NAMES) for name in names}
_ENDING = re.compile(r"_?(id|code|cd|no|nr|number|fips|geoid)$")
#: Names of columns of nested codes, each of which begins with the code of the area above.
_NESTED = ("geocode", "geoid", "geoid20", "geoid10", "block", "block_group", "blockgroup", "tract", "fips", "county")


@dataclass(frozen=True)
class GuessedSpine:
    """The levels that were found.

    Attributes:
        columns: the table's columns, the leaf's last.
        names: the levels' names, top first.
        prefixes: level -> length of its part of the one column's codes; empty where each level has a column.
        width: what codes are filled up to with zeros, where they were lost; 0 where they were not.
        told: what was guessed, a sentence each.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    prefixes: Mapping[str, int]
    width: int
    told: tuple[str, ...]

    @property
    def leaf(self) -> str:
        """The column of leaf codes."""
        return self.columns[-1]


def plain(name: str) -> str:
    """A column's name as the list of level names has it."""
    folded = re.sub(r"[\s.-]+", "_", name.strip()).lower()
    return _ENDING.sub("", folded) or folded


def level_name(name: str) -> str:
    """A level's name, which names files, of a column's."""
    cleaned = re.sub(r"[^\w-]+", "_", name.strip(), flags=re.ASCII).strip("_-")[:60]
    return cleaned or "level"


def guess_spine(path: Path, columns: Mapping[str, Column], stated: Sequence[str] = ()) -> GuessedSpine:
    """The spine of the table at `path`.

    Args:
        stated: the columns that the user names, top first; one column is one of nested codes, or the only level.

    Raises:
        InputError: a stated column is not there, or nothing in the table looks like a geography.
    """
    if stated:
        return _stated(path, columns, stated)
    by_name = sorted((_RANK[plain(name)], i, name) for i, name in enumerate(columns) if plain(name) in _RANK)
    for _, _, name in reversed(by_name):
        if (nested := _nested(columns[name], named=True)) is not None:
            return nested
    for name, column in columns.items():
        if plain(name) in _NESTED and (nested := _nested(column, named=True)) is not None:
            return nested
    if not by_name:
        for column in columns.values():
            if (nested := _nested(column, named=False)) is not None:
                return nested
        raise InputError(
            f"{path}: no column looks like a geography; name the columns from the top level down, such as "
            f"--geography county,tract (the columns are {', '.join(list(columns)[:20])})"
        )
    return _chain(path, columns, [name for _, _, name in by_name])


def _stated(path: Path, columns: Mapping[str, Column], stated: Sequence[str]) -> GuessedSpine:
    if missing := [name for name in stated if name not in columns]:
        raise InputError(
            f"{path}: --geography: no column {missing[0]!r}; the columns are {', '.join(list(columns)[:20])}"
        )
    if len(set(stated)) != len(stated):
        raise InputError(f"{path}: --geography: a column stands twice in {', '.join(stated)}; each level has its own")
    if len(stated) == 1 and (nested := _nested(columns[stated[0]], named=True)) is not None:
        return nested
    names = _distinct_names(stated)
    return GuessedSpine(tuple(stated), names, {}, 0, (f"levels, as you said: {' > '.join(stated)}",))


def _distinct_names(columns: Sequence[str]) -> tuple[str, ...]:
    names: list[str] = []
    for column in columns:
        name = wanted = level_name(column)
        number = 2
        while name.casefold() in (other.casefold() for other in names):
            name = f"{wanted}_{number}"
            number += 1
        names.append(name)
    return tuple(names)


def _nested(column: Column, *, named: bool) -> GuessedSpine | None:
    """The spine of census codes, if these are some: state 2, county 5, tract 11, block group 12, block 15 digits.

    Where the name says so, codes that have lost the zero of states 01 to 09 are filled up.
    """
    widths = sorted(column.digits)
    if not widths or column.n_distinct < 2:
        return None
    width = SPINE_LEVELS.get(plain(column.name), 0) if named else 0
    if not width or not set(widths) <= {width, width - 1}:
        width = widths[-1]
    if width not in SPINE_LEVELS.values() or width < 11 or not set(widths) <= {width, width - 1 if named else width}:
        return None
    levels = {name: length for name, length in SPINE_LEVELS.items() if length <= width}
    told = [f"column {column.name!r} holds census codes; levels: {' > '.join(levels)}, by the first digits"]
    if widths != [width]:
        told.append(f"column {column.name!r}: leading zeros were lost, and have been put back")
    return GuessedSpine((column.name,), tuple(levels), levels, width if widths != [width] else 0, tuple(told))


def _chain(path: Path, columns: Mapping[str, Column], candidates: Sequence[str]) -> GuessedSpine:
    """The longest chain upwards from the candidate with most values, each level determined by the one below."""
    told: list[str] = []
    pairs = distinct_rows(path, candidates)
    order = sorted(candidates, key=lambda name: (-pairs[name].nunique(), -candidates.index(name)))
    chain = [order[0]]
    for name in order[1:]:
        below = chain[-1]
        if (several := _with_several(pairs, below, name)).size:
            told.append(
                f"column {name!r} is no level: {several.size:,} values of {below!r} are in several of it, first "
                f"{several[0]!r}"
            )
        elif not _with_several(pairs, name, below).size and pairs[name].nunique() > 1:
            told.append(f"column {name!r} is no level: it says the same as {below!r}")
        else:
            chain.append(name)
    chain.reverse()
    if columns[chain[-1]].n_distinct < 2 and len(chain) == 1:
        raise InputError(
            f"{path}: only column {chain[0]!r} looks like a geography, and it has one value; name the columns from the "
            "top level down with --geography"
        )
    told.insert(0, f"levels: {' > '.join(chain)}, by the columns' names; each value belongs to one of the level above")
    return GuessedSpine(tuple(chain), _distinct_names(chain), {}, 0, tuple(told))


def _with_several(rows: pd.DataFrame, below: str, above: str) -> pd.Index:
    """The values of `below` that stand with several values of `above`."""
    n_above = rows[[below, above]].drop_duplicates().groupby(below).size()
    return n_above.index[n_above > 1]


def distinct_rows(path: Path, names: Sequence[str]) -> pd.DataFrame:
    """The distinct combinations of the columns, as text."""
    found: pd.DataFrame | None = None
    for chunk in read_text(path, names):
        part = pd.DataFrame(chunk, dtype=object).drop_duplicates()
        found = part if found is None else pd.concat([found, part]).drop_duplicates()
    return found if found is not None else pd.DataFrame(columns=list(names))
