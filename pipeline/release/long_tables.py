"""The form of tables with many answers: a row for each number of a geounit that is not like most of its zeros.

Columns: geocode, one for each term of the query (strings, held as dictionaries), answers (int64), count (int64) and,
where margins of error are published, moe90, low90 and high90. A row with terms is of one answer, and `answers` is 1.
The last row of a geounit has none of the terms: it stands for the answers that have no row, all of them zeros with the
same interval, and `answers` says how many they are. So the rows of a geounit are of all its answers, and no number is
left out. Rows are in the order of geounits, then of answers; the rows of a geounit are in one row group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import ReleaseError
from pipeline.release.form import LABEL, REAL, WHOLE, value_numbers
from postprocess.arrays import BoolArray, FloatArray, IntArray

#: Answers of a table beyond which it has this form. The production schema of 2020 has 2,016 cells.
MOST_WIDE: Final = 2048
#: Numbers of a part of such a table, and rows of a row group at most, unless one geounit has more.
LONG_VALUES: Final = 1 << 19
#: Columns beside geocode and terms.
ANSWERS, COUNT, LONG_ENDS = "answers", "count", ("moe90", "low90", "high90")
LONG_COLUMNS: Final = ("geocode", ANSWERS, COUNT, *LONG_ENDS)

#: Name of a term, and its labels in the order of answers; the last term runs fastest.
Terms = Sequence[tuple[str, tuple[str, ...]]]
Ends = tuple[FloatArray, FloatArray]


def is_long(answers: int) -> bool:
    """Whether a table with so many answers has this form."""
    return answers > MOST_WIDE


def long_columns(terms: Terms, *, with_margins: bool) -> dict[str, pa.DataType]:
    """The columns of a table in this form; a row may have none of the terms."""
    labels = dict.fromkeys(("geocode", *(name for name, _ in terms)), LABEL)
    return {**labels, ANSWERS: WHOLE, COUNT: WHOLE, **dict.fromkeys(LONG_ENDS if with_margins else (), REAL)}


def labels_of_terms(terms: Terms) -> tuple[str, ...]:
    """The labels of the answers, as columns of a wide table have them."""
    return tuple(map(" * ".join, product(*(values for _, values in terms))))


def long_rows(terms: Terms, geocodes: NDArray[np.str_], counts: IntArray, ends: Ends | None) -> list[pa.Array]:
    """The columns of some geounits' rows.

    Args:
        terms: of the query.
        geocodes: `(n,)`.
        counts: `(n, size)`.
        ends: of the intervals, each `(n, size)`; None without margins.
    """
    n, size = counts.shape
    zero = counts == 0
    ends_of_zeros = np.zeros((n, 2))
    if ends is not None:
        like_most, ends_of_zeros = _most_of_zeros(zero, ends)
        zero &= like_most
    n_zeros = zero.sum(axis=1)
    listed, answers = np.nonzero(~zero)
    others = np.flatnonzero(n_zeros)
    geounits = np.concatenate([listed, others])
    order = np.argsort(geounits, kind="stable")  # of each geounit, the row of its zeros comes last
    geounits = geounits[order]
    answers = np.concatenate([answers, np.full(len(others), -1)])[order]
    stands = np.concatenate([np.ones(len(listed), dtype=np.int64), n_zeros[others]])[order]
    of_row = np.concatenate([counts[~zero], np.zeros(len(others), dtype=np.int64)])[order]
    new = np.concatenate([[True], geounits[1:] != geounits[:-1]])[: len(geounits)]
    codes = pa.array(geocodes[geounits[new]], type=pa.string())
    columns = [pa.DictionaryArray.from_arrays(pa.array(np.cumsum(new, dtype=np.int32) - np.int32(1)), codes)]
    numbers = np.unravel_index(np.maximum(answers, 0), [len(values) for _, values in terms])
    for (_, values), number in zip(terms, numbers, strict=True):
        indices = pa.array(number.astype(np.int32), mask=answers < 0)
        columns.append(pa.DictionaryArray.from_arrays(indices, pa.array(values, type=pa.string())))
    columns += [pa.array(stands), pa.array(of_row)]
    if ends is not None:
        low, high = (
            np.concatenate([end[~zero], ends_of_zeros[others, number]])[order] for number, end in enumerate(ends)
        )
        columns += [pa.array(values) for values in (np.maximum(of_row - low, high - of_row), low, high)]
    assert size == math.prod(len(values) for _, values in terms)
    return columns


def _most_of_zeros(zero: BoolArray, ends: Ends) -> tuple[BoolArray, FloatArray]:
    """Which zeros have the interval that most zeros of their geounit have, `(n, size)`, and these, `(n, 2)`.

    Of intervals that are as many, the one with the lesser ends; an unknown one comes last.
    """
    pairs = np.empty(zero.shape, dtype=np.complex128)
    for part, end in zip((pairs.real, pairs.imag), ends, strict=True):
        part[...] = np.where(np.isnan(end), np.inf, end)
    kinds, kind = np.unique(pairs[zero], return_inverse=True)
    geounits = np.nonzero(zero)[0]
    kinds = kinds if len(kinds) else np.zeros(1, dtype=np.complex128)
    pairs_of, times = np.unique(geounits * len(kinds) + kind.reshape(-1), return_counts=True)
    # The last of each geounit is that of the most zeros and, among equals, of the least number.
    order = np.lexsort([-(pairs_of % len(kinds)), times, pairs_of // len(kinds)])
    most = np.zeros(len(zero), dtype=np.int64)
    most[pairs_of[order] // len(kinds)] = pairs_of[order] % len(kinds)
    chosen = kinds[most]
    like = np.zeros(zero.shape, dtype=bool)
    like[zero] = kind.reshape(-1) == most[geounits]
    both = np.column_stack([chosen.real, chosen.imag])
    return like, np.where(np.isinf(both), np.nan, both)


def dense_rows(
    columns: Sequence[Any], terms: Terms, path: Path
) -> tuple[NDArray[np.str_], IntArray, IntArray, list[NDArray[Any]]]:
    """A row group's geounits, where the rows of each begin, and of each row its answer, count and ends.

    Args:
        columns: of the row group.
        terms: of the query.
        path: of the file.

    Returns:
        Geocodes `(n,)`; the first row of each and the number of rows, `(n + 1,)`; answers, -1 for the zeros; counts
        and, where there are intervals, both ends, `(n_rows,)` each.

    Raises:
        ReleaseError: the rows of a geounit are not of all its answers, each once and in order.
    """
    size = math.prod(len(values) for _, values in terms)
    (column, *labels), (stands, counts, *ends) = columns[: 1 + len(terms)], columns[1 + len(terms) :]
    indices = column.indices.to_numpy()
    new = np.concatenate([[True], indices[1:] != indices[:-1]])[: len(indices)]
    starts = np.concatenate([np.flatnonzero(new), [len(indices)]])
    geocodes = np.asarray(column.dictionary.to_numpy(zero_copy_only=False), dtype=np.str_)[indices[new]]
    answers = np.zeros(len(counts), dtype=np.int64)
    missing = np.zeros(len(counts), dtype=np.int64)
    for (name, values), label in zip(terms, labels, strict=True):
        codes = value_numbers(label, values, path, name, nullable=True)
        answers, missing = answers * len(values) + np.maximum(codes, 0), missing + (codes < 0)
    of_zeros = missing == len(terms)
    answers[of_zeros] = -1
    wrong = (missing > 0) & ~of_zeros
    wrong |= np.where(of_zeros, (counts != 0) | (stands < 1), stands != 1)
    # Within a geounit answers increase, and the row of its zeros is the last.
    last = np.concatenate([new[1:], [True]])[: len(new)]
    wrong |= of_zeros & ~last
    wrong[1:] |= ~new[1:] & ~of_zeros[1:] & (answers[1:] <= answers[:-1])
    complete = np.add.reduceat(stands, starts[:-1]) == size if len(starts) > 1 else np.ones(0, dtype=bool)
    if wrong.any() or not complete.all():
        row = int(np.argmax(wrong)) if wrong.any() else int(starts[int(np.argmin(complete))])
        raise ReleaseError(
            f"{path} is damaged: the rows of the geocode {column[row].as_py()!r} are not of all {size:,} answers of "
            "the query, each once and in their order"
        )
    return geocodes, starts, answers, [counts, *ends[1:]]
