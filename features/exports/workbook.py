"""XLSX workbooks with one sheet a level; geocodes stay text."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.exports.libraries import required
from pipeline.errors import InputError

#: Of a sheet, by the format.
MOST_ROWS, MOST_COLUMNS = 1_048_576, 16_384
_NOT_IN_TITLES = re.compile(r"[\[\]:*?/\\]")
_LONGEST_TITLE = 31
_MOMENT = (1980, 1, 1, 0, 0, 0)
_MODIFIED = re.compile(rb"(<dcterms:(?:created|modified)[^>]*>)[^<]*")


def require_openpyxl() -> Any:
    """The library that writes workbooks; InputError with what to install where it is missing."""
    return required("xlsx", "openpyxl", "openpyxl")


def check_fits(table: str, level: str, rows: int, columns: int) -> None:
    """Refuse a sheet that no spreadsheet could open; InputError names the table and what to use instead."""
    if rows + 1 > MOST_ROWS or columns > MOST_COLUMNS:
        raise InputError(
            f"--format xlsx: table {table!r} at level {level!r} has {rows:,} rows and {columns:,} columns; a sheet has "
            f"at most {MOST_ROWS - 1:,} and {MOST_COLUMNS:,}: use --format csv, or leave it out with --table or --level"
        )


@dataclass(frozen=True, eq=False)
class Sheet:
    """The rows of one level.

    Attributes:
        title: of the sheet, as far as the format allows.
        geocodes: `(n,)`, kept as text.
        keys: headings of geocodes and names.
        names: of the areas, None where they have none.
        columns: after the geocode and the name: heading and values `(n,)`; NaN is an empty cell.
    """

    title: str
    keys: tuple[str, str]
    geocodes: NDArray[np.str_]
    names: Sequence[str] | None
    columns: Sequence[tuple[str, NDArray[np.generic]]]


@dataclass(frozen=True)
class TextSheet:
    """A list of texts: a heading for each column, and rows."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def write_workbook(target: Path, title: str, sheets: Sequence[Sheet], lists: Sequence[TextSheet] = ()) -> None:
    """Write a workbook, whose bytes depend on its content alone.

    Args:
        target: the file.
        title: of the document, also on every printed page.
        sheets: one for each level.
        lists: further sheets; those without rows are left out.
    """
    openpyxl = require_openpyxl()
    book = openpyxl.Workbook(write_only=True)
    book.properties.title = title
    titles: set[str] = set()
    for one in sheets:
        sheet = book.create_sheet(_title(one.title, titles))
        sheet.freeze_panes = "B2" if one.names is None else "C2"
        sheet.print_title_rows = "1:1"
        sheet.oddHeader.center.text = title.replace("&", "&&")
        columns = dict(one.columns)
        heads = [*one.keys[: 1 if one.names is None else 2], *columns]
        sheet.append([_text(sheet, head) for head in heads])
        values = [column.tolist() for column in columns.values()]
        for number, (code, *row) in enumerate(zip(one.geocodes.tolist(), *values, strict=True)):
            place = [code] if one.names is None else [code, one.names[number]]
            texts = [_text(sheet, text) for text in place]
            sheet.append([*texts, *(None if value != value else value for value in row)])
    for listed in lists:
        if listed.rows:
            sheet = book.create_sheet(_title(listed.title, titles))
            for line in (listed.heads, *listed.rows):
                sheet.append([_text(sheet, text) for text in line])
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
