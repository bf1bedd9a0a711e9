"""Published sums of amounts, means and cumulative numbers, compared with the released counts and tables.

In every cell the sum lies between the lower and the upper end of the clip for each record that is counted there. A mean
is a published sum by a published count; an end of its interval has to solve the equation that docs/mathematics.md
states, or to be an end of the clip.

Cumulative numbers are sums of the histogram's cells up to each value. An interval is of whole numbers around the
number, as in a table. Of the first value it is that of the table; those of several values follow from simulated runs,
which `verify` repeats and this program does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.check.answers import check_table
from auditor.check.household_sizes import reals, solves, widened
from auditor.reading.cells import Query
from auditor.reading.counts import COUNT, ENDS, Counts, LevelFile, impossible_sums, is_long, read_long
from auditor.reading.files import Files, Places
from auditor.reading.findings import Findings, FormError
from auditor.reading.spec import Amount, PublicUniverse
from auditor.reading.spine import Level

#: How far a number may be from the one that follows from the tables, relative to it.
_NEAR = 1e-12
_ENDS = (":low90", ":high90")

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Summed:
    """A companion of an amount beside the release's own universe, with the histograms of each level."""

    own: PublicUniverse
    universe: PublicUniverse
    amount: Amount
    counts: Mapping[str, Counts]
    sums: Mapping[str, Counts]


def check_amounts(
    files: Files,
    run: Places,
    summed: Summed,
    levels: tuple[Level, ...],
    findings: Findings,
    *,
    margins: bool,
) -> None:
    """Check a companion of an amount: its cells at every level, and its files of sums and means.

    Raises:
        FormError: a file is missing or damaged.
    """
    try:
        cells = summed.own.cells.cells_of(summed.universe.cells)
    except (KeyError, ValueError) as error:
        raise FormError(
            f"public/manifest.json: the attributes of {summed.universe.name!r} are not the release's own: {error}"
        ) from error
    for level in levels:
        if level.name in summed.counts and level.name in summed.sums:
            _check_cells(summed, level, cells, findings)
        for table, answers, names in summed.universe.tables:
            if level.name in names:
                with findings.noting_errors():
                    _check_file(files, run, summed, (table, answers), level, cells, findings, margins)


def _check_cells(summed: Summed, level: Level, cells: NDArray[np.int64], findings: Findings) -> None:
    amount, width = summed.amount, summed.universe.cells.size
    keys, n, found, wrong = impossible_sums(summed.counts[level.name], summed.sums[level.name], cells, amount)
    name = f"companion {summed.universe.name!r} at level {level.name!r}"
    check = findings.check(name, "sums that so many records cannot have")

    def sentence(row: int) -> str:
        return (
            f"{level.label(keys[row] // width)}: found {found[row]:,} units for {n[row]:,} records in "
            f"{summed.universe.cells.label(int(keys[row] % width))!r}; {amount.first * n[row]:,} to "
            f"{amount.last * n[row]:,} are possible"
        )

    check.add(wrong, sentence)


def _counted(summed: Summed, answers: Query, level: str, cells: NDArray[np.int64]) -> str | None:
    """The first of the release's own tables of a level with the same answers; None where there is none."""
    wanted = answers.of_cell[cells]
    for name, own, names in summed.own.tables:
        if level in names and own.labels == answers.labels and np.array_equal(own.of_cell, wanted):
            return name
    return None


