"""Published tables, invariants and bounds, compared with the answers that the published histograms give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.reading.cells import Query
from auditor.reading.counts import COUNT, ENDS, ZEROS, Counts, LevelFile, LongTable, is_long, read_long
from auditor.reading.files import LARGEST, Files, value_text, whole_numbers
from auditor.reading.findings import Check, Findings, FormError, surplus
from auditor.reading.spec import Bound
from auditor.reading.spine import Level

#: What docs/release_directory.md adds to an answer's label for the columns of its interval.
_INTERVAL = (":moe90", ":low90", ":high90")


def check_table(
    files: Files,
    path: Path,
    level: Level,
    answers: Query,
    cells: Counts | None,
    findings: Findings,
    *,
    margins: bool,
    least: int = 0,
) -> None:
    """Compare a table with the histogram `cells` of its level; None where that cannot be read.

    Args:
        least: what no number is below; less than 0 for sums of amounts that may be.

    Raises:
        FormError: the file is missing or damaged.
    """
    required = None if cells is None else cells.answers(answers)
    if is_long(files, path, answers):
        _check_long(
            read_long(files, path, level, answers, findings, margins=margins), required, findings, answers, least
        )
        return
    file = LevelFile(files, path, level, findings, once=True)
    counted = findings.check(file.name, f"counts that are not whole numbers{_from(least)}")
    equal = findings.check(file.name, "counts that are not the histogram's")
    precise = findings.check(file.name, "intervals that are not whole numbers around the count") if margins else None
    suffixes = ("", *_INTERVAL) if margins else ("",)
    for part, geounits in file.parts([label + suffix for label in answers.labels for suffix in suffixes]):
        expected = None if required is None else required.dense(geounits)
        for index, label in enumerate(answers.labels):
            actual = read_counts(part.column(label), label, geounits, file, counted, least)
            if expected is not None:
                why = "the sum over the histogram's cells"
                _compare(equal, why, file, geounits, label, actual, expected[:, index], least)
            if precise is not None:
                # Of a count that is wrong, the interval is not reported too.
                right = actual if expected is None else np.where(actual == expected[:, index], actual, least - 1)
                intervals = [part.column(label + suffix) for suffix in _INTERVAL]
                _check_intervals(intervals, right, label, geounits, file, precise, least)


def _check_long(table: LongTable, required: Counts | None, findings: Findings, answers: Query, least: int) -> None:
    """The same of a table with a row for each answer; `required`: of the histogram."""
    file, size, level = table.file, answers.size, table.file.level
    counts, whole = whole_numbers(table.rows.column(COUNT), COUNT, file.name)
    whole &= counts >= least
    zeros = table.answers == ZEROS

    def place(row: int) -> str:
        answer = "its zeros" if zeros[row] else repr(answers.labels[table.answers[row]])
        return f"{level.label(table.geounits[row])}, {answer}"

    findings.check(file.name, f"counts that are not whole numbers{_from(least)}").add(
        ~whole | (zeros & (counts != 0)),
        lambda row: (
            f"{place(row)}: found {value_text(table.rows.column(COUNT), row)}, "
            f"{'a zero is' if zeros[row] else f'whole numbers{_from(least)} are'} required"
        ),
    )
    keys = table.geounits * size + table.answers
    right = whole.copy()
    if required is not None:
        # What a row of zeros stands for is found by what else must have a row.
        stated = np.unique(keys[~zeros])
        lacking = required.keys[(required.counts != 0) & ~np.isin(required.keys, stated)]
        expected = np.where(zeros, 0, required.at(keys))
        right &= counts == expected
        equal = findings.check(file.name, "counts that are not the histogram's")
        why = "the sum over the histogram's cells"
        equal.add(
            whole & ~zeros & (counts != expected),
            lambda row: f"{place(row)}: {surplus(int(counts[row]), int(expected[row]))} ({why})",
        )
        equal.add(
            np.ones(len(lacking), dtype=np.bool_),
            lambda at: (
                f"{level.label(int(lacking[at]) // size)}, {answers.labels[int(lacking[at]) % size]!r}: "
                f"{surplus(0, int(required.at(lacking[at : at + 1])[0]))} ({why})"
            ),
        )
    if ENDS[0] in table.rows.column_names:
        _check_ends(
            [table.rows.column(name) for name in ENDS],
            np.where(right, counts, least - 1),
            file.name,
            findings.check(file.name, "intervals that are not whole numbers around the count"),
            least,
            lambda row: f"{place(row)}, its interval",
        )


def check_invariant(
    files: Files,
    path: Path,
    level: Level,
    answers: Query,
    cells: Counts,
    histogram: str,
    findings: Findings,
) -> None:
    """Compare the histogram `cells` of a level, in the file `histogram`, with what is published exactly.

    Raises:
        FormError: the file of exact answers is missing or damaged.
    """
    released = cells.answers(answers)
    file = LevelFile(files, path, level, findings, once=True, values=answers.size)
    counted = findings.check(file.name, "counts that are not whole numbers from 0")
    equal = findings.check(histogram, f"counts that break the invariant {answers.name!r}")
    for part, geounits in file.parts(["value", "variance"]):
        exact = _answer_columns(part.column("value"), answers, file)
        dense = released.dense(geounits)
        for index, label in enumerate(answers.labels):
            required = read_counts(exact[index], label, geounits, file, counted)
            why = f"the invariant {answers.name!r} in {file.name}"
            _compare(equal, why, file, geounits, label, dense[:, index], required)


def check_bound(
    files: Files,
    path: Path,
    level: Level,
    bound: Bound,
    cells: Counts,
    histogram: str,
    findings: Findings,
) -> None:
    """Check the histogram `cells` of the bound's level, in the file `histogram`, against the facilities.

    Raises:
        FormError: the file of facilities is missing or damaged.
    """
    released = cells.answers(bound.answers)
    file = LevelFile(files, path, level, findings, once=True)
    counted = findings.check(file.name, "numbers of facilities that are not whole numbers from 0")
    broken = findings.check(histogram, f"counts that break the bound {bound.name!r}")
    for part, geounits in file.parts(list(bound.columns)):
        dense = released.dense(geounits)
        for label in bound.columns:
            facilities = read_counts(part.column(label), label, geounits, file, counted)
            persons = dense[:, bound.answers.labels.index(label)]
            _check_facilities(broken, file, bound, label, geounits, persons, facilities)


def _answer_columns(column: pa.ChunkedArray, answers: Query, file: LevelFile) -> list[pa.Array]:
    """The column of lists as one array an answer, each `(n_rows,)`."""
    if not pa.types.is_list(column.type):
        raise FormError(f"{file.name}: column 'value' holds {column.type}; lists of whole numbers are required")
    lengths = pc.list_value_length(column).fill_null(-1).to_numpy()
    if (lengths != answers.size).any():
        row = int(np.flatnonzero(lengths != answers.size)[0])
        raise FormError(
            f"{file.name}: row {file.first_row + row:,} has {max(lengths[row], 0):,} answers; the query "
            f"{answers.name!r} has {answers.size:,}"
        )
    flat = pc.list_flatten(column).combine_chunks()
    return [flat.take(pa.array(np.arange(index, len(flat), answers.size))) for index in range(answers.size)]


def _check_facilities(
    broken: Check,
    file: LevelFile,
    bound: Bound,
    label: str,
    geounits: NDArray[np.int64],
    persons: NDArray[np.int64],
    facilities: NDArray[np.int64],
) -> None:
    many = int(facilities.max(initial=0)) * max(abs(bound.lower), abs(bound.upper), 1) > LARGEST
    exact = facilities.astype(object) if many else facilities
    low, high = exact * bound.lower, exact * bound.upper

    def sentence(row: int) -> str:
        count, least, most = int(persons[row]), int(low[row]), int(high[row])
        by = f"{count - most:,} too many" if count > most else f"{least - count:,} too few"
        return (
            f"{file.level.label(geounits[row])}, {label!r} has {int(facilities[row]):,} facilities: found {count:,}, "
            f"required {least:,} to {most:,}, {by} (the bound {bound.name!r})"
        )

    readable = (geounits >= 0) & (facilities >= 0)
    broken.add(readable & np.asarray((persons < low) | (persons > high), dtype=np.bool_), sentence)


def read_counts(
    column: pa.Array | pa.ChunkedArray,
    label: str,
    geounits: NDArray[np.int64],
    file: LevelFile,
    counted: Check,
    least: int = 0,
) -> NDArray[np.int64]:
    """The counts of a column, `(n_rows,)`; `least` - 1 where there is none from `least` on, which is reported."""
    counts, whole = whole_numbers(column, label, file.name)
    whole &= counts >= least
    counted.add(
        ~whole,
        lambda row: (
            f"{_geounit(file, geounits, row)}, {label!r}: found {value_text(column, row)}, whole "
            f"numbers{_from(least)} are required"
        ),
    )
    return np.where(whole, counts, least - 1)


def _from(least: int) -> str:
    return " from 0" if least == 0 else ""


def _compare(
    equal: Check,
    why: str,
    file: LevelFile,
    geounits: NDArray[np.int64],
    label: str,
    actual: NDArray[np.int64],
    required: NDArray[np.int64],
    least: int = 0,
) -> None:
    """Report where counts, all `(n_rows,)`, differ; rows without a geounit or a count are reported elsewhere."""
    equal.add(
        (geounits >= 0) & (actual >= least) & (required >= least) & (actual != required),
        lambda row: (
            f"{file.level.label(geounits[row])}, {label!r}: {surplus(int(actual[row]), int(required[row]))} ({why})"
        ),
    )


def _check_intervals(
    columns: list[pa.ChunkedArray],
    counts: NDArray[np.int64],
    label: str,
    geounits: NDArray[np.int64],
    file: LevelFile,
    precise: Check,
    least: int,
) -> None:
    """An interval is of whole numbers from `least` on and holds the count; its margin is the larger distance to an end.

    All three numbers are NaN where nothing is known of it.
    """
    where = f"interval of {label!r}"
    _check_ends(
        columns, counts, file.name, precise, least, lambda row: f"{_geounit(file, geounits, row)}, {where}", label
    )


def _check_ends(
    columns: Sequence[pa.ChunkedArray],
    counts: NDArray[np.int64],
    name: str,
    precise: Check,
    least: int,
    place: Callable[[int], str],
    label: str = "",
) -> None:
    """The same of columns of margins, low and high ends; `place`: of a row, as sentences name it."""
    read = [whole_numbers(column, label + suffix, name) for column, suffix in zip(columns, _INTERVAL, strict=True)]
    (margins, *_), (lows, *_), (highs, *_) = read
    whole = np.logical_and.reduce([numbers[1] for numbers in read])
    right = whole & (lows >= least) & (lows <= counts) & (counts <= highs)
    right &= margins == np.maximum(counts - lows, highs - counts)
    unknown = np.logical_and.reduce([_is_nan(column) for column in columns])
    precise.add(
        (counts >= least) & ~(unknown | right),
        lambda row: (
            f"{place(row)}: found {value_text(columns[1], row)} to "
            f"{value_text(columns[2], row)} with margin of error {value_text(columns[0], row)} for the count "
            f"{counts[row]}; whole numbers around the count (or NaN, unknown) are required"
        ),
    )


def _is_nan(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    if not pa.types.is_floating(column.type):
        return np.zeros(len(column), dtype=bool)
    return np.asarray(pc.is_nan(column).fill_null(False).to_numpy(zero_copy_only=False))


def _geounit(file: LevelFile, geounits: NDArray[np.int64], row: int) -> str:
    return file.level.label(geounits[row]) if geounits[row] >= 0 else f"row {file.first_row + row:,}"
