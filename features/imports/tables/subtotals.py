"""Subtotals of blocks of rows, as pivot tables write them: Carlow Total below the rows of Carlow.

A subtotal is known by its name, which is that of its block and a word more, and is left out once it is the sum of the
block's rows. It proves as well that rows without a name in the block are of that name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.imports.tables.cells import Cells
from features.imports.tables.coded import Coded
from features.imports.tables.count_names import about_counts, is_time, measures_an_area, named_count
from features.imports.tables.number_columns import numbers_of
from features.imports.tables.parts import Parts, Texts
from features.imports.tables.profile import Column, profile
from features.imports.tables.table_file import TableFile
from features.imports.tables.total_rows import is_total
from geography.codes import counted
from pipeline.errors import InputError

#: Blocks whose subtotals are called in another way than totals are need so many bits of agreement, to be no accident.
_BITS = 20.0
_SHOWN = 3


@dataclass(frozen=True)
class _Subtotal:
    """A row that is called as a block of rows is, and a word more.

    Attributes:
        row: its number.
        column: that of the name.
        start, stop: the rows of the block; subtotals of blocks within it are among them.
    """

    row: int
    column: str
    start: int
    stop: int


def without_subtotals(
    parts: Parts, file: TableFile, columns: Mapping[str, Column], name: str
) -> tuple[TableFile, dict[str, Column]]:
    """The table without subtotals of blocks, in `name` where it had some, with the name of its block in each row.

    Raises:
        InputError: a row is called the total of the rows beside it, and is not their sum.
    """
    fixed = parts.request.attributes
    called = {
        one: pairs
        for one, column in columns.items()
        if one not in fixed and not column.too_many and (pairs := _called_so(column.values))
    }
    cells = {one: read for one in columns if one not in called and (read := numbers_of(parts, columns[one]))}
    if not called or not cells:
        return file, dict(columns)
    table = Coded.of(file, [one for one, column in columns.items() if one in cells or not column.too_many])
    counts = _counts(table, columns, cells, called)
    labels = [one for one in table.texts if one not in {some.column for some in counts}]
    texts = {one: [table.texts[one][code] for code in table.codes[one]] for one in labels}
    found = [subtotal for one in called for subtotal in _blocks(texts, one, called[one])]
    if not counts or not found:
        return file, dict(columns)
    matrix = np.stack([table.numbers(some) for some in counts], axis=1)
    stay = np.ones(len(matrix), dtype=bool)
    stay[[subtotal.row for subtotal in found]] = False
    base = stay & ~np.logical_or.reduce(
        [table.has(one, [is_total(text) for text in table.texts[one]]) for one in labels]
    )
    proven = []
    for one in called:
        own = [subtotal for subtotal in found if subtotal.column == one]
        wrong = [subtotal for subtotal in own if _difference(subtotal, texts, matrix, base) is not None]
        total = any(_says_total(texts[one][subtotal.row], called[one]) for subtotal in own)
        bits = np.log2(1.0 + np.maximum(matrix[[subtotal.row for subtotal in own]], 0)).sum() if own else 0.0
        if not own or (not total and (wrong or bits < _BITS)):
            stay[[subtotal.row for subtotal in own]] = True
            continue
        if wrong:
            raise InputError(_stops(file, counts, texts, matrix, base, wrong, len(own)))
        proven += own
    if stay.all():
        return file, dict(columns)
    return _changed(parts, file, columns, texts, proven, (stay, base), name)


def _changed(
    parts: Parts,
    file: TableFile,
    columns: Mapping[str, Column],
    texts: Mapping[str, Sequence[str]],
    proven: Sequence[_Subtotal],
    stay_base: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    name: str,
) -> tuple[TableFile, dict[str, Column]]:
    """The table without rows of subtotals, and with the names of blocks in rows that have none.

    Args:
        stay_base: which rows stay, and which of them are no totals.
    """
    stay, base = stay_base
    filled: dict[str, list[str]] = {}
    for one in dict.fromkeys(subtotal.column for subtotal in proven):
        own = [subtotal for subtotal in proven if subtotal.column == one]
        shown = ", ".join(repr(texts[one][subtotal.row]) for subtotal in own[:_SHOWN])
        parts.messages.append(
            f"column {one!r}: {counted(len(own), 'subtotal')} ({shown}{', ...' if len(own) > _SHOWN else ''}) left "
            f"out: {'the sum of the rows beside it' if len(own) == 1 else 'each the sum of the rows beside it'}"
        )
        named = list(texts[one])
        for subtotal in own:
            block = next(text for text in named[subtotal.start : subtotal.stop] if text)
            for row in range(subtotal.start, subtotal.stop):
                named[row] = named[row] or (block if base[row] else "")
        n = sum(text != texts[one][row] for row, text in enumerate(named))
        if n:
            filled[one] = named
            parts.messages.append(
                f"column {one!r}: a name stands for the rows of its subtotal: {counted(n, 'empty cell')} "
                f"{'has' if n == 1 else 'have'} it"
            )
            parts.decisions.setdefault("carried_down", {})[one] = n  # type: ignore[index]
    if filled:
        first = 0

        def carried(chunk: Texts) -> Texts:
            nonlocal first
            size = len(next(iter(chunk.values())))
            here, first = slice(first, first + size), first + size
            return {**chunk, **{one: named[here] for one, named in filled.items()}}

        file = parts.rewritten(file, name, carried)
    file = parts.changed(file, name, kept=stay)
    found = profile(file)
    return file, {one: found[one] for one in columns}


def _called_so(values: Mapping[str, int]) -> dict[str, str]:
    """Value -> the other value that it is the name of and a word more: a total, or else the word that most have."""
    pairs = [(text, block, more) for text in values for block, more in _parted(text) if block in values]
    totals = {text: block for text, block, more in pairs if is_total(more)}
    if totals:
        return totals
    often = Counter(more for _, _, more in pairs).most_common(1)
    return {text: block for text, block, more in pairs if often and often[0][1] > 1 and more == often[0][0]}


def _parted(text: str) -> Iterator[tuple[str, str]]:
    """A name and what stands behind it or before it, wherever it can be parted."""
    words = text.split(" ")
    for i in range(1, len(words)):
        yield " ".join(words[:i]).rstrip(" :-,"), " ".join(words[i:]).strip(" :-,()")
        yield " ".join(words[i:]).lstrip(" :-,"), " ".join(words[:i]).strip(" :-,()")


def _says_total(text: str, called: Mapping[str, str]) -> bool:
    return any(block == called[text] and is_total(more) for block, more in _parted(text))


def _counts(
    table: Coded, columns: Mapping[str, Column], cells: Mapping[str, Cells], called: Mapping[str, Mapping[str, str]]
) -> list[Cells]:
    """The columns of counts: whole numbers that rows of subtotals have, too; an age is none of them."""
    rows = np.logical_or.reduce([table.has(one, [text in called[one] for text in table.texts[one]]) for one in called])
    whole = [
        some
        for one, some in cells.items()
        if set(some.wrong) <= {"mark"}
        and not some.unsure
        and not (is_time(one) or measures_an_area(one) or about_counts(one) or columns[one].padded)
        and (table.numbers(some)[rows] >= 0).any()
    ]
    return [some for some in whole if named_count(some.column)] or whole


def _blocks(texts: Mapping[str, Sequence[str]], one: str, called: Mapping[str, str]) -> Iterator[_Subtotal]:
    """The subtotals by a column, each with the rows of its block, which stand above it or below it."""
    own = texts[one]

    def is_of(row: int, block: str) -> bool:
        return own[row] in ("", block)

    for row, text in enumerate(own):
        if (block := called.get(text)) is None:
            continue
        start = row
        while start and is_of(start - 1, block):
            start -= 1
        while start < row and not own[start]:  # what has no name before the block's own is of another
            start += 1
        if start < row:
            yield _Subtotal(row, one, start, row)
            continue
        stop = row + 1
        while stop < len(own) and is_of(stop, block):
            stop += 1
        if stop > row + 1 and own[row + 1] == block:
            yield _Subtotal(row, one, row + 1, stop)


def _difference(
    subtotal: _Subtotal, texts: Mapping[str, Sequence[str]], matrix: NDArray[np.int64], base: NDArray[np.bool_]
) -> tuple[int, int] | None:
    """The number of the first column in which a subtotal is not the sum, and that sum; None where it is.

    Where the subtotal's row says more, as of which sex it is, its rows are those that say the same.
    """
    rows = [row for row in range(subtotal.start, subtotal.stop) if base[row]]
    for one, own in texts.items():
        said = own[subtotal.row]
        if one != subtotal.column and said and any(own[row] == said for row in rows):
            rows = [row for row in rows if own[row] in (said, "")]
    known = (matrix[rows] >= 0).all(axis=0)
    sums = np.maximum(matrix[rows], 0).sum(axis=0)
    has = matrix[subtotal.row]
    wrong = np.flatnonzero((has >= 0) & np.where(known, sums != has, sums > has))
    return (int(wrong[0]), int(sums[wrong[0]])) if len(wrong) else None


def _stops(
    file: TableFile,
    counts: Sequence[Cells],
    texts: Mapping[str, Sequence[str]],
    matrix: NDArray[np.int64],
    base: NDArray[np.bool_],
    wrong: Sequence[_Subtotal],
    n_all: int,
) -> str:
    """The first row that is called a subtotal and is none, and the difference."""
    first = wrong[0]
    column, sums = _difference(first, texts, matrix, base) or (0, 0)
    has = int(matrix[first.row, column])
    return (
        f"{file}: column {first.column!r}: {texts[first.column][first.row]!r} is called a total, and "
        f"{counted(len(wrong), 'subtotal')} of {n_all:,} {'is' if len(wrong) == 1 else 'are'} not the sum of the rows "
        f"beside it: {file.place([first.row])} has {has:,} in {counts[column].column!r}, these rows add up to {sums:,} "
        f"({abs(has - sums):,} {'less' if has > sums else 'more'}); correct the table, leave the rows of subtotals "
        f"out, or say that it is a value as others are: --attribute {first.column}"
    )
