"""Sheets of workbooks, files of statistics programs and text files as rows of text, and the table in them."""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from features.imports.tables.batches import BatchWriter
from features.imports.tables.layout import HEAD_ROWS, TAIL_ROWS, Layout, find_layout
from features.imports.tables.table_file import Origin
from pipeline.errors import InputError
from pipeline.missing import install_command
from pipeline.model.text_format import TextFormat
from pipeline.storage.local_name import local_name

_ROWS_AT_ONCE = 100_000
_XLSX = (".xlsx", ".xlsm")
_ODS = (".ods",)
WORKBOOKS = (*_XLSX, *_ODS)
#: Files of statistics programs, and the reader of each.
STATISTICS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
#: Formats that are known and not read, and what to do instead.
REFUSED = {
    ".xls": "workbooks of Excel 97 are not read; save it as .xlsx or .csv",
    ".xlsb": "binary workbooks are not read; save it as .xlsx or .csv",
    ".px": "PC-Axis files are not read; save the table as CSV, as every PxWeb site and the PX programs can",
    ".json": "JSON is not read; save the table as CSV",
    ".xml": "XML is not read; save the table as CSV",
    ".html": "pages are not read; save the table as CSV",
    ".pdf": "pages are not read; save the table as CSV",
    ".rds": "files of R are not read; write the table as CSV or Parquet (write.csv, arrow::write_parquet)",
    ".rdata": "files of R are not read; write the table as CSV or Parquet (write.csv, arrow::write_parquet)",
    ".feather": "Feather files are not read; write the table as Parquet",
    ".7z": "7z archives are not read; unpack it first",
    ".rar": "RAR archives are not read; unpack it first",
    ".tar": "tar archives are not read; unpack it first",
}
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
#: A row or cell of an ODS file that is repeated more often is the empty rest of the sheet.
_MOST_REPEATED = 4096

Rows = Iterator[list[str]]


@dataclass(frozen=True)
class Grid:
    """Rows of text.

    Attributes:
        label: the user's file, with its sheet.
        rows: gives all rows from the first on, each time from the beginning.
        unit: what a row is called.
    """

    label: str
    rows: Callable[[], Rows]
    unit: str = "row"


def is_workbook(source: str) -> bool:
    """Whether `source` is a spreadsheet's file."""
    return "://" not in source and source.lower().endswith(WORKBOOKS)


def is_statistics(source: str) -> bool:
    """Whether `source` is a file of Stata, SPSS or SAS."""
    return "://" not in source and source.lower().endswith(tuple(STATISTICS))


def check_format(source: str) -> None:
    """InputError where the file is of a format that is known, and not read."""
    for ending, reason in REFUSED.items():
        if source.lower().endswith(ending):
            raise InputError(f"{source}: {reason}")


def text_grid(path: Path, text: TextFormat) -> Grid:
    """The rows of a CSV file, blank lines among them."""

    def rows() -> Rows:
        try:
            with (
                gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as raw,
                io.TextIOWrapper(raw, encoding=text.text_encoding, errors="replace", newline="") as lines,
            ):
                yield from csv.reader(lines, delimiter=text.separator)
        except (OSError, EOFError, csv.Error, UnicodeError) as error:
            raise InputError(f"{path}: not a readable CSV file: {error}") from None

    return Grid(str(path), rows, "line")


def with_keys_apart(grid: Grid) -> Grid:
    r"""The grid, with the keys of a bulk file of Eurostat (`sex,age,geo\time`, then tabs) in columns of their own."""
    first = next(grid.rows(), [""])
    keys = first[0].split(",") if first else []
    if "\\" not in (first or [""])[0] or len(keys) < 2:
        return grid

    def rows() -> Rows:
        for row in grid.rows():
            parts = row[0].split(",") if row else []
            yield [*parts, *row[1:]]

    return Grid(grid.label, rows, grid.unit)


def sheet_grids(source: str) -> dict[str, Grid]:
    """The sheets of a workbook by their names, in order.

    Raises:
        InputError: the library is not installed, or the file is not a workbook.
    """
    return _ods_grids(source) if source.lower().endswith(_ODS) else _xlsx_grids(source)


