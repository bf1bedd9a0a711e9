"""Published tables and cumulative numbers, compared with the answers that the published histograms give.

Cumulative numbers are sums of the histogram's cells up to each value. An interval is of whole numbers around the
number. That of the first value cumulated is that of the table; those of several values follow from simulated runs,
which `verify` repeats and this program does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.check.ratios import INTERVAL, table_columns
from auditor.reading.cells import Query
from auditor.reading.counts import COUNT, ENDS, ZEROS, Counts, LevelFile, is_long, read_long
from auditor.reading.files import Files, value_text, whole_numbers
from auditor.reading.findings import surplus
from auditor.reading.spine import Level
from auditor.reading.values import BoolArray, IntArray

_WHY, _OTHER = "the sum over the histogram's cells", "counts that are not the histogram's"


def check_table(
    files: Files,
    path: Path,
    level: Level,
    answers: Query,
    required: Counts | None,
    *,
    margins: bool,
    least: int = 0,
) -> None:
    """Compare a table with the answers `required` by the histogram of its level; None where that cannot be read.

    Args:
        files: reads it.
        path: of it.
        level: of its rows.
        answers: of its query.
        required: what it has to hold.
        margins: whether there are intervals.
        least: what no number is below; less than 0 for sums of amounts that may be.

    Raises:
        FormError: the file is missing or damaged.
    """
    if not is_long(answers):
        file = LevelFile(files, path, level, once=True)
        suffixes = ("", *INTERVAL) if margins else ("",)
        for part, geounits in file.parts([label + suffix for label in answers.labels for suffix in suffixes]):
            expected = None if required is None else required.dense(geounits)
            for index, label in enumerate(answers.labels):

                def place(row: int, label: str = label, geounits: IntArray = geounits) -> str:
                    return f"{file.place(geounits, row)}, {label!r}"

                columns = [part.column(label + suffix) for suffix in suffixes]
                due = None if expected is None else expected[:, index]
                _check_numbers(file, columns, due, geounits >= 0, place, least)
        return
    table, size = read_long(files, path, level, answers, margins=margins), answers.size
    zeros = table.answers == ZEROS

    def where(row: int) -> str:
        answer = "its zeros" if zeros[row] else repr(answers.labels[table.answers[row]])
        return f"{level.label(table.geounits[row])}, {answer}"

    keys = table.geounits * size + table.answers
    expected = None if required is None else np.where(zeros, 0, required.at(keys))
    columns = [table.rows.column(name) for name in (COUNT, *(ENDS if margins else ()))]
    _check_numbers(table.file, columns, expected, ~zeros, where, least, zeros)
    if required is not None:
        # What a row of zeros stands for is found by what else must have a row.
        lacking = (required.counts != 0) & ~np.isin(required.keys, np.unique(keys[~zeros]))
        table.file.check(_OTHER).add(
            lacking,
            lambda at: (
                f"{level.label(int(required.keys[at]) // size)}, {answers.labels[int(required.keys[at]) % size]!r}: "
                f"{surplus(0, int(required.counts[at]))} ({_WHY})"
            ),
        )


def _check_numbers(
    file: LevelFile,
    columns: Sequence[pa.ChunkedArray],
    required: IntArray | None,
    known: BoolArray,
    place: Callable[[int], str],
    least: int,
    zeros: BoolArray | None = None,
) -> None:
    """Check that numbers are whole, those of the histogram, and inside their intervals.

    Args:
        file: they are in.
        columns: the numbers, and where there are intervals margins, low and high ends, `(n_rows,)` each.
        required: the numbers that the histogram gives; None where it cannot be read.
        known: which of them are of a geounit and an answer.
        place: from a row to where it is, in words.
        least: what no number is below.
        zeros: which stand for zeros; None where none do.
    """
    counts, whole = whole_numbers(columns[0], COUNT, file.name)
    right = whole = whole & (counts >= least)
    none = np.zeros(len(counts), dtype=np.bool_) if zeros is None else zeros
    needed = f"whole numbers{' from 0' if least == 0 else ''}"
    file.check(f"counts that are not {needed}").add(
        ~whole | (none & (counts != 0)),
        lambda row: (
            f"{place(row)}: found {value_text(columns[0], row)}, {'a zero is' if none[row] else f'{needed} are'} "
            "required"
        ),
    )
    if required is not None:
        right = whole & (counts == required)
        file.check(_OTHER).add(
            known & whole & ~right,
            lambda row: f"{place(row)}: {surplus(int(counts[row]), int(required[row]))} ({_WHY})",
        )
    if columns[1:]:
        # Of a count that is wrong, the interval is not reported too.
        file.check("intervals that are not whole numbers around the count").add(
            right & ~_around(columns[1:], counts, least, file.name),
            lambda row: (
                f"{place(row)}, its interval: found {value_text(columns[2], row)} to {value_text(columns[3], row)} "
                f"with margin of error {value_text(columns[1], row)} for the count {counts[row]}; whole numbers "
                "around the count (or NaN, unknown) are required"
            ),
        )


def _around(columns: Sequence[pa.ChunkedArray], counts: IntArray, least: int, name: str) -> BoolArray:
    """Whether an interval is of whole numbers from `least` on and holds the count, its margin the larger distance.

    Or all three numbers are NaN, where nothing is known of it.
    """
    read = [whole_numbers(column, end, name) for column, end in zip(columns, ENDS, strict=True)]
    (margins, *_), (lows, *_), (highs, *_) = read
    right = np.logical_and.reduce([numbers[1] for numbers in read])
    right &= (lows >= least) & (lows <= counts) & (counts <= highs)
    right &= margins == np.maximum(counts - lows, highs - counts)
    return right | np.logical_and.reduce([_is_nan(column) for column in columns])


def _is_nan(column: pa.ChunkedArray) -> BoolArray:
    if not pa.types.is_floating(column.type):
        return np.zeros(len(column), dtype=bool)
    return np.asarray(pc.is_nan(column).fill_null(False).to_numpy(zero_copy_only=False))


def check_cumulative(
    files: Files,
    paths: tuple[Path, Path],
    level: Level,
    answers: Query,
    term: str,
    cells: Counts | None,
    *,
    margins: bool,
) -> None:
    """Compare a file of cumulative numbers with the histogram `cells`, and its intervals with those of its table.

    Args:
        files: reads them.
        paths: the file, and that of the table.
        level: of both.
        answers: of the table's query.
        term: which of its terms is cumulated.
        cells: of the level; None where they cannot be read.
        margins: whether there are intervals.

    Raises:
        FormError: a file is missing or damaged.
    """
    number, terms = answers.names.index(term), list(answers.terms)
    n, after = len(terms[number]), math.prod(map(len, terms[number + 1 :]))
    terms[number] = tuple(f"up to {label}" for label in terms[number])
    query = replace(answers, terms=tuple(terms))
    required = None if cells is None else _cumulated(cells.answers(answers), n, after)
    check_table(files, paths[0], level, query, required, margins=margins)
    if not margins:
        return
    of_first = [at for at in range(answers.size) if at // after % n == 0]
    found, table = (
        table_columns(files, path, of, level, margins, [of.labels[at] for at in of_first])
        for path, of in zip(paths, (query, answers), strict=True)
    )
    check = files.check(paths[0], "intervals of the first value that are not the table's")
    for at, one, other in zip(of_first, found, table, strict=True):

        def sentence(row: int, at: int = at) -> str:
            known = f"the interval of {answers.labels[at]!r} in {files.name(paths[1])}"
            return f"{level.label(row)}, {query.labels[at]!r}: its interval is not {known}"

        same = [np.isclose(one[end], other[end], rtol=0, atol=0, equal_nan=True) for end in INTERVAL[1:]]
        check.add(~np.logical_and.reduce(same), sentence)


def _cumulated(counts: Counts, n: int, after: int) -> Counts:
    """Each answer counts in its own column and in those of further values, of `n`, each `after` columns on."""
    times = n - counts.columns // after % n
    steps = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    return Counts.summed(counts.width, np.repeat(counts.keys, times) + steps * after, np.repeat(counts.counts, times))
