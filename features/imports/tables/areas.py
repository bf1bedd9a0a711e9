"""The areas that a table's rows name: by their full path, each with one name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from features.imports.tables.statement import TableStatement
from features.imports.tables.table import Coded, RecordTable, keys_of
from features.imports.tables.words import plain
from pipeline.errors import InputError
from postprocess.arrays import IntArray

#: The level above all, where the table has only one.
WHOLE = "all"
#: Between the parts of a path.
_BETWEEN = " / "


@dataclass(frozen=True, eq=False)
class Areas:
    """The areas of a table.

    Attributes:
        levels: their names, top first.
        leaf: each row's area of the lowest level; its texts are those that rows of the table name.
        table: areas.parquet: a column a level, a row an area of the lowest level, and columns of names.
        names: level -> the column of `table` with its areas' names.
    """

    levels: tuple[str, ...]
    leaf: Coded
    table: pa.Table
    names: Mapping[str, str]


def padded(table: RecordTable, column: str, width: int | None) -> Coded:
    """A column of codes with the zeros at the front that were lost, where a width is stated."""
    one = table.columns[column]
    if width is None:
        return one
    for text in one.texts:
        if text.isdecimal() and len(text) > width:
            raise InputError(f"{table.found(column, [text])}, longer than --zeros {width}")
    return one.translated(lambda text: text.zfill(width) if text.isdecimal() else text)


def read_areas(table: RecordTable, stated: TableStatement, lookup: RecordTable | None) -> Areas:
    """The areas of each row, and the list of them.

    Raises:
        InputError: a row names no area, two names are nearly the same, an area has two parents, or one is not in the
            public list.
    """
    if lookup is not None:
        return _of_lookup(table, stated, lookup)
    levels, columns = _levels(table, stated)
    paths = _paths(table, levels, columns)
    leaf = paths[-1].present()
    _, first = np.unique(leaf.codes, return_index=True)
    return _areas(table, stated, leaf, dict(zip(levels, paths, strict=True)), first)


def _areas(
    listed: RecordTable, stated: TableStatement, leaf: Coded, paths: Mapping[str, Coded], rows: IntArray
) -> Areas:
    """The list of areas, of some rows of the table that lists them."""
    columns = {level: path.at(rows) for level, path in paths.items()}
    levels = tuple(paths)
    if len(levels) == 1:
        whole = WHOLE if levels[0] != WHOLE else "whole"
        levels = (whole, *levels)
        columns = {whole: Coded(np.zeros(len(rows), dtype=np.int32), [whole]), **columns}
    names: dict[str, str] = {}
    named = list(stated.places.values())
    for level, column in zip(list(paths)[-len(named) :], named, strict=True):  # of the levels of one column, the lowest
        if column is not None:
            _check_one_name(listed, column, paths[level])
            names[level] = column
            columns[column] = listed.columns[column].at(rows)
    table = pa.table({name: column.arrow().cast(pa.string()) for name, column in columns.items()})
    return Areas(levels, leaf, table, names)


def _check_one_name(table: RecordTable, column: str, path: Coded) -> None:
    """InputError where an area has two names, or none."""
    named = table.columns[column]
    if "" in named.texts:
        raise InputError(f"{table.found(column, [''])}; each area has a name")
    pairs = np.unique(keys_of([path, named]))
    own, name = pairs // len(named.texts), pairs % len(named.texts)
    if (twice := np.flatnonzero(own[1:] == own[:-1])).size:
        i = int(twice[0])
        raise InputError(
            f"{table}: column {column!r}: area {path.texts[own[i]]!r} has the names {named.texts[name[i]]!r} and "
            f"{named.texts[name[i + 1]]!r}; one area has one name"
        )


def _levels(table: RecordTable, stated: TableStatement) -> tuple[tuple[str, ...], list[Coded]]:
    """The levels' names, and the column of each as it is in the table."""
    columns = _codes(table, stated, stated.columns)
    if not stated.prefixes:
        return tuple(_level_names(stated.columns)), columns
    (column,), (name,) = columns, stated.columns
    length = max(stated.prefixes.values())
    if wrong := [text for text in column.texts if len(text) != length]:
        raise InputError(
            f"{table.found(name, wrong[:1], column)}; --levels says that codes have {length} "
            "characters; --zeros WIDTH fills up codes whose zeros were lost"
        )
    parts = [column.translated(lambda text, n=n: text[:n]) for n in stated.prefixes.values()]  # type: ignore[misc]
    return tuple(stated.prefixes), parts


def _level_names(columns: Iterable[str]) -> Iterator[str]:
    """The columns' names without the signs that files cannot have in theirs."""
    given: set[str] = set()
    for column in columns:
        name = re.sub(r"[^\w-]+", "_", column).strip("_-")[:90] or "level"
        while name.casefold() in given:
            name += "_"
        given.add(name.casefold())
        yield name


