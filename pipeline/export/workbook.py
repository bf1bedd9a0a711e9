"""A released table as an XLSX workbook with one sheet a level; geocodes stay text."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.release.tables import ReleasedTable, n_columns

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


def write_workbook(target: Path, tables: Sequence[ReleasedTable]) -> None:
    """Write a table's levels as the sheets of one workbook, whose bytes depend on its content alone."""
    openpyxl = require_openpyxl()
    from openpyxl.cell import WriteOnlyCell

    book = openpyxl.Workbook(write_only=True)
    titles: set[str] = set()
    for table in tables:
        check_fits(table.name, table.level, len(table.geocodes), _width(table))
        sheet = book.create_sheet(_title(table.level, titles))
        sheet.freeze_panes = "B2"

        def text(value: str, sheet: Any = sheet) -> Any:
            cell = WriteOnlyCell(sheet, value=value)
            cell.data_type = "s"  # a code that begins with "=" is not a formula
            return cell

        columns = dict(table.columns())
        sheet.append([text(name) for name in ["geocode", *columns]])
        values = [column.tolist() for column in columns.values()]
        for code, *row in zip(table.geocodes.tolist(), *values, strict=True):
            sheet.append([text(code), *(None if value != value else value for value in row)])
    target.parent.mkdir(parents=True, exist_ok=True)
    loose = target.with_suffix(".loose")
    book.save(loose)
    _settle(loose, target)
    loose.unlink()


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