def _check_file(
    files: Files,
    run: Places,
    summed: Summed,
    stated: tuple[str, Query],
    level: Level,
    cells: NDArray[np.int64],
    findings: Findings,
    margins: bool,
) -> None:
    """The file of one table at one level."""
    (table, answers), unit = stated, float(summed.amount.unit)
    counted = _counted(summed, answers, level.name, cells)
    path = run.means(summed.universe.name, table, level.name)
    file = LevelFile(files, path, level, findings, once=True)
    sums = table_columns(files, run.universe(summed.universe.name).table(table, level.name), answers, level, margins)
    own = None if counted is None else run.universe("").table(counted, level.name)
    counts = None if own is None else table_columns(files, own, answers, level, margins)
    check = findings.check(file.name, "numbers that do not follow from the tables")
    parts = [":sum", *([":count", ":mean"] if counts is not None else [])]
    ends = (":moe90", *_ENDS) if margins else ()
    columns = [
        label + part + end for label in answers.labels for part in parts for end in (ends if part != ":count" else ())
    ]
    columns += [label + part for label in answers.labels for part in parts]
    for rows, geounits in file.parts(columns):
        known = geounits >= 0
        for label in answers.labels:
            found = {
                part + end: _column(rows, label + part + end, file)
                for part in parts
                for end in ("", *(ends if part != ":count" else ()))
            }
            wrong = np.zeros(len(geounits), dtype=np.bool_)
            for end in ("", *(_ENDS if margins else ())):
                wrong |= ~_same(found[":sum" + end], sums[label + end][geounits] * unit)
            for part in (":sum", ":mean") if ends else ():
                if part in parts:
                    wrong |= _wrong_margin(*(found[part + end] for end in ("", *ends)))
            if counts is not None:
                wrong |= found[":count"] != counts[label][geounits]
                wrong |= _wrong_mean(summed.amount, found, label, sums, counts, geounits)

            def sentence(row: int, label: str = label, geounits: NDArray[np.int64] = geounits) -> str:
                return f"{level.label(geounits[row])}, {label!r}: sum, number or mean do not follow from the tables"

            check.add(known & wrong, sentence)