def _codes(table: RecordTable, stated: TableStatement, names: Sequence[str]) -> list[Coded]:
    """Columns of codes or names, in each row one."""
    columns = [padded(table, name, stated.zeros) for name in names]
    for name, column in zip(names, columns, strict=True):
        if "" in column.texts:
            raise InputError(f"{table.found(name, [''], column)}; each row needs its area")
    return columns


def _paths(table: RecordTable, levels: Sequence[str], columns: Sequence[Coded]) -> list[Coded]:
    """The columns with the path from the top in place of a code, on levels where a code has several parents.

    Raises:
        InputError: two areas of one parent have nearly the same name.
    """
    for level, column in zip(levels, columns, strict=True):
        _check_digits(f"{table}: {level!r}", column.texts)
    _check_alike(f"{table}: {levels[0]!r}", columns[0].texts)
    paths = [columns[0]]
    for level, column in zip(levels[1:], columns[1:], strict=True):
        above = paths[-1]
        pairs, inverse = np.unique(keys_of([above, column]), return_inverse=True)
        own = [column.texts[i] for i in (pairs % len(column.texts)).tolist()]
        bounds = np.flatnonzero(np.diff(pairs // len(column.texts))) + 1
        for siblings in np.split(np.arange(len(pairs)), bounds):
            _check_alike(f"{table}: {level!r}", [own[i] for i in siblings.tolist()])
        if len(pairs) > len(np.unique(column.codes)):
            upper = [above.texts[i] for i in (pairs // len(column.texts)).tolist()]
            own = [f"{a}{_BETWEEN}{b}" for a, b in zip(upper, own, strict=True)]
        paths.append(Coded(inverse.astype(np.int32), own))
    return paths


def _of_lookup(table: RecordTable, stated: TableStatement, lookup: RecordTable) -> Areas:
    """The areas of a public list, in which those of the table have to be."""
    name = stated.lowest
    levels, columns = _levels(lookup, stated)
    of_table = [c for c in stated.columns if c in table.columns]
    if len(of_table) > 1 and of_table != list(stated.columns):
        raise InputError(
            f"{table}: of --geography, the table has {', '.join(of_table)}: all are needed, or only {name!r}"
        )
    rows = _codes(table, stated, of_table)
    paths = _paths(lookup, levels, columns)
    if len(of_table) > 1:
        key, known = _joined(rows), _joined(columns)
    else:
        key, known = rows[-1], columns[-1]
    leaf_of = dict(
        zip((known.texts[i] for i in known.codes), (paths[-1].texts[i] for i in paths[-1].codes), strict=True)
    )
    if len(leaf_of) < len(lookup):
        twice = int(np.flatnonzero(np.bincount(known.codes) > 1)[0])
        raise InputError(
            f"{lookup}: {known.texts[twice]!r} stands in several rows; each area needs one, or the columns of the "
            "levels above in the table, too"
        )
    if unknown := [text for text in key.texts if text not in leaf_of]:
        raise InputError(f"{table.found(name, unknown, key)}, not in {lookup}, which has to name every area")
    leaf = key.translated(leaf_of.__getitem__)
    return _areas(lookup, stated, leaf, dict(zip(levels, paths, strict=True)), np.arange(len(lookup)))


def _joined(columns: Sequence[Coded]) -> Coded:
    _, first, inverse = np.unique(keys_of(columns), return_index=True, return_inverse=True)
    return Coded(inverse.astype(np.int32), [_BETWEEN.join(c.texts[c.codes[i]] for c in columns) for i in first])


def _check_alike(where: str, texts: Sequence[str]) -> None:
    """InputError where two names differ by no more than case, space, accents or zeros at the front."""
    seen: dict[str, str] = {}
    for text in texts:
        bare = re.sub(r"[\s\u200b\ufeff\u00ad]+", "", plain(text))
        bare = re.sub(r"^0+(?=\d+$)", "", bare)
        if (other := seen.setdefault(bare, text)) != text:
            _stop(where, other, text)


def _check_digits(where: str, texts: Sequence[str]) -> None:
    """InputError where codes with a check digit stand among codes without: two lengths, and most shorter ones recur."""
    codes = {text for text in texts if text.isdecimal()}
    lengths = sorted({len(text) for text in codes})
    shorter = {text for text in codes if len(text) == lengths[0]}
    with_digit = {text[:-1]: text for text in codes - shorter}
    if len(lengths) == 2 and len(with_digit) == len(codes - shorter):  # else the last digit tells areas apart
        recur = shorter & with_digit.keys()
        if 2 * len(recur) >= len(shorter):
            _stop(where, min(recur), with_digit[min(recur)])


def _stop(where: str, one: str, other: str) -> None:
    raise InputError(
        f"{where}: {one!r} and {other!r} differ only by case, space, accents, zeros at the front or a check digit; one "
        "area has one name: write it in one way (codes that lost zeros: --zeros WIDTH)"
    )
