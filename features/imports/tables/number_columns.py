"""The columns of a table that hold numbers, written as plain digits; and why one of counts cannot be read."""

from __future__ import annotations

from collections.abc import Mapping

from features.imports.tables.cells import SEPARATORS, Cells, read_cells
from features.imports.tables.count_names import holds_years, is_time, named_count, named_weight
from features.imports.tables.level_names import is_label, rank, says_code
from features.imports.tables.parts import Parts
from features.imports.tables.profile import Column, profile
from features.imports.tables.table_file import TableFile
from geography.codes import counted
from pipeline.errors import InputError

#: Of texts with a letter behind a number, this part has numbers of their own; fewer are codes, as 1 a and 1 b are.
_FEWEST_OWN = 0.9
_SHOWN = 4

NumberColumns = dict[str, Cells]


def plain_numbers(
    parts: Parts, file: TableFile, columns: Mapping[str, Column], name: str
) -> tuple[TableFile, dict[str, Column], NumberColumns]:
    """The table with plain numbers, in `name` where it had to be changed; its columns; and those that hold numbers.

    Raises:
        InputError: --marks names a mark that no column of numbers has.
    """
    request = parts.request
    cells = {column: read for column in columns if (read := numbers_of(parts, columns[column])) is not None}
    meanings = request.marks
    if unknown := [mark for mark in meanings if not any(mark in some.marks for some in cells.values())]:
        found = sorted({mark for some in cells.values() for mark in some.marks})
        raise InputError(
            f"{file}: --marks: no column of numbers has {unknown[0] or 'an empty field'!r}; "
            f"{'they have ' + ', '.join(map(_shown, found)) if found else 'they have no marks'}"
        )
    changed = {}
    for column, some in cells.items():
        meant = [mark for mark in some.marks if meanings.get(mark) in ("0", "missing")]
        if not some.is_plain(file.text.decimal) or meant:
            changed[column] = (some, frozenset(meant))
        _say(parts, file, some, meant)
    if not changed:
        return file, dict(columns), cells
    file = parts.changed(file, name, {column: _change(some, meant) for column, (some, meant) in changed.items()})
    found_columns = {column: found for column, found in profile(file).items() if column in columns}
    for column in changed:
        cells[column] = read_cells(found_columns[column], named=True, thousands="")
    return file, found_columns, cells


def numbers_of(parts: Parts, column: Column) -> Cells | None:
    """The cells of a column that may hold counts; None where it holds something else."""
    asked = parts.request.asked
    wanted = column.name in asked.counts or column.name == asked.count
    named = wanted or named_count(column.name)
    name = column.name
    if name in parts.request.attributes or name in parts.request.geography or name == parts.request.geocode:
        return None
    if not wanted and (is_label(name) or rank(name) is not None or is_time(name)):
        return None
    if not named and (says_code(name) or named_weight(name) or holds_years(name, column.values)):
        return None
    text = parts.request.text
    thousands = text.thousands if text.thousands is not None else _from_decimal(column, text.decimal)
    cells = read_cells(column, named=named, thousands=thousands)
    if not cells.numbers and not (cells.unsure or cells.wrong.get("fraction")):
        return None
    if not named and len({cells.numbers[text] for text in cells.footnoted}) < _FEWEST_OWN * len(cells.footnoted):
        return None
    # Texts beside numbers make a column of texts, unless most are numbers or its name says that it counts.
    if cells.wrong.get("other") and not named and 2 * len(cells.numbers) < column.n_distinct:
        return None
    return cells


def _from_decimal(column: Column, decimal: str | None) -> str | None:
    """No thousands, where the user says that the mark stands before decimals; otherwise they are recognised."""
    if decimal is None:
        return None
    return "" if any(decimal in text for text in column.values) else None


def _change(cells: Cells, meant: frozenset[str]) -> Mapping[str, str]:
    numbers = {text: str(number) for text, number in cells.numbers.items()}
    return _Plain(cells, numbers | dict.fromkeys(meant, "0"))


class _Plain(dict[str, str]):
    """Text -> plain number; a text beyond those that were profiled is read by the same rules."""

    def __init__(self, cells: Cells, known: Mapping[str, str]) -> None:
        super().__init__(known)
        self._cells = cells

    def __missing__(self, text: str) -> str:
        number = self._cells.number(text) if text else None
        return text if number is None else str(number)


def _say(parts: Parts, file: TableFile, cells: Cells, meant: list[str]) -> None:
    name = cells.column
    if cells.thousands:
        example = next(text for text in cells.numbers if not text.isdigit())
        parts.messages.append(
            f"column {name!r}: thousands are separated by {SEPARATORS[cells.thousands]}: {example!r} is "
            f"{cells.numbers[example]}"
        )
        parts.decisions.setdefault("thousands", {})[name] = cells.thousands  # type: ignore[index]
    if cells.footnoted:
        example = cells.footnoted[0]
        parts.messages.append(
            f"column {name!r}: signs behind numbers are left out: {example!r} is {cells.numbers[example]}"
        )
    for mark in meant:
        rows = file.rows_with(name, [mark])
        what = "nobody" if parts.request.marks[mark] == "0" else "not known, and nobody is counted there"
        parts.messages.append(f"column {name!r}: {_shown(mark)} in {counted(len(rows), 'row')} is {what}")
        marks = parts.decisions.setdefault("marks", {})
        marks.setdefault(name, {})[mark] = {  # type: ignore[attr-defined]
            "meaning": parts.request.marks[mark],
            "rows": len(rows),
        }


def _shown(mark: str) -> str:
    return repr(mark) if mark else "an empty field"


def why_no_counts(file: TableFile, cells: Cells) -> str | None:
    """Why a column of numbers cannot be counts, with the rows; None where it can be."""
    start = f"{file}: column {cells.column!r}"
    end = f"; if it holds no counts, leave it out: --ignore {cells.column}"
    if cells.unsure:
        rows = file.rows_with(cells.column, [cells.unsure])
        return (
            f"{start}: {cells.unsure!r} ({file.place(rows)}) may be a number in thousands or one with a fraction; say "
            f"which by --thousands, such as --thousands comma or --thousands none{end}"
        )
    for kind, what in (
        ("percent", "a percentage"),
        ("fraction", "a number with a fraction"),
        ("negative", "a negative number"),
        ("other", "a text"),
    ):
        if texts := cells.wrong.get(kind):  # type: ignore[call-overload]
            rows = file.rows_with(cells.column, texts)
            shown = ", ".join(map(repr, texts[:_SHOWN])) + (", ..." if len(texts) > _SHOWN else "")
            return (
                f"{start}: {what} in {counted(len(rows), 'row')} ({file.place(rows)}): {shown}; counts are whole "
                f"numbers from 0 on, so the column mixes what is counted with something else{end}"
            )
    if cells.marks:
        parts = []
        for mark in cells.marks[:_SHOWN]:
            rows = file.rows_with(cells.column, [mark])
            parts.append(f"{_shown(mark)} in {counted(len(rows), 'row')} ({file.place(rows)})")
        first = cells.marks[0] or "empty"
        return (
            f"{start}: no number: {'; '.join(parts)}; a mark is never 0 by itself: say what each stands for, such as "
            f'--marks "{first}=0" (nobody), "{first}=missing" (not known: nobody is counted there) or '
            f'"{first}=margins" (what the totals of the table leave for it){end}'
        )
    return None


def check_counts(file: TableFile, cells: Cells) -> None:
    """InputError where a column of numbers cannot be counts."""
    if (problem := why_no_counts(file, cells)) is not None:
        raise InputError(problem)
