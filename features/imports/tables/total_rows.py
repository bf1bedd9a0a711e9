"""Rows of totals: "Total" among the values of a column, or nothing; found by name, and left out once they add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.imports.tables.asked import Asked
from features.imports.tables.cells import Cells
from features.imports.tables.coded import Coded, group_sums
from features.imports.tables.count_names import about_counts, is_other_number, is_time, measures_an_area, named_count
from features.imports.tables.level_names import folded, is_label, rank, words
from features.imports.tables.number_columns import NumberColumns
from features.imports.tables.parts import Parts
from features.imports.tables.profile import Column, profile
from features.imports.tables.sums import sums_of_rest
from features.imports.tables.table_file import TableFile
from geography.codes import counted
from pipeline.errors import InputError

_TOTAL_WORDS = words(
    "total totals _t t insgesamt gesamt zusammen ensemble totale totaal totalt sum yhteensa ogolem celkem osszesen "
    "grand_total subtotal summe gesamtsumme somme suma soma i_alt totalt_alt tot total_result gesamtergebnis ergebnis "
    "total_general totale_complessivo eindtotaal totalsumma suma_koncowa celkovy_soucet hovedtotal total_geral"
)
_WEAK_WORDS = words(
    "all both both_sexes all_ages all_persons all_people everyone everybody ambos both_genders persons m_f mf "
    "male_and_female alle tous todos tutti kaikki all_usual_residents all_categories"
)
_WEAK_STARTS = ("total_", "totals_", "all_", "both_", "alle_", "tous_", "todos_", "gesamt_", "insgesamt_", "subtotal_")


def is_total(text: str) -> bool:
    """Whether a value is called a total, in the languages of many offices."""
    return folded(text).strip("*:") in _TOTAL_WORDS


def may_be_total(text: str) -> bool:
    """Whether a value may be a total, if the rows add up: all, both, nothing."""
    value = folded(text).strip("*:")
    return not value or value in _TOTAL_WORDS | _WEAK_WORDS or value.startswith(_WEAK_STARTS) or "_total" in value


#: Values of a column of which one may be the sum of all others; and bits of agreement that make it no accident.
_FEWEST_VALUES, _BITS_OF_SUM = 3, 60.0
_MOST_PLACES = 100_000_000
#: Totals that are rounded are off by this part, or by so many people.
_NEAR, _ROUNDED = 0.02, 30
#: A column of numbers with more values than this is none that rows differ by.
_MOST_VALUES = 300


def _is_weak(text: str) -> bool:
    """Whether a value can hardly be anything but a total: all, both sexes."""
    return folded(text).strip("*:") in _WEAK_WORDS


def _begins_so(text: str) -> bool:
    """Whether a value begins as those of totals do: total people."""
    return folded(text).startswith(("total_", "totals_"))


@dataclass(frozen=True)
class CountTable:
    """A way to see a table as counts: the columns of counts, and those by which the rows differ."""

    counts: tuple[Cells, ...]
    labels: tuple[str, ...]


def count_tables(columns: Mapping[str, Column], numbers: NumberColumns, asked: Asked) -> list[CountTable]:
    """The ways to see a table as counts, best first; none where no column has whole numbers only.

    Counts are the columns that the user names, or that are named so, or else all whole numbers; other numbers, such as
    years of age, are labels or left aside.
    """
    whole = [
        cells
        for name, cells in numbers.items()
        if not cells.wrong
        and not cells.unsure
        and not measures_an_area(name)
        and not is_time(name)
        and not columns[name].padded
    ]
    whole = [cells for cells in whole if len(cells.numbers) > 1] or whole  # one number in all rows counts nothing
    by_user = [cells for cells in whole if cells.column in (asked.count, *asked.counts)]
    named = by_user or [cells for cells in whole if named_count(cells.column)]
    texts = [
        name
        for name, column in columns.items()
        if (name not in numbers or is_other_number(name))
        and not about_counts(name)
        and not column.numbers_rows
        and not (column.nearly_unique and column.digits)
        and column.n_distinct + bool(column.n_missing) > 1
    ]
    more = [name for name in columns if name in numbers and 1 < columns[name].n_distinct <= _MOST_VALUES]
    found = []
    for counts in [named] if by_user else [named, whole] if named and len(named) < len(whole) else [whole]:
        taken = {cells.column for cells in counts}
        labels = [name for name in columns if name in texts and name not in taken]
        found.append(CountTable(tuple(counts), tuple(labels)))
        if counts is named:
            wider = [name for name in columns if (name in texts or name in more) and name not in taken]
            found += [CountTable(tuple(counts), tuple(wider))] if wider != labels else []
    return [one for one in found if one.counts]


def drop_totals(
    parts: Parts, file: TableFile, columns: Mapping[str, Column], numbers: NumberColumns, name: str
) -> tuple[TableFile, dict[str, Column]]:
    """The table without rows of totals, in `name` where it had some.

    Raises:
        InputError: rows that are called totals are not the sum of the others.
    """
    file, columns = _drop_sums(parts, file, columns, numbers, name)
    problems: list[str] = []
    for seen in count_tables(columns, numbers, parts.request.asked):
        kept, shown, problem = _without_totals(parts, file, columns, seen)
        if problem is None:
            break
        problems.append(problem)
    else:
        if problems:
            raise InputError(problems[0])
        return file, dict(columns)
    if kept.all():
        return file, dict(columns)
    parts.messages += shown
    file = parts.changed(file, name, kept=kept)
    found_columns = profile(file)
    return file, {column: found for column, found in found_columns.items() if column in columns}


def _drop_sums(
    parts: Parts, file: TableFile, columns: Mapping[str, Column], numbers: NumberColumns, name: str
) -> tuple[TableFile, dict[str, Column]]:
    """The table without values that are the sum of all others of their column in every cell: age 999, Alder i alt.

    Values that are called totals are left to the others' rule, which says where they are not sums. Areas that are sums
    become levels.

    Raises:
        InputError: a value is so in most cells only, or but for rounding.
    """
    ways = count_tables(columns, numbers, parts.request.asked)
    if not ways or (parts.request.reading.people is not None and _fits_all(parts, file, ways[0])):
        return file, dict(columns)
    seen = ways[0]
    labels = [one for one in seen.labels if not columns[one].too_many and not columns[one].nearly_unique]
    table = Coded.of(file, [*labels, *(cells.column for cells in seen.counts)])
    kept = [one for i, one in enumerate(labels) if not any(_say_the_same(table, one, other) for other in labels[:i])]
    matrix = np.stack([table.numbers(cells) for cells in seen.counts], axis=1)
    stay = np.ones(len(matrix), dtype=bool)
    said = []
    for label in kept:
        fixed = (*parts.request.attributes, *parts.request.geography, parts.request.geocode)
        if rank(label) is not None or is_label(label) or label in fixed or len(table.texts[label]) < _FEWEST_VALUES:
            continue
        rest = [one for one in kept if one != label and not _follows(table, label, one)]
        found = _by_value(table, label, rest, matrix)
        if found is None:
            continue
        total = _sum_of_all(found[0])
        if total is not None and not may_be_total(table.texts[label][total]):
            stay &= table.codes[label] != total
            said.append(f"{label!r}: {table.texts[label][total]!r}")
        near = _nearly_sum(found[0]) if total is None else None
        if near is not None and not may_be_total(table.texts[label][near]):
            raise InputError(_nearly(file, seen, label, table.texts[label][near], near, *found))
    if stay.all():
        return file, dict(columns)
    parts.messages.append(
        f"{counted(int((~stay).sum()), 'row')} of sums left out ({'; '.join(said)}): in every cell the sum of all "
        "others; if they are values as others are: --attribute"
    )
    file = parts.changed(file, name, kept=stay)
    profiled = profile(file)
    return file, {column: profiled[column] for column in columns}


def _nearly(
    file: TableFile,
    seen: CountTable,
    label: str,
    value: str,
    number: int,
    cells: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> str:
    """Where a value is the sum of all others but for some cells: the first of these, and the difference."""
    others = cells.sum(axis=1) - cells[:, number]
    wrong = (others != cells[:, number]) & (rows[:, number] >= 0)[:, None]
    if not wrong.any():
        wrong = others != cells[:, number]
    group, column = (int(places[0]) for places in np.nonzero(wrong))
    has, sums = int(cells[group, number, column]), int(others[group, column])
    place = file.place([int(rows[group].max() if rows[group, number] < 0 else rows[group, number])])
    return (
        f"{file}: column {label!r}: {value!r} looks like a total, and in {counted(int(wrong.sum()), 'cell')} of "
        f"{wrong.size:,} it is not the sum of the others: {place} has {has:,} in {seen.counts[column].column!r}, the "
        f"others add up to {sums:,} ({abs(has - sums):,} {'less' if has > sums else 'more'}); correct the table, leave "
        f"these rows out, or say that it is a value as others are: --attribute {label}"
    )


def _fits_all(parts: Parts, file: TableFile, seen: CountTable) -> bool:
    """Whether the user states the number of people of all rows."""
    table = Coded.of(file, [cells.column for cells in seen.counts])
    return any(parts.request.asked.fits(int(table.numbers(cells).sum())) for cells in seen.counts)


def _follows(table: Coded, of: str, other: str) -> bool:
    """Whether each value of a column has one of another."""
    return len(np.unique(table.keys([of, other]))) == len(np.unique(table.codes[of]))


def _say_the_same(table: Coded, one: str, other: str) -> bool:
    """Whether two columns say the same, as codes and names do."""
    return _follows(table, one, other) and _follows(table, other, one)


def _by_value(
    table: Coded, label: str, rest: Sequence[str], matrix: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The numbers of each value of a column wherever the rest is the same, and the row of each.

    Returns:
        `(n_groups, n_values, n_columns)`, 0 where there is no row, and `(n_groups, n_values)`, -1 there; None where a
        combination stands in several rows, or there are too many.
    """
    n_values = len(table.texts[label])
    groups = np.unique(table.keys(rest), return_inverse=True)[1] if rest else np.zeros(len(matrix), dtype=np.int64)
    n_groups = int(groups.max()) + 1
    if n_groups * n_values > _MOST_PLACES:
        return None
    rows = np.full((n_groups, n_values), -1, dtype=np.int64)
    rows[groups, table.codes[label]] = np.arange(len(matrix))
    if (rows >= 0).sum() < len(matrix):
        return None
    return np.where(rows[:, :, None] >= 0, np.maximum(matrix[rows], 0), 0), rows


