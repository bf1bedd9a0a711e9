"""Guesses which columns of a table are the levels of the spine, and in which order."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from features.imports.pl94171.layout import SPINE_LEVELS
from features.imports.tables.level_names import are_kinds, is_generic, is_label, plain, rank, says_code
from features.imports.tables.profile import Column
from features.imports.tables.table_file import TableFile
from geography.codes import counted
from pipeline.errors import InputError

#: Names of columns of nested census codes, each of which begins with the code of the area above.
_NESTED = ("geocode", "geoid", "block", "block_group", "blockgroup", "tract", "fips", "county")
#: Other codes that begin with those of the areas above: name of the column -> levels.
_CODE_SYSTEMS = {
    "ags": {"land": 2, "kreis": 5, "gemeinde": 8},
    "nuts3": {"country": 2, "nuts1": 3, "nuts2": 4, "nuts3": 5},
    "iris": {"departement": 2, "commune": 5, "iris": 9},
    "cusec": {"provincia": 2, "municipio": 5, "distrito": 7, "seccion": 10},
    "setor_censitario": {"uf": 2, "municipio": 7, "distrito": 9, "subdistrito": 11, "setor": 15},
}
#: Codes of a level that are used again in another area above are this short.
_LONGEST_LOCAL = 6
#: And this part of them at least is used again; fewer are mistakes.
_MANY = 0.3
#: Kinds of areas, such as urban and rural, are as few.
_FEW_KINDS = 6


@dataclass(frozen=True)
class GuessedSpine:
    """The levels that were found.

    Attributes:
        columns: the table's columns, the leaf's last.
        names: the levels' names, top first.
        prefixes: level -> length of its part of the one column's codes; empty where each level has a column.
        width: what codes are filled up to with zeros, where they were lost; 0 where they were not.
        messages: what was guessed, a sentence each.
        joined: column to be made -> the columns whose codes are joined in it, where codes are used again elsewhere.
        beside: other columns that describe the location.
        named: level -> the column of areas.parquet with its areas' names.
        twins: columns that mean the same as one of a level, as names do -> that column.
        kinds: columns with the name of a level that hold kinds of areas, such as urban and rural: attributes.
        whole: the level above all, of one area, where it was added: it has no column; "" where none was.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    prefixes: Mapping[str, int]
    width: int
    messages: tuple[str, ...]
    joined: Mapping[str, tuple[str, ...]] | None = None
    beside: tuple[str, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)
    whole: str = ""
    twins: Mapping[str, str] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()

    @property
    def leaf(self) -> str:
        """The column of leaf codes."""
        return self.columns[-1]

    @property
    def said(self) -> tuple[str, ...]:
        """The messages, with one on the columns that are no levels."""
        if not self.beside:
            return self.messages
        shown = ", ".join(self.beside)
        return (*self.messages, f"columns {shown} describe the location in another way: they are not levels")

    @property
    def used(self) -> tuple[str, ...]:
        """All columns that describe the location."""
        parts = [part for joined in (self.joined or {}).values() for part in joined]
        return tuple(dict.fromkeys([*self.columns, *parts, *self.beside]))


def level_name(name: str) -> str:
    """A level's name, which names files, of a column's."""
    cleaned = re.sub(r"[^\w-]+", "_", name.strip(), flags=re.ASCII).strip("_-")[:60]
    return cleaned or "level"


