"""A released table as an XLSX workbook with one sheet a level; geocodes stay text."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.export.words import name_column
from pipeline.release.tables import INTERVAL_SUFFIXES, ReleasedTable, n_columns

#: Of a sheet, by the format.
MOST_ROWS, MOST_COLUMNS = 1_048_576, 16_384
_NOT_IN_TITLES = re.compile(r"[\[\]:*?/\\]")
_LONGEST_TITLE = 31
_MOMENT = (1980, 1, 1, 0, 0, 0)
_MODIFIED = re.compile(rb"(<dcterms:(?:created|modified)[^>]*>)[^<]*")


def require_openpyxl() -> Any:
    """The library that writes workbooks; InputError with what to install where it is missing."""
    try:
        import openpyxl
    except ImportError:
        raise InputError(
            "--format xlsx: needs the package openpyxl, which is not installed: pip install 'spinewise[xlsx]'"
        ) from None
    return openpyxl


def check_fits(table: str, level: str, rows: int, columns: int) -> None:
    """Refuse a sheet that no spreadsheet could open; InputError names the table and what to use instead."""
    if rows + 1 > MOST_ROWS or columns > MOST_COLUMNS:
        raise InputError(
            f"--format xlsx: table {table!r} at level {level!r} has {rows:,} rows and {columns:,} columns; a sheet has "
            f"at most {MOST_ROWS - 1:,} and {MOST_COLUMNS:,}: use --format csv, or leave it out with --table or --level"
        )


@dataclass(frozen=True)
class SheetWords:
    """Words of a workbook for people.

    Attributes:
        names: level -> names of its geounits, None where it has none.
        labels: column -> label of its answer.
        lists: further sheets after the levels' own: title, columns, rows; those without rows are left out.
    """

    names: Mapping[str, Sequence[str] | None] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    lists: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]] = ()

    def header(self, column: str) -> str:
        """The title of a column: its label, with what the column holds of the answer."""
        answer = next((column.removesuffix(end) for end in INTERVAL_SUFFIXES if column.endswith(end)), column)
        return self.labels.get(answer, answer) + column[len(answer) :]


def write_workbook(target: Path, tables: Sequence[ReleasedTable], words: SheetWords | None = None) -> None:
    """Write a table's levels as the sheets of one workbook, whose bytes depend on its content alone."""
    words = words or SheetWords()
    openpyxl = require_openpyxl()
    book = openpyxl.Workbook(write_only=True)
    titles: set[str] = set()
    for table in tables:
        check_fits(table.name, table.level, len(table.geocodes), _width(table))
        sheet = book.create_sheet(_title(table.level, titles))
        sheet.freeze_panes = "B2" if words.names.get(table.level) is None else "C2"

        names = words.names.get(table.level)
        columns = dict(table.columns())
        heads = ["geocode", *([name_column(columns)] if names is not None else []), *map(words.header, columns)]
        sheet.append([_text(sheet, head) for head in heads])
        values = [column.tolist() for column in columns.values()]
        for number, (code, *row) in enumerate(zip(table.geocodes.tolist(), *values, strict=True)):
            place = [code] if names is None else [code, names[number]]
            texts = [_text(sheet, one) for one in place]
            sheet.append([*texts, *(None if value != value else value for value in row)])
    for title, columns_of_list, rows in words.lists:
        if rows:
            sheet = book.create_sheet(_title(title, titles))
            for line in (columns_of_list, *rows):
                sheet.append([_text(sheet, one) for one in line])
    target.parent.mkdir(parents=True, exist_ok=True)
    loose = target.with_suffix(".loose")
    book.save(loose)
    _settle(loose, target)
    loose.unlink()


def _text(sheet: Any, value: str) -> Any:
    """A cell of text: what begins with "=" is not a formula."""
    from openpyxl.cell import WriteOnlyCell

    cell = WriteOnlyCell(sheet, value=value)
    cell.data_type = "s"
    return cell


def _width(table: ReleasedTable) -> int:
    return n_columns(len(table.labels), with_margins=table.lows is not None)


def _title(level: str, used: set[str]) -> str:
    """A sheet's title: the level's name as far as the format allows, and different from those `used`."""
    base = _NOT_IN_TITLES.sub("_", level)[:_LONGEST_TITLE] or "level"
    title, number = base, 1
    while title.casefold() in used:
        number += 1
        title = f"{base[: _LONGEST_TITLE - 4]} {number}"
    used.add(title.casefold())
    return title


def _settle(loose: Path, target: Path) -> None:
    """The same archive without the time at which it was written."""
    with zipfile.ZipFile(loose) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(source.namelist(), key=lambda name: (name != "[Content_Types].xml", name)):
            content = source.read(name)
            if name == "docProps/core.xml":
                content = _MODIFIED.sub(rb"\g<1>1980-01-01T00:00:00Z", content)
            archive.writestr(zipfile.ZipInfo(name, _MOMENT), content, zipfile.ZIP_DEFLATED)