def _wrong_mean(
    amount: Amount,
    found: Mapping[str, Floats],
    label: str,
    sums: Mapping[str, Floats],
    counts: Mapping[str, Floats],
    geounits: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Which means, or ends of their intervals, are not those of the tables' numbers."""
    s, n, unit = sums[label][geounits], counts[label][geounits], float(amount.unit)
    with np.errstate(invalid="ignore", divide="ignore"):
        wrong = ~_same(found[":mean"], np.where(n > 0, s / n * unit, np.nan))
        if ":mean:low90" not in found:
            return wrong
        low, high = (found[":mean" + end] / unit for end in _ENDS)
        s_low, s_high = (sums[label + end][geounits] for end in _ENDS)
        n_low, n_high = (counts[label + end][geounits] for end in _ENDS)
        unknown = (n == 0) | np.isnan(s_low) | np.isnan(n_low)
        right = (low <= s / n + np.abs(s / n) * _NEAR) & (s / n <= high + np.abs(high) * _NEAR + _NEAR)
        # A mean below 0 is further from 0 the fewer records there are.
        below, above, more = (widened(reach) for reach in (s - s_low, s_high - s, n_high - n))
        fewer = np.minimum(widened(n - n_low), n)
        right &= solves(low, s, n, (below, np.where(s < below, fewer, more)), float(amount.first), near=True)
        right &= solves(high, s, n, (above, np.where(s < -above, more, fewer)), float(amount.last), near=True)
    return np.asarray(wrong | np.where(unknown, ~(np.isnan(low) & np.isnan(high)), ~right))


def _wrong_margin(number: Floats, margin: Floats, low: Floats, high: Floats) -> NDArray[np.bool_]:
    """Which margins of error are not the larger distance to an end of the interval."""
    right = np.maximum(number - low, high - number)
    near = _NEAR * (np.abs(number) + right)  # of a difference of two numbers that are not exact
    return np.asarray(~((np.abs(margin - right) <= near) | (np.isnan(margin) & np.isnan(right))))


def _same(found: Floats, right: Floats) -> NDArray[np.bool_]:
    """Whether numbers are the same but for the last digits of a float; NaN where there is none."""
    return np.asarray(np.isclose(found, right, rtol=_NEAR, atol=0.0, equal_nan=True))


def _column(rows: pa.Table, name: str, file: LevelFile) -> Floats:
    column = rows.column(name)
    if pa.types.is_integer(column.type):
        return np.asarray(column.to_numpy(), dtype=np.float64)
    return reals(column, name, file)


def table_columns(files: Files, path: Path, answers: Query, level: Level, margins: bool) -> dict[str, Floats]:
    """The columns of a table with the ends of its intervals, by geounit; FormError where it is missing or damaged."""
    labels = answers.labels
    if is_long(files, path, answers):
        long = read_long(files, path, level, answers, Findings(), margins=margins)
        ends = [(":" + name, name) for name in ENDS if margins]
        return {
            label + suffix: long.column(name, number)
            for number, label in enumerate(labels)
            for suffix, name in [("", COUNT), *ends]
        }
    file = LevelFile(files, path, level, Findings(), once=True)
    names = [label + suffix for label in labels for suffix in ("", *((":moe90", *_ENDS) if margins else ()))]
    out = {name: np.full(len(level.codes), np.nan) for name in names}
    for rows, geounits in file.parts(names):
        known = geounits >= 0
        for name in names:
            out[name][geounits[known]] = _column(rows, name, file)[known]
    return out


def cumulative_query(answers: Query, term: str) -> Query:
    """A query with the labels of cumulative numbers, of which each column is one."""
    number = answers.names.index(term)
    terms = list(answers.terms)
    terms[number] = tuple(f"up to {label}" for label in terms[number])
    return replace(answers, terms=tuple(terms), of_cell=np.arange(answers.size))


def cumulated(counts: Counts, answers: Query, term: str) -> Counts:
    """Cumulative numbers from the answers of a query: each counts in its own column and in those after it."""
    number = answers.names.index(term)
    n, after = len(answers.terms[number]), _after(answers, number)
    value = counts.columns // after % n
    times = n - value
    steps = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    return Counts.summed(counts.width, np.repeat(counts.keys, times) + steps * after, np.repeat(counts.counts, times))


def check_cumulative(
    files: Files,
    paths: tuple[Path, Path],
    level: Level,
    stated: tuple[Query, str],
    cells: Counts | None,
    findings: Findings,
    *,
    margins: bool,
) -> None:
    """Compare a file of cumulative numbers with the histogram `cells`, and its intervals with those of its table.

    Args:
        files: reads them.
        paths: the file, and that of the table.
        level: of both.
        stated: the query of the table, and which of its terms is cumulated.
        cells: of the level; None where they cannot be read.
        findings: takes what is wrong.
        margins: whether there are intervals.

    Raises:
        FormError: a file is missing or damaged.
    """
    (path, own), (answers, term) = paths, stated
    query = cumulative_query(answers, term)
    required = None if cells is None else cumulated(cells.answers(answers), answers, term)
    check_table(files, path, level, query, required, findings, margins=margins)
    if not margins:
        return
    number = answers.names.index(term)
    values = np.arange(answers.size) // _after(answers, number) % len(answers.terms[number])
    found, table = (table_columns(files, of, one, level, margins) for of, one in ((path, query), (own, answers)))
    check = findings.check(files.name(path), "intervals of the first value that are not the table's")
    for column in np.flatnonzero(values == 0).tolist():
        label, other = query.labels[column], answers.labels[column]
        pairs = [(found[label + end], table[other + end]) for end in (":low90", ":high90")]
        wrong = np.logical_or.reduce([~np.isclose(one, two, rtol=0, atol=0, equal_nan=True) for one, two in pairs])
        known = f"the interval of {other!r} in {files.name(own)}"

        def sentence(row: int, label: str = label, known: str = known) -> str:
            return f"{level.label(row)}, {label!r}: its interval is not {known}"

        check.add(wrong, sentence)


def _after(answers: Query, number: int) -> int:
    """How many answers the terms after one make."""
    return math.prod(len(labels) for labels in answers.terms[number + 1 :])
