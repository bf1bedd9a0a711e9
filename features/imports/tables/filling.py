"""Names that are written once for several rows: carried down where the rows prove it.

A workbook merges the cell of an area over the rows of its ages, or writes it in the first of them only. That the empty
cells belong to the name above is proven where every name is followed by as many rows, and these are the same
combination of the other columns each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from features.imports.tables.coded import Coded
from features.imports.tables.parts import Parts, Texts
from features.imports.tables.profile import Column
from features.imports.tables.table_file import TableFile
from geography.codes import counted
from pipeline.errors import InputError

#: Blocks of rows that are needed as a proof.
_FEWEST_BLOCKS = 3
_MOST_VALUES = 300


def filled_down(parts: Parts, file: TableFile, columns: Mapping[str, Column], name: str) -> TableFile:
    """The table, in `name` where it had to be changed, with names carried down to the rows that they stand for."""
    gaps = [one for one, column in columns.items() if 0 < column.n_missing < column.n_rows and not column.too_many]
    if not gaps or parts.request.asked.form == "microdata":
        return file
    table = Coded.of(file, [one for one, column in columns.items() if not column.too_many])
    starts = {one: table.codes[one] != _empty(table, one) for one in gaps}
    filled = [one for one in gaps if _is_proven(table, columns, one, starts[one])]
    # A name above others begins where one of theirs does.
    for one in gaps:
        inner = [other for other in filled if other != one and not (starts[one] & ~starts[other]).any()]
        if one not in filled and inner and starts[one][0] and _once(table, one, starts[one]):
            filled.append(one)
    if not filled:
        return file
    last = dict.fromkeys(filled, "")

    def carried(chunk: Texts) -> Texts:
        for one in filled:
            texts = chunk[one]
            for i, text in enumerate(texts):
                last[one] = text or last[one]
                texts[i] = last[one]
        return chunk

    for one in filled:
        n = columns[one].n_missing
        parts.messages.append(
            f"column {one!r}: a name stands for the rows below it: {counted(n, 'empty cell')} "
            f"{'has' if n == 1 else 'have'} the name above"
        )
        parts.decisions.setdefault("carried_down", {})[one] = n  # type: ignore[index]
    return parts.rewritten(file, name, carried)


def _empty(table: Coded, name: str) -> int:
    return list(table.texts[name]).index("")


def _once(table: Coded, name: str, starts: NDArray[np.bool_]) -> bool:
    """Whether each name is written once."""
    return len(np.unique(table.codes[name][starts])) == int(starts.sum()) > 1


def _is_proven(table: Coded, columns: Mapping[str, Column], name: str, starts: NDArray[np.bool_]) -> bool:
    """Whether every name of a column is followed by the same rows, by the other columns."""
    n_rows, n_blocks = len(starts), int(starts.sum())
    if n_blocks < _FEWEST_BLOCKS or n_rows % n_blocks or n_rows == n_blocks or not _once(table, name, starts):
        return False
    shape = (n_blocks, n_rows // n_blocks)
    if not np.array_equal(np.flatnonzero(starts), np.arange(n_blocks) * shape[1]):
        return False
    same = [other for other in _labels(columns, name) if _repeats(table.codes[other].reshape(shape))]
    return bool(same) and len(np.unique(table.keys(same)[: shape[1]])) == shape[1]


def _labels(columns: Mapping[str, Column], name: str) -> Sequence[str]:
    return [
        other
        for other, column in columns.items()
        if other != name and not column.too_many and not column.n_missing and column.n_distinct <= _MOST_VALUES
    ]


def _repeats(codes: NDArray[np.int32]) -> bool:
    """Whether each block of rows `(n_blocks, n_rows)` has the values of the first."""
    return bool((codes == codes[0]).all())


def check_named(file: TableFile, column: Column) -> None:
    """InputError where rows of counts have no area."""
    if column.n_missing:
        rows = file.rows_with(column.name, [""])
        raise InputError(
            f"{file}: column {column.name!r}: empty in {counted(len(rows), 'row')} ({file.place(rows)}); each row "
            "needs its area: write it in every row, or leave out the rows of totals"
        )