def guess_spine(
    file: TableFile,
    columns: Mapping[str, Column],
    geography: Sequence[str] = (),
    lengths: Mapping[str, int] | None = None,
) -> GuessedSpine:
    """The spine of a table.

    Args:
        file: the table.
        columns: the columns that may state a geography, by name.
        geography: the columns that the user names, top first; one column is one of nested codes, or the only level.
        lengths: the levels' prefix lengths that the user gives, for one column of codes.

    Raises:
        InputError: a stated column is missing, nothing in the table looks like a geography, or levels contradict
            each other.
    """
    by_name = sorted(
        (rank(name), not says_code(name), i, name)
        for i, (name, column) in enumerate(columns.items())
        if rank(name) is not None and not are_kinds(column.values)
    )
    ranked = [name for *_, name in by_name]
    if lengths:
        return _beside(_prefixed(file, columns, geography or ranked[-1:], lengths), columns)
    if geography:
        return _beside(_stated(file, columns, geography), columns)
    for name in reversed(ranked):
        if (nested := _nested(columns[name], by_name=True)) is not None:
            return _beside(nested, columns)
    for name, column in columns.items():
        if plain(name) in _NESTED and (nested := _nested(column, by_name=True)) is not None:
            return _beside(nested, columns)
    if ranked:
        return _beside(nested_levels(file, columns, ranked), columns)
    for column in columns.values():
        if (nested := _nested(column, by_name=False)) is not None:
            return nested
    raise InputError(
        f"{file}: no column looks like a geography; name the columns from the top level down, such as "
        "--geography county,tract, or one of codes with the lengths of the levels' codes, such as --geography code "
        f"--levels county=5,tract=11 (the columns are {', '.join(list(columns)[:20])})"
    )


def _beside(spine: GuessedSpine, columns: Mapping[str, Column]) -> GuessedSpine:
    """The spine, with the columns that describe the location in another way."""
    kinds = (
        *spine.kinds,
        *(name for name, column in columns.items() if rank(name) is not None and are_kinds(column.values)),
    )
    kinds = tuple(name for name in dict.fromkeys(kinds) if name not in spine.used)
    spine = replace(spine, kinds=kinds)
    beside = tuple(
        name
        for name in columns
        if (rank(name) is not None or is_label(name)) and name not in spine.used and name not in kinds
    )
    if not beside:
        return spine
    return replace(spine, beside=beside)


def check_stated(file: TableFile, columns: Mapping[str, Column], geography: Sequence[str]) -> None:
    """InputError unless the columns that --geography names are there, each once."""
    if missing := [name for name in geography if name not in columns]:
        raise InputError(
            f"{file}: --geography: no column {missing[0]!r}; the columns are {', '.join(list(columns)[:20])}"
        )
    if len(set(geography)) != len(geography):
        raise InputError(
            f"{file}: --geography: a column occurs twice in {', '.join(geography)}; each level has its own"
        )


def _stated(file: TableFile, columns: Mapping[str, Column], geography: Sequence[str]) -> GuessedSpine:
    check_stated(file, columns, geography)
    if len(geography) == 1 and (nested := _nested(columns[geography[0]], by_name=True)) is not None:
        return nested
    if len(geography) > 1:
        rows = file.distinct_rows(geography)
        rows = rows[(rows != "").all(axis=1)]
        crosses = any(_crossing(rows, name, above) for i, name in enumerate(geography) for above in geography[:i])
        if crosses and _used_again(rows, columns, geography):
            return _joined(rows, geography, [])
    return GuessedSpine(
        tuple(geography), distinct_names(geography), {}, 0, (f"levels, as you stated: {' > '.join(geography)}",)
    )


def _prefixed(
    file: TableFile, columns: Mapping[str, Column], geography: Sequence[str], lengths: Mapping[str, int]
) -> GuessedSpine:
    """A column of codes, with the lengths that the user gives."""
    if len(geography) != 1:
        listing = ", ".join(geography) or "none"
        raise InputError(f"{file}: --levels need one column of codes; give it as --geocode (found {listing})")
    check_stated(file, columns, geography)
    column, width = columns[geography[0]], list(lengths.values())[-1]
    found_widths = {len(text) for text in column.values}
    if found_widths - {width} and not (column.digits and found_widths <= {width, width - 1}):
        lengths_found = ", ".join(map(str, sorted(found_widths)[:6]))
        raise InputError(
            f"{file}: --levels: codes of column {geography[0]!r} have {lengths_found} characters; the last length is "
            f"{width}"
        )
    messages = [f"levels, as you stated: {' > '.join(lengths)}, by the first characters of column {geography[0]!r}"]
    if filled := bool(found_widths - {width}):
        messages.append(f"column {geography[0]!r}: leading zeros were lost and have been restored")
    return GuessedSpine((geography[0],), tuple(lengths), dict(lengths), width if filled else 0, tuple(messages))