def _sum_of_all(cells: NDArray[np.int64]) -> int | None:
    """The number of the value that is the sum of all others in every cell of `(n_groups, n_values, n_columns)`."""
    right, bits = sums_of_rest(cells)
    found = np.flatnonzero(right & (bits > _BITS_OF_SUM))
    return int(found[0]) if len(found) == 1 else None


def _nearly_sum(cells: NDArray[np.int64]) -> int | None:
    """The number of a value that is that sum in most cells, or is off by no more than rounding is; else None.

    Neither may be an accident: two groups of n people agree to within k with a chance of about k / sqrt(n).
    """
    size = cells.sum(axis=1)
    for i in range(cells.shape[1]):
        off = np.abs(2 * cells[:, i] - size)
        agree = off == 0
        bits = np.log2(np.maximum(np.sqrt(cells[:, i]), 1.0))
        most = 2 * (agree & (size > 0)).sum() > (size > 0).sum() and bits[agree].sum() > _BITS_OF_SUM
        widest = np.maximum(np.sqrt(cells[:, i]) / (off.max() + 0.5), 1.0)
        if most or (off.max() <= _ROUNDED and np.log2(widest).sum() > _BITS_OF_SUM):
            return i
    return None


def _without_totals(
    parts: Parts, file: TableFile, columns: Mapping[str, Column], seen: CountTable
) -> tuple[NDArray[np.bool_], list[str], str | None]:
    """Which rows stay; a sentence on those that do not; and what is wrong with a total that is none."""
    labels = [name for name in seen.labels if not columns[name].too_many]
    suspects = [
        name
        for name in labels
        if name not in parts.request.attributes
        and any(map(may_be_total, [*columns[name].values, *([""] if columns[name].n_missing else [])]))
    ]
    if not suspects:
        return np.ones(1, dtype=bool), [], None
    table = Coded.of(file, [*labels, *(cells.column for cells in seen.counts)])
    matrix = np.stack([table.numbers(cells) for cells in seen.counts], axis=1)
    kept = np.ones(len(matrix), dtype=bool)
    messages: list[str] = []
    for weak in (False, True):
        test = may_be_total if weak else is_total
        masks = {name: table.has(name, [test(text) for text in table.texts[name]]) & kept for name in suspects}
        masks = {name: mask for name, mask in masks.items() if mask.any() and not mask[kept].all()}
        found = _sums(table, labels, masks, matrix, kept) if masks else None
        if found is None:
            continue
        totals, wrong, near = found
        if wrong.any() and not parts.request.asked.fits(int(matrix[kept & ~totals].sum(axis=0).max())):
            firm = {name: table.has(name, [_is_weak(text) for text in table.texts[name]]) for name in masks}
            if near:  # rounded, most likely
                firm = {
                    name: mask | table.has(name, [_begins_so(text) for text in table.texts[name]])
                    for name, mask in firm.items()
                }
            if weak and not any((wrong & firm[name] & mask).any() for name, mask in masks.items()):
                continue
            return kept, [], _difference(file, table, seen, masks, matrix, kept, (totals, wrong))
        kept &= ~totals
        what = "; ".join(f"{name!r}: {_values(table, name, mask & totals)}" for name, mask in masks.items())
        messages.append(f"{counted(int(totals.sum()), 'row')} of totals left out ({what}): the sum of others")
    return kept, messages, None


