"""How many people each row counts, what in a table looks like a sum of other rows, and what would prove a number."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

import numpy as np

from features.imports.tables.statement import RowCondition, TableStatement
from features.imports.tables.table import Coded, RecordTable, keys_of, read_table
from features.imports.tables.words import is_total
from geography.spine import counted
from pipeline.errors import InputError
from postprocess.arrays import IntArray

_WHOLE = re.compile(r"0|[1-9][0-9]{0,14}", re.ASCII)
_MOST_TRIED = 2_000


def read_counts(table: RecordTable, column: str) -> IntArray:
    """`(n_rows,)`, whole numbers written as such.

    Raises:
        InputError: a cell is none.
    """
    one = table.columns[column]
    numbers = np.zeros(len(one.texts), dtype=np.int64)
    for i, text in enumerate(one.texts):
        if not _WHOLE.fullmatch(text):
            raise InputError(
                f"{table.found(column, [text])}; a count is a whole number of people written in digits only, "
                "such as 3967"
            )
        numbers[i] = int(text)
    return numbers[one.codes]


def check_once(table: RecordTable, cells: Mapping[str, Coded]) -> None:
    """InputError where a cell has two rows."""
    keys = keys_of(list(cells.values()))
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if same.size:
        one, other = order[same[0]], order[same[0] + 1]
        cell = ", ".join(f"{name} {column.texts[column.codes[one]]!r}" for name, column in cells.items())
        raise InputError(
            f"{table.both(one, other)}: two rows of the same cell ({cell}); "
            "each has one row: name the column that tells them apart in --attributes or --geography, or leave rows out "
            "(--only)"
        )


def check_sums(
    table: RecordTable, columns: Mapping[str, Coded], counts: IntArray, conditions: Sequence[RowCondition], wide: bool
) -> None:
    """InputError where a value is the sum of all others of its column, by its word or in every combination.

    A value that a condition of --only keeps by its name is what the user says it is.
    """
    for name, column in columns.items():
        kept = {value for c in conditions if c.kept and c.column == name for value in c.values}
        present = np.unique(column.codes)
        found: str | None = None
        if len(present) > 1:
            found = next(
                (column.texts[i] for i in present if is_total(column.texts[i]) and column.texts[i] not in kept), None
            )
            found = found or _sum_value(name, columns, counts, kept)
        if found is not None:
            remedy = (
                f"leave its column out of --wide, or state --only '{name} != {found}'"
                if wide
                else f"state --only '{name} != {found}' (or, where it is none, --only '{name} in ' and all its values)"
            )
            raise InputError(f"{table.found(name, [found], column)}, which looks like the sum of the others: {remedy}")


def _sum_value(name: str, columns: Mapping[str, Coded], counts: IntArray, kept: set[str]) -> str | None:
    """The value whose counts are, in every combination of the other columns, the sum of those of all other values.

    Of two values each would be the sum of the other; that says nothing.
    """
    column = columns[name]
    rest = [other for label, other in columns.items() if label != name]
    if rest:
        _, group = np.unique(keys_of(rest), return_inverse=True)
    else:
        group = np.zeros(len(counts), dtype=np.int64)
    n_groups = int(group.max()) + 1
    if len(np.unique(column.codes)) < 3:
        return None
    of_group = np.bincount(group, weights=counts, minlength=n_groups)
    of_value = np.bincount(column.codes, weights=counts, minlength=len(column.texts))
    for i in np.flatnonzero((2 * of_value == counts.sum()) & (of_value > 0)).tolist():
        mine = column.codes == i
        if column.texts[i] in kept:
            continue
        if (2 * np.bincount(group[mine], weights=counts[mine], minlength=n_groups) == of_group).all():
            return column.texts[i]
    return None


def check_number(
    table: RecordTable, stated: TableStatement, columns: Mapping[str, Coded], counts: IntArray, n_areas: int
) -> None:
    """InputError unless the table holds as many people and areas as are expected."""
    n = int(counts.sum())
    if stated.expect_records is not None and n != stated.expect_records:
        off = n - stated.expect_records
        change = _change(table, stated, columns, counts, stated.expect_records)
        raise InputError(
            f"{table}: {n:,} people are counted as stated, {abs(off):,} {'more' if off > 0 else 'fewer'} than "
            f"--expect-records {stated.expect_records:,}; "
            + (f"this number results if you {change}" if change else "no single simple change gives this number")
        )
    if stated.expect_areas is not None and n_areas != stated.expect_areas:
        off = n_areas - stated.expect_areas
        raise InputError(
            f"{table}: {counted(n_areas, 'area')} {'is' if n_areas == 1 else 'are'} named by its rows, {abs(off):,} "
            f"{'more' if off > 0 else 'fewer'} than --expect-areas {stated.expect_areas:,}"
        )


def _change(
    table: RecordTable, stated: TableStatement, columns: Mapping[str, Coded], counts: IntArray, wanted: int
) -> str | None:
    """The one change of the statement that gives the number."""
    rest = [] if stated.wide else [name for name in table.names if name not in columns and name != stated.count]
    further: dict[str, Coded] = {}
    if rest:
        again = read_table(table.opened, rest)
        further = {name: one.at(table.rows) for name, one in again.columns.items()}
    n = int(counts.sum())
    for name, one in {**columns, **further}.items():
        if len(one.texts) > _MOST_TRIED:
            continue
        sums = np.bincount(one.codes, weights=counts, minlength=len(one.texts)).astype(np.int64)
        for text, number in zip(one.texts, sums.tolist(), strict=True):
            if number and n - number == wanted:
                if name == stated.level:
                    return f"leave out this level: --drop-level '{text}'"
                return f"leave out the rows with {name} == {text}: --only '{name} != {text}'"
            if number == wanted:
                return f"keep the rows with {name} == {text} only: --only '{name} == {text}'"
    for name, one in further.items():
        if all(_WHOLE.fullmatch(text) for text in one.texts):
            sizes = np.array([int(text) for text in one.texts])[one.codes]
            if int(sizes.sum()) == wanted:
                return f"count by column {name!r}: --count '{name}'"
    return None


def names_of_wide(names: Sequence[str], pattern: str) -> dict[str, dict[str, str]]:
    """Column -> value of each attribute, of the columns that have the pattern's form.

    Args:
        names: of the columns that are stated to be nothing else.
        pattern: texts and attributes in braces, "pop_{sex}_{age}", with the values where not all are, "{sex:m|f}".

    Raises:
        InputError: the pattern has no {attribute}, or a column can be read in two ways.
    """
    parts = re.split(r"\{(\w+)(:[^{}]+)?\}", pattern)
    attributes, listed = parts[1::3], parts[2::3]
    if not attributes or len(set(attributes)) < len(attributes):
        raise InputError(f"--wide {pattern!r}: attributes in braces are needed, each once, such as pop_{{sex}}_{{age}}")
    forms = []
    for some in ("(.+?)", "(.+)"):
        values = [some if of is None else f"({'|'.join(map(re.escape, of[1:].split('|')))})" for of in listed]
        texts = map(re.escape, parts[::3])
        forms.append(re.compile("".join(itertools.chain(*itertools.zip_longest(texts, values, fillvalue="")))))
    found: dict[str, dict[str, str]] = {}
    for name in names:
        lazy, greedy = (form.fullmatch(name) for form in forms)
        if lazy is None or greedy is None:
            continue
        if lazy.groups() != greedy.groups():
            raise InputError(
                f"--wide {pattern!r}: column {name!r} can be read as {', '.join(lazy.groups())} and as "
                f"{', '.join(greedy.groups())}; list the values, such as {{sex:m|f}}, so that only one is possible"
            )
        found[name] = dict(zip(attributes, map(str.strip, lazy.groups()), strict=True))
    if not found:
        raise InputError(f"--wide {pattern!r}: no column has this form; the columns are {', '.join(names[:20])}")
    return found


def melt(
    table: RecordTable, cells: Mapping[str, Mapping[str, str]], others: Sequence[str]
) -> tuple[RecordTable, IntArray]:
    """A row for each count of a table with its cells side by side, and the counts."""
    n, width = len(table), len(cells)
    counts = np.concatenate([read_counts(table, name) for name in cells])
    columns = {name: Coded(np.tile(table.columns[name].codes, width), table.columns[name].texts) for name in others}
    for attribute in next(iter(cells.values())):
        texts = list(dict.fromkeys(values[attribute] for values in cells.values()))
        place = {text: i for i, text in enumerate(texts)}
        codes = np.array([place[values[attribute]] for values in cells.values()], dtype=np.int32)
        columns[attribute] = Coded(np.repeat(codes, n), texts)
    return RecordTable(table.opened, columns, np.tile(table.rows, width), table.names), counts