def distinct_names(columns: Sequence[str]) -> tuple[str, ...]:
    """A level's name for each column, all different."""
    names: list[str] = []
    for column in columns:
        name = stem = level_name(column)
        number = 2
        while name.casefold() in (other.casefold() for other in names):
            name = f"{stem}_{number}"
            number += 1
        names.append(name)
    return tuple(names)


def _nested(column: Column, *, by_name: bool) -> GuessedSpine | None:
    """The spine of codes of a known system, as those of a census are: state 2, county 5, block 15 digits.

    Where the name calls for it, codes that have lost the zero of states 01 to 09 are filled up.
    """
    if column.n_distinct < 2:
        return None
    system = _CODE_SYSTEMS.get(plain(column.name)) if by_name else None
    if system is not None and {len(text) for text in column.values} == {list(system.values())[-1]}:
        message = f"column {column.name!r} holds nested codes; levels: {' > '.join(system)}, by the first characters"
        return GuessedSpine((column.name,), tuple(system), system, 0, (message,))
    widths = sorted(column.digits)
    if not widths:
        return None
    width = SPINE_LEVELS.get(plain(column.name), 0) if by_name else 0
    if not width or not set(widths) <= {width, width - 1}:
        width = widths[-1]
    if width not in SPINE_LEVELS.values() or width < 11 or not set(widths) <= {width, width - 1 if by_name else width}:
        return None
    levels = {name: length for name, length in SPINE_LEVELS.items() if length <= width}
    lines = [f"column {column.name!r} holds census codes; levels: {' > '.join(levels)}, by the first digits"]
    if widths != [width]:
        lines.append(f"column {column.name!r}: leading zeros were lost and have been restored")
    return GuessedSpine((column.name,), tuple(levels), levels, width if widths != [width] else 0, tuple(lines))


def nested_levels(file: TableFile, columns: Mapping[str, Column], candidates: Sequence[str]) -> GuessedSpine:
    """The candidates as levels, in the order in which they nest; codes that are used again are joined with those above.

    Args:
        file: the table.
        columns: its columns, by name.
        candidates: from the top down, as far as their names show.

    Raises:
        InputError: two candidates cross each other, so that one of them is not a level of this spine.
    """
    rows = file.distinct_rows(candidates)
    rows = rows[(rows != "").all(axis=1)]
    messages: list[str] = []
    levels: list[str] = []
    coded = {plain(name): name for name in candidates if says_code(name)}
    twins = {name: coded[plain(name)] for name in candidates if not says_code(name) and plain(name) in coded}
    for name in candidates:
        if name in twins:
            continue
        same = next(
            (level for level in levels if not _crossing(rows, level, name) and not _crossing(rows, name, level)), None
        )
        if same is not None and rows[name].nunique() > 1:
            twins[name] = same
            messages.append(f"column {name!r} means the same as {same!r}")
        else:
            levels.append(name)
    place = {name: i for i, name in enumerate(candidates)}
    order = sorted(levels, key=lambda name: (rows[name].nunique(), place[name]))
    crossing = [(above, below, n) for above, below in itertools.pairwise(order) if (n := _crossing(rows, below, above))]
    if not crossing:
        if columns[order[-1]].n_distinct < 2 and len(order) == 1:
            raise InputError(
                f"{file}: only column {order[0]!r} looks like a geography, and it has one value; name the columns from "
                "the top level down with --geography"
            )
        reason = "by the column's name"
        if len(order) > 1:
            reason = "by the columns' names; each value belongs to one of the level above"
        messages.insert(0, f"levels: {' > '.join(order)}, {reason}")
        return GuessedSpine(tuple(order), distinct_names(order), {}, 0, tuple(messages), twins=twins)
    of_a_kind = [
        name for name in levels if is_generic(name) and len(levels) > 2 and _is_kind(rows, columns, levels, name)
    ]
    if of_a_kind:  # AREA, 1 or 2, beside the codes of communes is no area
        rest = [name for name in candidates if name not in of_a_kind]
        spine = nested_levels(file, columns, rest)
        lines = [f"column {name!r} groups the areas in another way: it is no level" for name in of_a_kind]
        return replace(spine, messages=(*spine.messages, *lines), kinds=tuple(of_a_kind))
    local = sorted(levels, key=place.__getitem__)
    if _used_again(rows, columns, local):
        return _joined(rows, local, messages)
    above, below, n = crossing[0]
    example = _first_crossing(rows, below, above)
    raise InputError(
        f"{file}: columns {above!r} and {below!r} look like levels, and cross each other: "
        f"{counted(n, 'value')} of {below!r} {'is' if n == 1 else 'are'} in several of {above!r}, first {example!r}; "
        f"correct the table, leave a column out (--ignore {below}, or --attribute {below} to count by it), or name the "
        f"levels from the top down: --geography {','.join(name for name in order if name != below) or above}"
    )


