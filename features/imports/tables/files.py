"""A source as one CSV or Parquet file that the strict reader of records reads."""

from __future__ import annotations

import csv
import gzip
import io
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, TypeVar

import pyarrow as pa

from features.imports.tables.databases import describe_source, fetch, first_line, write_batches
from pipeline.errors import InputError, RecordsError
from pipeline.missing import install_command
from pipeline.model.text_format import PLAIN, TextFormat
from pipeline.records.record_files import is_text_file

_SAMPLE = 1 << 18
_SEPARATORS = ",;\t|"


def text_format(source: str, separator: str | None, encoding: str | None) -> TextFormat:
    """The separator and the encoding; those of a file that is no text are PLAIN."""
    sample = first_bytes(source)
    if sample is None:
        return PLAIN
    encoding = encoding or _encoding(sample)
    if separator is None:
        lines = sample.decode(encoding, "replace").splitlines()[:50][:-1] or [sample.decode(encoding, "replace")]
        widths = {mark: _width(lines, mark) for mark in _SEPARATORS}
        separator = max(_SEPARATORS, key=lambda mark: widths[mark])
    return TextFormat("\t" if separator == "tab" else separator, encoding)


def first_bytes(source: str) -> bytes | None:
    """The first bytes of a text file, also compressed or in an archive; None where it is none."""
    try:
        if source.lower().endswith(".zip"):
            with zipfile.ZipFile(source) as archive:
                for info in _tables_in(archive):
                    with archive.open(info) as file:
                        return file.read(_SAMPLE)
            return None
        if not is_text_file(Path(source)):
            return None
        with gzip.open(source) if source.lower().endswith(".gz") else Path(source).open("rb") as file:
            return file.read(_SAMPLE)
    except (OSError, EOFError, zipfile.BadZipFile, RuntimeError):
        return None


