"""Published tables and cumulative numbers, compared with the answers that the published histograms give.

Cumulative numbers are sums of the histogram's cells up to each value. An interval is of whole numbers around the
number. That of the first value cumulated is that of the table; those of several values follow from simulated runs,
which `verify` repeats and this program does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.check.ratios import table_columns
from auditor.reading.cells import Query
from auditor.reading.counts import COUNT, ENDS, INTERVAL, ZEROS, Counts, Numbers, is_long, place, read_table
from auditor.reading.files import Files, value_text, whole_numbers
from auditor.reading.findings import surplus
from auditor.reading.spine import Level
from auditor.reading.values import BoolArray, IntArray


def check_table(
    files: Files,
    path: Path,
    level: Level,
    answers: Query,
    required: Counts | None,
    *,
    margins: bool,
    least: int = 0,
    why: str = "the sum over the histogram's cells",
) -> Counts:
    """Compare a table with the answers `required` of its level; None where these are not known. Returns what it holds.

    Args:
        files: reads it.
        path: of it.
        level: of its rows.
        answers: of its query.
        required: what it has to hold.
        margins: whether there are intervals.
        least: what no number is below; less than 0 for sums of amounts that may be.
        why: what the required numbers are.

    Raises:
        FormError: the file is missing or damaged.
    """
    parts = []
    for numbers in read_table(files, path, level, answers, margins=margins):
        keys, known = numbers.geounits * answers.size + numbers.answers, numbers.geounits >= 0
        due = None if required is None else np.where(numbers.answers == ZEROS, 0, required.at(keys))
        counts = _check_numbers(numbers, due, least, why)
        known &= numbers.answers != ZEROS
        parts.append((keys[known], counts[known]))
    found = Counts.of_parts(answers.size, parts)
    if required is not None and is_long(answers):
        # What a row of zeros stands for is found by what else must have a row.
        numbers.file.check(f"counts that are not {why}").add(
            (required.counts != 0) & ~np.isin(required.keys, found.keys),
            lambda at: (
                f"{place(level, answers.size, answers.labels.__getitem__, required.keys[at])}: "
                f"{surplus(0, int(required.counts[at]))} ({why})"
            ),
        )
    return found


def _check_numbers(numbers: Numbers, required: IntArray | None, least: int, why: str) -> IntArray:
    """Check that numbers are whole, the required ones, and inside their intervals; returns them, 0 for others.

    Args:
        numbers: of a table.
        required: `(n,)` what they are to be; None where that is not known.
        least: what no number is below.
        why: what demands them.
    """
    file, place, (column, *ends) = numbers.file, numbers.place, numbers.columns.values()
    counts, whole = whole_numbers(column, COUNT, file.name)
    right = whole = whole & (counts >= least)
    none = numbers.answers == ZEROS
    needed = f"whole numbers{' from 0' if least == 0 else ''}"
    file.check(f"counts that are not {needed}").add(
        ~whole | (none & (counts != 0)),
        lambda row: (
            f"{place(row)}: found {value_text(column, row)}, {'a zero is' if none[row] else f'{needed} are'} required"
        ),
    )
    if required is not None:
        right = whole & (counts == required)
        file.check(f"counts that are not {why}").add(
            (numbers.geounits >= 0) & ~none & whole & ~right,
            lambda row: f"{place(row)}: {surplus(int(counts[row]), int(required[row]))} ({why})",
        )
    if ends:
        # Of a count that is wrong, the interval is not reported too.
        file.check("intervals that are not whole numbers around the count").add(
            right & ~_around(ends, counts, least, file.name),
            lambda row: (
                f"{place(row)}, its interval: found {value_text(ends[1], row)} to {value_text(ends[2], row)} "
                f"with margin of error {value_text(ends[0], row)} for the count {counts[row]}; whole numbers "
                "around the count (or NaN, unknown) are required"
            ),
        )
    return np.where(whole, counts, 0)


def _around(columns: Sequence[pa.ChunkedArray], counts: IntArray, least: int, name: str) -> BoolArray:
    """Whether an interval is of whole numbers from `least` on and holds the count, its margin the larger distance.

    Or all three numbers are NaN, where nothing is known of it.
    """
    read = [whole_numbers(column, end, name) for column, end in zip(columns, ENDS, strict=True)]
    (margins, *_), (lows, *_), (highs, *_) = read
    right = np.logical_and.reduce([numbers[1] for numbers in read])
    right &= (lows >= least) & (lows <= counts) & (counts <= highs)
    right &= margins == np.maximum(counts - lows, highs - counts)
    unknown = (pc.is_nan(column.cast(pa.float64(), safe=False)).fill_null(False).to_numpy() for column in columns)
    return np.asarray(right | np.logical_and.reduce([*unknown]))


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
