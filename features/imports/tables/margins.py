"""Suppressed numbers that the table's own totals determine: exact solutions of linear equations, or a stop.

Every total of the table is an equation: a sum over sexes, ages or areas, which the known numbers prove, or which its
name says and no known number contradicts; or a column that is the sum of others. A suppressed number is filled in only
where these equations leave one value for it. That numbers are not negative is not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from features.imports.tables.area_totals import find_area_totals
from features.imports.tables.cells import read_cells
from features.imports.tables.coded import Coded
from features.imports.tables.count_names import about_counts, is_other_number, is_time, measures_an_area
from features.imports.tables.number_columns import NumberColumns
from features.imports.tables.parts import Parts, Texts
from features.imports.tables.profile import Column, profile
from features.imports.tables.sums import find_sums
from features.imports.tables.table_file import TableFile
from features.imports.tables.total_rows import is_total
from geography.codes import counted
from pipeline.errors import InputError

#: Suppressed numbers that hang together, up to which they are solved for.
_MOST_TOGETHER = 3_000

#: An equation between places of the table: the one of the total, and those of its parts; a place is row x column.
Equation = tuple[int, Sequence[int]]


def fill_from_margins(
    parts: Parts, file: TableFile, columns: Mapping[str, Column], numbers: NumberColumns, name: str
) -> tuple[TableFile, dict[str, Column], NumberColumns]:
    """The table, in `name`, with the numbers that stand behind marks that mean margins; its columns, and of numbers.

    Args:
        parts: the folder, and what the marks mean.
        file: with plain numbers, rows of totals among them.
        columns: those that may be used.
        numbers: the columns of numbers.
        name: of the new file.

    Raises:
        InputError: a suppressed number is not determined, or the totals contradict each other.
    """
    marks = [mark for mark, meaning in parts.request.marks.items() if meaning == "margins"]
    if not marks:
        return file, dict(columns), numbers
    counts = [
        one
        for one, cells in numbers.items()
        if not {"fraction", "percent", "negative", "other"} & cells.wrong.keys()
        and not (measures_an_area(one) or is_time(one) or columns[one].padded)
    ]
    labels = [
        one
        for one, column in columns.items()
        if (one not in numbers or is_other_number(one) or is_time(one))
        and not (about_counts(one) or column.too_many or column.numbers_rows)
        and column.n_distinct + bool(column.n_missing) > 1
    ]
    table = Coded.of(file, [*labels, *counts])
    values = np.stack([table.numbers(numbers[one]) for one in counts], axis=1)
    sought = np.stack([table.has(one, [text in marks for text in table.texts[one]]) for one in counts], axis=1)
    equations = [*_of_rows(table, labels, values), *_of_columns(counts, values)]
    solved = _solved(file, counts, values, sought, equations)
    filled = {one: dict(solved[i]) for i, one in enumerate(counts) if solved[i]}
    for one, found in filled.items():
        parts.messages.append(
            f"column {one!r}: {counted(len(found), 'suppressed number')} {'is' if len(found) == 1 else 'are'} "
            "determined by the table's own totals, and filled in"
        )
        kept = parts.decisions.setdefault("marks", {})
        kept.setdefault(one, {})["margins"] = {"meaning": "margins", "rows": len(found)}  # type: ignore[attr-defined]
    first = 0

    def with_numbers(chunk: Texts) -> Texts:
        nonlocal first
        n = len(next(iter(chunk.values())))
        for one, found in filled.items():
            for row, number in found.items():
                if first <= row < first + n:
                    chunk[one][row - first] = str(number)
        first += n
        return chunk

    file = parts.rewritten(file, name, with_numbers)
    now = {one: column for one, column in profile(file).items() if one in columns}
    read = {one: read_cells(now[one], named=True, thousands="") for one in filled}
    return file, now, {**numbers, **read}


def _of_columns(counts: Sequence[str], values: NDArray[np.int64]) -> Iterable[Equation]:
    """Columns that are sums of others in all rows without a mark."""
    whole = (values >= 0).all(axis=1)
    if len(counts) < 3 or not whole.any():
        return
    place = {name: i for i, name in enumerate(counts)}
    n = len(counts)
    for total, some in find_sums(counts, values[whole]).totals.items():
        for row in range(len(values)):
            yield row * n + place[total], [row * n + place[one] for one in some]


def _of_rows(table: Coded, labels: Sequence[str], values: NDArray[np.int64]) -> Iterable[Equation]:
    """Rows that are sums of others: over each label by itself, where all others are the same."""
    kept = [one for i, one in enumerate(labels) if not any(_alike(table, one, other) for other in labels[:i])]
    n_columns = values.shape[1]
    for label in kept:
        rest = [one for one in kept if one != label and not _follows(table, label, one)]
        _, groups = (
            np.unique(table.keys(rest), return_inverse=True) if rest else (None, np.zeros(len(values), np.int64))
        )
        texts, codes = table.texts[label], table.codes[label]
        rows = np.full((len(texts), int(groups.max()) + 1), -1, dtype=np.int64)
        rows[codes, groups] = np.arange(len(values))
        if (rows >= 0).sum() != len(values):
            continue  # a combination stands in several rows
        here = values[rows]  # (n_texts, n_groups, n_columns); an absent row has nobody
        here[rows < 0] = 0
        known = (here >= 0).all(axis=0)
        parent = dict(find_area_totals(texts, here[:, known]).parent) if known.any() else {}
        named = [text for text in texts if is_total(text)]
        if not parent and len(named) == 1:
            parent = {text: named[0] for text in texts if text != named[0]}
        children: dict[int, list[int]] = {}
        for child, over in parent.items():
            children.setdefault(texts.index(over), []).append(texts.index(child))
        for above, some in children.items():
            if (here[some][:, known].sum(axis=0) != here[above][known]).any():
                continue
            for group in np.flatnonzero(rows[above] >= 0).tolist():
                members = [row for row in rows[some, group].tolist() if row >= 0]
                for i in range(n_columns):
                    yield int(rows[above, group]) * n_columns + i, [row * n_columns + i for row in members]


def _alike(table: Coded, one: str, other: str) -> bool:
    """Whether two columns say the same, as codes and names do."""
    return _follows(table, one, other) and _follows(table, other, one)


def _follows(table: Coded, of: str, other: str) -> bool:
    """Whether each value of a column has one of another."""
    return len(np.unique(table.keys([of, other]))) == len(np.unique(table.codes[of]))


def _solved(
    file: TableFile,
    counts: Sequence[str],
    values: NDArray[np.int64],
    sought: NDArray[np.bool_],
    equations: Sequence[Equation],
) -> list[list[tuple[int, int]]]:
    """Of each column the rows that were suppressed, and their numbers.

    Args:
        values: `(n_rows, n_columns)`; -1 where there is no number.
        sought: the same shape: what is to be solved for.
    """
    flat = values.ravel()
    rest: list[tuple[dict[int, Fraction], Fraction]] = []
    for total, some in equations:
        terms: dict[int, int] = {}
        right = 0
        for place, sign in ((total, 1), *((one, -1) for one in some)):
            if flat[place] < 0:
                terms[place] = terms.get(place, 0) + sign
            else:
                right -= sign * int(flat[place])
        if terms:
            rest.append(({place: Fraction(sign) for place, sign in terms.items() if sign}, Fraction(right)))
    found = determined(rest)
    wanted = np.flatnonzero(sought.ravel()).tolist()
    n = len(counts)
    open_ones = [place for place in wanted if place not in found]
    if any(number < 0 or number.denominator > 1 for number in found.values()):
        bad = next(place for place, number in found.items() if number < 0 or number.denominator > 1)
        raise InputError(
            f"{file}: --marks: the table's totals contradict each other: column {counts[bad % n]!r}, "
            f"{file.place([bad // n])} would have {found[bad]}; correct the table, or say what the marks mean"
        )
    if open_ones:
        names = ", ".join(dict.fromkeys(repr(counts[place % n]) for place in open_ones[:40]))
        places = file.place(list(dict.fromkeys(place // n for place in open_ones)))
        raise InputError(
            f"{file}: --marks: {len(open_ones):,} of {counted(len(wanted), 'suppressed number')} are not determined by "
            f"the table's totals: column{'s' if ',' in names else ''} {names}, {places}; say what the marks mean: 0 "
            "(nobody) or missing (not known: nobody is counted there)"
        )
    out: list[list[tuple[int, int]]] = [[] for _ in counts]
    for place in wanted:
        out[place % n].append((place // n, int(found[place])))
    return out


def determined(equations: Sequence[tuple[Mapping[int, Fraction], Fraction]]) -> dict[int, Fraction]:
    """The unknowns that linear equations leave one value, and the value; exact.

    Args:
        equations: each the coefficients of its unknowns, and the right side.

    Returns:
        unknown -> value. An unknown that several solutions have different values for is not there.
    """
    of: dict[int, list[int]] = {}
    for i, (terms, _) in enumerate(equations):
        for unknown in terms:
            of.setdefault(unknown, []).append(i)
    found: dict[int, Fraction] = {}
    seen: set[int] = set()
    for start in range(len(equations)):
        if start in seen:
            continue
        together, waiting = [], [start]
        seen.add(start)
        while waiting:
            i = waiting.pop()
            together.append(i)
            for unknown in equations[i][0]:
                for other in of[unknown]:
                    if other not in seen:
                        seen.add(other)
                        waiting.append(other)
        if len({unknown for i in together for unknown in equations[i][0]}) <= _MOST_TOGETHER:
            found |= _eliminated([equations[i] for i in sorted(together)])
    return found


def _eliminated(equations: Sequence[tuple[Mapping[int, Fraction], Fraction]]) -> dict[int, Fraction]:
    """The same of equations that hang together: Gauss-Jordan elimination in fractions."""
    pivots: dict[int, tuple[dict[int, Fraction], Fraction]] = {}
    for terms, right in sorted(equations, key=lambda equation: len(equation[0])):
        row, value = dict(terms), right
        for unknown in [one for one in row if one in pivots]:
            row, value = _less(row, value, row[unknown], pivots[unknown])
        if not row:
            continue
        pivot = min(row)
        scale = row[pivot]
        new = {one: coefficient / scale for one, coefficient in row.items()}, value / scale
        for unknown, (other, its) in pivots.items():
            if pivot in other:
                pivots[unknown] = _less(other, its, other[pivot], new)
        pivots[pivot] = new
    return {unknown: value for unknown, (row, value) in pivots.items() if len(row) == 1}


def _less(
    row: Mapping[int, Fraction], value: Fraction, times: Fraction, other: tuple[Mapping[int, Fraction], Fraction]
) -> tuple[dict[int, Fraction], Fraction]:
    """A row less a multiple of another."""
    left = dict(row)
    for unknown, coefficient in other[0].items():
        left[unknown] = left.get(unknown, Fraction(0)) - times * coefficient
        if not left[unknown]:
            del left[unknown]
    return left, value - times * other[1]