def _is_kind(rows: pd.DataFrame, columns: Mapping[str, Column], levels: Sequence[str], name: str) -> bool:
    """Whether a column has few values, which cross those of a column with more."""
    return columns[name].n_distinct <= _FEW_KINDS and any(
        columns[other].n_distinct > _FEW_KINDS and _crossing(rows, other, name) and _crossing(rows, name, other)
        for other in levels
    )


def _crossing(rows: pd.DataFrame, below: str, above: str) -> int:
    """The number of values of `below` that stand with several values of `above`."""
    n_above = rows[[below, above]].drop_duplicates().groupby(below).size()
    return int((n_above > 1).sum())


def _first_crossing(rows: pd.DataFrame, below: str, above: str) -> str:
    n_above = rows[[below, above]].drop_duplicates().groupby(below).size()
    return str(n_above.index[n_above > 1][0])


def _is_local(column: Column) -> bool:
    return bool(column.digits) and max(column.digits) <= _LONGEST_LOCAL


def _used_again(rows: pd.DataFrame, columns: Mapping[str, Column], levels: Sequence[str]) -> bool:
    """Whether each level's codes are its own, or short numbers of which many are used in several areas above."""
    for number, name in enumerate(levels):
        crossing = max((_crossing(rows, name, above) for above in levels[:number]), default=0)
        if crossing and not (_is_local(columns[name]) and crossing >= _MANY * rows[name].nunique()):
            return False
    return True


def _joined(rows: pd.DataFrame, levels: Sequence[str], messages: list[str]) -> GuessedSpine:
    """Levels whose codes are made of theirs and those above, where they are used again elsewhere."""
    joined: dict[str, tuple[str, ...]] = {}
    columns: list[str] = []
    parts: tuple[str, ...] = ()
    for number, name in enumerate(levels):
        if any(_crossing(rows, name, above) for above in levels[:number]):
            parts = (*parts, name)
            joined_name = f"{name}_whole"
            while joined_name in rows.columns:
                joined_name += "_"
            joined[joined_name] = parts
            columns.append(joined_name)
            messages.append(
                f"codes of {name!r} are used again in other areas: the code of a {name} is that of {', '.join(parts)} "
                "joined"
            )
        else:
            parts = (name,)
            columns.append(name)
    messages.insert(0, f"levels: {' > '.join(levels)}, by the columns' names")
    return GuessedSpine(tuple(columns), distinct_names(levels), {}, 0, tuple(messages), joined)


def join_codes(rows: Mapping[str, Sequence[str]], parts: Sequence[str], widths: Mapping[str, int]) -> list[str]:
    """The joined codes of the rows; empty where a part is. Parts of a fixed width stand next to each other."""
    fixed = all(widths.get(name) for name in parts[1:])
    columns = [rows[name] for name in parts]
    return [("" if fixed else "-").join(codes) if all(codes) else "" for codes in zip(*columns, strict=True)]