def _values(table: Coded, name: str, mask: NDArray[np.bool_]) -> str:
    texts = [table.texts[name][i] for i in np.unique(table.codes[name][mask])[:3]]
    return ", ".join(repr(text) if text else "empty" for text in texts)


def _sums(
    table: Coded,
    labels: Sequence[str],
    masks: Mapping[str, NDArray[np.bool_]],
    matrix: NDArray[np.int64],
    kept: NDArray[np.bool_],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], bool] | None:
    """Which rows are totals; which of them are not the sum of the rows that are none; whether these nearly are.

    None where all rows are totals.
    """
    totals = np.logical_or.reduce(list(masks.values()))
    base = kept & ~totals
    if not base.any():
        return None
    # What stands beside a total and with no other row, such as a code for the whole, is a part of the total's name.
    summed = {}
    for name in labels:
        known = np.zeros(len(table.texts[name]), dtype=bool)
        known[np.unique(table.codes[name][base])] = True
        summed[name] = totals & (masks.get(name, False) | ~known[table.codes[name]])
    pattern = np.zeros(len(totals), dtype=np.int64)
    for i, name in enumerate(labels):
        pattern |= summed[name].astype(np.int64) << min(i, 62)
    wrong = np.zeros(len(totals), dtype=bool)
    near = True
    for number in np.unique(pattern[totals]):
        rows = totals & (pattern == number)
        others = [name for name in labels if not summed[name][rows].any()]
        off = np.abs(_expected(table, others, matrix, base, rows) - matrix[rows])
        wrong[rows] = off.any(axis=1)
        near &= bool((off <= np.maximum(_NEAR * matrix[rows], _ROUNDED)).all())
    return totals, wrong, near