def _xlsx_grids(source: str) -> dict[str, Grid]:
    try:
        import openpyxl
    except ModuleNotFoundError:
        raise InputError(f"workbooks need openpyxl: {install_command('openpyxl')}") from None

    def opened() -> Any:
        try:
            return openpyxl.load_workbook(source, read_only=True, data_only=True)
        except (
            OSError, ValueError, KeyError, zipfile.BadZipFile, openpyxl.utils.exceptions.InvalidFileException
        ) as error:  # fmt: skip
            raise InputError(f"{source}: not a readable workbook: {first_line(error)}") from None

    def rows_of(name: str) -> Callable[[], Rows]:
        def rows() -> Rows:
            book = opened()
            try:
                for row in book[name].iter_rows(values_only=True):
                    yield [cell_text(value) for value in row]
            finally:
                book.close()

        return rows

    book = opened()
    names = [name for name in book.sheetnames if hasattr(book[name], "iter_rows")]
    book.close()
    return {name: Grid(f"{source}, sheet {name!r}", rows_of(name)) for name in names}


def _ods_grids(source: str) -> dict[str, Grid]:
    def tables() -> Iterator[tuple[str, ElementTree.Element]]:
        try:
            with zipfile.ZipFile(source) as archive, archive.open("content.xml") as content:
                for _, element in ElementTree.iterparse(content):
                    if element.tag == f"{_TABLE}table":
                        yield element.get(f"{_TABLE}name", ""), element
                        element.clear()
        except (OSError, KeyError, zipfile.BadZipFile, ElementTree.ParseError) as error:
            raise InputError(f"{source}: not a readable workbook: {first_line(error)}") from None

    def rows_of(wanted: str) -> Callable[[], Rows]:
        def rows() -> Rows:
            for name, table in tables():
                if name == wanted:
                    for row in table.iter(f"{_TABLE}table-row"):
                        cells = _ods_cells(row)
                        repeated = int(row.get(f"{_TABLE}number-rows-repeated", "1"))
                        if repeated <= _MOST_REPEATED or any(cells):
                            yield from (list(cells) for _ in range(repeated))

        return rows

    names = [name for name, _ in tables()]
    return {name: Grid(f"{source}, sheet {name!r}", rows_of(name)) for name in names}