def _tables_in(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The text files in an archive, without those that a Mac adds."""
    return [
        info
        for info in archive.infolist()
        if not info.is_dir() and is_text_file(Path(info.filename)) and "__MACOSX" not in info.filename
    ]


def _encoding(sample: bytes) -> str:
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError as error:
        return "utf-8" if error.start > len(sample) - 4 else "cp1252"
    return "utf-8"


def _width(lines: list[str], mark: str) -> int:
    """The commonest number of fields."""
    widths = [len(row) for row in csv.reader(io.StringIO("\n".join(lines)), delimiter=mark)]
    return max(set(widths), key=widths.count) if widths else 0


WORKBOOKS = (".xlsx", ".xlsm", ".ods")
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
    ".xml": "XML (SDMX, too) is not read; save the table as CSV",
    ".html": "pages are not read; save the table as CSV",
    ".pdf": "pages are not read; save the table as CSV",
    ".rds": "files of R are not read; write the table as CSV or Parquet (write.csv, arrow::write_parquet)",
    ".rdata": "files of R are not read; write the table as CSV or Parquet (write.csv, arrow::write_parquet)",
    ".feather": "Feather files are not read; write the table as Parquet",
    ".7z": "7z archives are not read; unpack it first",
    ".rar": "RAR archives are not read; unpack it first",
    ".tar": "tar archives are not read; unpack it first",
}
_MOST_UNPACKED = 1 << 34
_MOST_SECONDS = 10
_ROWS_AT_ONCE = 100_000
#: The name of a column that has none, with its number behind.
_MADE_UP = "column_"
_Row = TypeVar("_Row")


@dataclass(frozen=True)
class HeaderRows:
    """Of a table among other rows the first and last row of its header, and its last row; all count from 1."""

    first: int = 1
    header: int = 1
    last: int | None = None

    def names(self, rows: Iterator[Sequence[str]], label: str) -> list[str]:
        """The names of the columns; rows up to the header are taken."""
        return _header(list(islice(rows, self.header))[self.first - 1 :], label)

    def body(self, rows: Iterator[_Row]) -> Iterator[_Row]:
        """The rows below the header, where those up to it were taken."""
        return rows if self.last is None else islice(rows, max(self.last - self.header, 0))

    def write_names(self, out: IO[str], names: Sequence[str], separator: str = ",") -> None:
        """Write the names below empty lines, so that each row stays on the line on which the user's file has it."""
        out.write("\n" * (self.header - 1))
        csv.writer(out, delimiter=separator).writerow(names)


WHOLE_FILE = HeaderRows()


@dataclass(frozen=True)
class Opened:
    """A source that can be read.

    Attributes:
        path: the CSV or Parquet file.
        label: what messages call it: the user's file, with its sheet.
        unit: what the lines of a text file are to the user, "line" or the "row" of a sheet; "record", of which the
            first is 1, where it is no text file.
        text: how a text file is written.
        labels: column -> code -> label, of a file of Stata or SPSS.
    """

    path: Path
    label: str
    unit: str = "record"
    text: TextFormat = PLAIN
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Errors of the records inside call the file what the user calls it."""
        try:
            yield
        except RecordsError as error:
            told = str(error).replace(str(self.path), self.label)
            raise RecordsError(told.replace(", line ", f", {self.unit} ") if self.unit == "row" else told) from error


def open_source(
    source: str,
    work: Path,
    *,
    query: str | None = None,
    sheet: str | None = None,
    text: TextFormat = PLAIN,
    rows: HeaderRows = WHOLE_FILE,
) -> Opened:
    """Make a source readable; what is no plain CSV or Parquet file is written anew.

    Args:
        work: a private folder for what is written.
        rows: where the table stands among other rows.

    Raises:
        InputError: the source cannot be read, or is of a format that is not.
    """
    if query is not None:
        target = work / f"{len(list(work.iterdir()))}.parquet"
        target.touch(0o600)
        fetch(source, query, target)
        return Opened(target, f"the query of {describe_source(source)}")
    lower = source.lower()
    for ending, reason in REFUSED.items():
        if lower.endswith(ending):
            raise InputError(f"{source}: {reason}")
    path = Path(source)
    if sheet is not None and not lower.endswith(WORKBOOKS):
        raise InputError(f"{source}: --sheet: only a workbook (.xlsx, .ods) has sheets")
    number = len(list(work.iterdir()))
    if lower.endswith(WORKBOOKS):
        return _workbook(path, sheet, rows, work / f"{number}.csv")
    if lower.endswith(tuple(STATISTICS)):
        return _statistics(path, work / f"{number}.parquet")
    label = source
    if lower.endswith(".zip"):
        label, path = _unpacked(path, work / f"{number}.csv")
    if not is_text_file(path):
        return Opened(path, label)
    try:
        return _text_file(path, label, text, rows, work / f"{number}_table.csv")
    except UnicodeError:
        raise InputError(
            f"{label}: the text is not in {text.encoding}; state the file's encoding, such as --encoding cp1250"
        ) from None
    except (OSError, EOFError, csv.Error) as error:
        raise InputError(f"{label}: not a readable CSV file: {error}") from None


def _text_file(path: Path, label: str, text: TextFormat, rows: HeaderRows, target: Path) -> Opened:
    """A text file as it is, or the table in it written anew."""
    with open_text(path, text) as lines:
        names = rows.names((next(csv.reader([line], delimiter=text.separator), []) for line in lines), label)
        if rows == WHOLE_FILE and not any(name.startswith(_MADE_UP) for name in names):
            return Opened(path, label, unit="line", text=text)
        with _writing(target) as out:
            rows.write_names(out, names, text.separator)
            out.writelines(rows.body(lines))
    return Opened(target, label, unit="line", text=TextFormat(text.separator))


def open_text(path: Path, text: TextFormat) -> IO[str]:
    """A text file, also compressed."""
    try:
        raw = gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb")  # noqa: SIM115
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    return io.TextIOWrapper(raw, encoding=text.text_encoding, newline="")


def _writing(target: Path) -> IO[str]:
    target.touch(0o600)
    return target.open("w", encoding="utf-8", newline="")


def _header(rows: Sequence[Sequence[str]], label: str) -> list[str]:
    """The names of columns of several rows; one that stands over several columns is that of all of them."""
    if not rows or not any(map(any, rows)):
        raise InputError(f"{label}: no names of columns: the file is empty there; --header ROW says where they stand")
    width = max(map(len, rows))
    parts = []
    for number, row in enumerate(rows):
        full = [*row, *[""] * (width - len(row))]
        if number < len(rows) - 1:
            for i in range(1, width):
                full[i] = full[i] or full[i - 1]
        parts.append(full)
    texts = (" ".join(filter(None, (" ".join(text.split()) for text in column))) for column in zip(*parts, strict=True))
    return [text or f"{_MADE_UP}{number}" for number, text in enumerate(texts, 1)]


def _unpacked(path: Path, target: Path) -> tuple[str, Path]:
    """The only table in an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = _tables_in(archive)
            if len(members) != 1:
                found = ", ".join(info.filename for info in members[:10]) or "none"
                raise InputError(f"{path}: one CSV file in the archive is needed; found {found}; unpack it")
            if members[0].file_size > _MOST_UNPACKED:
                raise InputError(f"{path}: {members[0].filename} has {members[0].file_size:,} bytes; unpack it")
            if members[0].filename.lower().endswith(".gz"):
                target = target.with_suffix(".csv.gz")
            target.touch(0o600)
            with archive.open(members[0]) as packed, target.open("wb") as out:
                shutil.copyfileobj(packed, out, 1 << 20)
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{path}: not a readable archive: {error}") from None
    return f"{path}, file {members[0].filename!r}", target


def sheet_rows(path: Path, sheet: str | None) -> Iterator[list[str]]:
    """The names of the sheets, then the rows of the sheet, of the only one where none is named.

    Raises:
        InputError: the library is not installed, the file is damaged, or it takes more than the limits allow.
    """
    child = Path(__file__).with_name("workbook_child.py")
    if not path.is_file():
        raise InputError(f"{path}: the workbook does not exist")
    with TemporaryFile() as out, TemporaryFile() as problems:
        try:
            done = subprocess.run(
                [sys.executable, "-I", str(child), str(path), *([sheet] if sheet is not None else [])],
                stdout=out, stderr=problems, timeout=_MOST_SECONDS, check=False,
            )  # fmt: skip
            status = done.returncode
        except subprocess.TimeoutExpired:
            status = 9
        problems.seek(0)
        said = problems.read(2000).decode("utf-8", "replace")
        if "python_calamine" in said and "No module" in said:
            raise InputError(f"workbooks need python-calamine: {install_command('python-calamine')}")
        if status == 3:
            raise InputError(f"{path}: not a readable workbook: {first_line(said)}")
        if status:
            raise InputError(
                f"{path}: the workbook takes more than 8 seconds or 450 MB to read, or is damaged; save the sheet as "
                "CSV"
            )
        out.seek(0)
        for line in out:
            yield json.loads(line)


def _workbook(path: Path, sheet: str | None, stands: HeaderRows, target: Path) -> Opened:
    rows = sheet_rows(path, sheet)
    sheets = next(rows)
    if sheet is None and len(sheets) > 1:
        raise InputError(f"{path}: the workbook has the sheets {', '.join(map(repr, sheets))}; name one with --sheet")
    label = f"{path}, sheet {sheet or sheets[0]!r}"
    names = stands.names(rows, label)
    with _writing(target) as out:
        stands.write_names(out, names)
        written = csv.writer(out, lineterminator="\n")
        for number, row in enumerate(stands.body(rows), stands.header + 1):
            if len(row) > len(names):
                raise InputError(f"{label}, row {number:,}: {len(row)} cells under {len(names)} names of columns")
            written.writerow([*row, *[""] * (len(names) - len(row))] if any(row) else [])
    return Opened(target, label, unit="row", text=TextFormat())


def _statistics(path: Path, target: Path) -> Opened:
    """The records of a file of Stata, SPSS or SAS as text columns; codes stay codes, with their labels beside."""
    try:
        import pyreadstat
    except ModuleNotFoundError:
        raise InputError(f"files of Stata, SPSS and SAS need pyreadstat: {install_command('pyreadstat')}") from None
    reader = getattr(pyreadstat, STATISTICS[path.suffix.lower()])
    if not path.is_file():
        raise InputError(f"{path}: the file of the records does not exist")
    labels: dict[str, dict[str, str]] = {}
    target.touch(0o600)

    def batches() -> Iterator[pa.RecordBatch]:
        for frame, about in pyreadstat.read_file_in_chunks(reader, str(path), chunksize=_ROWS_AT_ONCE):
            for name, codes in about.variable_value_labels.items():
                labels[name] = {cell_text(code): str(text) for code, text in codes.items()}
            columns = {
                str(name): pa.array([cell_text(value) or None for value in frame[name]], pa.string())
                for name in frame.columns
            }
            yield pa.RecordBatch.from_pydict(columns)

    try:
        n_rows = write_batches(batches(), target)
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {first_line(error)}") from None
    if not n_rows:
        raise InputError(f"{path}: the file has no records; at least one is needed")
    return Opened(target, str(path), labels=labels)


def cell_text(value: Any) -> str:
    """A cell of a file of a statistics program as text."""
    if value is None or value != value:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