def _expected(
    table: Coded,
    others: Sequence[str],
    matrix: NDArray[np.int64],
    base: NDArray[np.bool_],
    rows: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """The sums of the rows that are no totals, for each of the rows that are: where the other columns agree."""
    keys, sums = group_sums(table.keys(others, base), matrix[base])
    wanted = table.keys(others, rows)
    at = np.clip(np.searchsorted(keys, wanted), 0, max(len(keys) - 1, 0))
    return np.where((keys[at] == wanted)[:, None], sums[at], 0)


def _difference(
    file: TableFile,
    table: Coded,
    seen: CountTable,
    masks: Mapping[str, NDArray[np.bool_]],
    matrix: NDArray[np.int64],
    kept: NDArray[np.bool_],
    called: tuple[NDArray[np.bool_], NDArray[np.bool_]],
) -> str:
    """The first row that is called a total and is none, and the difference."""
    totals, wrong = called
    labels = [name for name in seen.labels if name in table.codes]
    row = int(np.flatnonzero(wrong)[0])
    here = np.zeros(len(totals), dtype=bool)
    here[row] = True
    base = kept & ~totals
    known = {name: np.unique(table.codes[name][base]) for name in labels}
    summed = [
        name for name in labels if (name in masks and masks[name][row]) or table.codes[name][row] not in known[name]
    ]
    expected = _expected(table, [name for name in labels if name not in summed], matrix, base, here)[0]
    column = int(np.flatnonzero(expected != matrix[row])[0])
    name = next(name for name in masks if masks[name][row])
    text = table.texts[name][table.codes[name][row]]
    n_wrong = int(wrong.sum())
    difference = int(matrix[row, column] - expected[column])
    return (
        f"{file}: column {name!r}: {text!r} is called a total, and in {counted(n_wrong, 'row')} of "
        f"{int(totals.sum()):,} it is not the sum of the others: {file.place([row])} has {matrix[row, column]:,} in "
        f"{seen.counts[column].column!r}, the others add up to {int(expected[column]):,} ({abs(difference):,} "
        f"{'less' if difference > 0 else 'more'}); correct the table, or say that it is a value as others are: "
        f"--attribute {name}"
    )