def _ods_cells(row: ElementTree.Element) -> list[str]:
    cells: list[str] = []
    for cell in row:
        if cell.tag not in (f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
            continue
        text = "\n".join("".join(part.itertext()) for part in cell.iter(f"{_TEXT}p"))
        if cell.get(f"{_OFFICE}value-type") in ("float", "currency", "percentage") and cell.get(f"{_OFFICE}value"):
            number = float(cell.get(f"{_OFFICE}value", ""))
            shown = cell_text(number)
            # What is shown as 12 % is no count of 0.12, and a text of digits is what it shows.
            text = text if cell.get(f"{_OFFICE}value-type") == "percentage" and "%" in text else shown
        repeated = int(cell.get(f"{_TABLE}number-columns-repeated", "1"))
        if repeated <= _MOST_REPEATED or text:
            cells += [text] * repeated
    while cells and not cells[-1]:
        cells.pop()
    return cells


def cell_text(value: Any) -> str:
    """A cell as a CSV file would have it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if value != value:
            return ""
        if value.is_integer():
            return str(int(value))
    return str(value)


def settle(grid: Grid, header_rows: tuple[int, int] | None) -> Layout:
    """The layout of a grid, by all of its rows.

    Raises:
        InputError: there is no table in it.
    """
    head: list[list[str]] = []
    tail: deque[tuple[int, list[str]]] = deque(maxlen=TAIL_ROWS)
    for number, row in enumerate(grid.rows(), 1):
        if number <= HEAD_ROWS:
            head.append(row)
        tail.append((number, row))
    return find_layout(head, list(tail), grid.label, header_rows)


def write_grid(grid: Grid, layout: Layout, target: Path) -> Origin:
    """Write the records as text columns, and say in which row of the user's file each stands.

    Raises:
        InputError: a row has more cells than the header, or there is no record.
    """
    schema = pa.schema([(name, pa.string()) for name in layout.names])
    numbers: list[int] = []
    edge = max(layout.columns) + 1
    records = layout.records(_whole(grid, layout, edge))
    with pq.ParquetWriter(local_name(target), schema, compression="zstd") as writer:
        while part := list(islice(records, _ROWS_AT_ONCE)):
            numbers += [number for number, _ in part]
            columns = [
                pa.array([cells[i] or None for _, cells in part], pa.string()) for i in range(len(layout.columns))
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    if not numbers:
        raise InputError(f"{grid.label}: no row below the names of the columns; at least one record is needed")
    return Origin(grid.label, np.array(numbers, dtype=np.int64), unit=grid.unit)


def _whole(grid: Grid, layout: Layout, edge: int) -> Rows:
    """The rows, each found to have as many cells as the header."""
    for number, row in enumerate(grid.rows(), 1):
        beyond = [cell for cell in row[edge:] if cell.strip()]
        is_record = number >= layout.first and (layout.last is None or number <= layout.last)
        if is_record and beyond:
            raise InputError(
                f"{grid.label}: {grid.unit} {number:,}: found {beyond[0]!r} to the right of the last column of the "
                "header; each row must have as many cells as the header"
            )
        if is_record and grid.unit == "line" and len(row) < edge and any(cell.strip() for cell in row):
            raise InputError(
                f"{grid.label}, line {number:,}: the number of fields is {len(row)}, that of the header is {edge}; "
                "each row must have as many as the header"
            )
        yield row


def choose_sheet(source: str, sheet: str | None, header_rows: tuple[int, int] | None) -> tuple[Grid, Layout, str]:
    """The sheet that is named, or the only one with a table; its layout, and its name.

    Raises:
        InputError: the sheet is not there, or several have a table and none is named.
    """
    grids = sheet_grids(source)
    if sheet is not None:
        if sheet not in grids:
            raise InputError(f"{source}: --sheet: no sheet {sheet!r}; the sheets are {', '.join(grids)}")
        return grids[sheet], settle(grids[sheet], header_rows), sheet
    layouts: dict[str, Layout] = {}
    problem: InputError | None = None
    for name, grid in grids.items():
        try:
            layout = settle(grid, header_rows)
        except InputError as error:
            problem = problem or error
            continue
        if len(list(islice(layout.records(grid.rows()), 2))) == 2 and len(layout.names) > 1:
            layouts[name] = layout
    if len(layouts) > 1:
        raise InputError(
            f"{source}: {len(layouts)} sheets have a table; name one as --sheet: {', '.join(map(repr, layouts))}"
        )
    if not layouts:
        raise problem or InputError(f"{source}: no sheet has a table; the sheets are {', '.join(grids)}")
    ((name, layout),) = layouts.items()
    return grids[name], layout, name


def fetch_statistics(source: str, target: Path) -> Origin:
    """Write the records of a file of Stata, SPSS or SAS as text columns; codes stay codes.

    Raises:
        InputError: the library is not installed, or the file cannot be read.
    """
    try:
        import pyreadstat
    except ModuleNotFoundError:
        raise InputError(f"files of Stata, SPSS and SAS need pyreadstat: {install_command('pyreadstat')}") from None
    reader = getattr(pyreadstat, STATISTICS[Path(source).suffix.lower()])
    if not Path(source).is_file():
        raise InputError(f"{source}: the file of the records does not exist")
    try:
        with BatchWriter(target) as written:
            for frame, _ in pyreadstat.read_file_in_chunks(reader, source, chunksize=_ROWS_AT_ONCE):
                columns = {
                    str(name): pa.array([cell_text(value).strip() or None for value in frame[name]], pa.string())
                    for name in frame.columns
                }
                written.write(pa.RecordBatch.from_pydict(columns))
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, OSError, ValueError) as error:
        raise InputError(f"{source}: cannot be read: {first_line(error)}") from None
    if not written.n_rows:
        raise InputError(f"{source}: the file has no records; at least one is needed")
    return Origin(source, first=1)


def first_line(error: object) -> str:
    """The first line of a library's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
