"""Reads the columns that are needed of a CSV or Parquet file, or of a table in memory, chunk by chunk.

A CSV file read strictly: one line a row, quotes only around whole fields, bytes of the stated encoding.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.errors import MemoryShortError, RecordsError
from pipeline.model.memory_table import MemoryTable, Source
from pipeline.model.text_format import PLAIN, TextFormat
from pipeline.records.problems import list_allowed, quote
from pipeline.storage.paths import local_name
from postprocess.arrays import BoolArray

#: Bytes that are read at a time, and so the longest line.
BLOCK_BYTES = 1 << 24
_QUOTE, _NEWLINE = b'"\n'


class StrictCsv(io.RawIOBase):
    """The file as UTF-8, from `read` on checked line by line, so that no row can swallow the rows below it.

    A quote that is opened stays open to the next quote, over any number of lines, for every reader of CSV: a stray one
    makes many rows one field, and none of them says so. Here a field ends on the line on which it begins.

    Raises:
        RecordsError: from `read`, with the line: a line break inside a field, a quote that is not around a whole field,
            a carriage return inside a line, a line longer than a block, or bytes that are not of the encoding.
    """

    def __init__(self, path: Path, form: TextFormat) -> None:
        self._path, self._form = path, form
        self._file = gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb")  # noqa: SIM115
        self._decoder = codecs.getincrementaldecoder(form.text_encoding)("strict")
        self._rest = b""  # a line that has begun
        self._ready = b""
        self._lines_before = 0
        self._ended = False

    def readable(self) -> bool:
        """It is."""
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` with checked bytes; 0 at the end."""
        while not self._ready and not self._ended:
            self._ready = self._next_lines()
        n = min(len(buffer), len(self._ready))
        buffer[:n], self._ready = self._ready[:n], self._ready[n:]
        return n

    def _next_lines(self) -> bytes:
        """The next whole lines; the last one may be without its end."""
        data = self._rest + self._decoded()
        end = len(data) if self._ended else data.rfind(b"\n") + 1
        if not end and len(data) > BLOCK_BYTES:
            raise self._wrong(b"", 0, f"the line is longer than {BLOCK_BYTES:,} bytes: is a line break missing?")
        self._rest = data[end:]
        lines = data[:end]
        self._check(lines)
        self._lines_before += lines.count(b"\n")
        return lines

    def _decoded(self) -> bytes:
        """The next block in UTF-8."""
        packed = self._file.read(BLOCK_BYTES)
        self._ended = not packed
        try:
            return self._decoder.decode(packed, final=self._ended).encode()
        except UnicodeDecodeError as error:
            before = error.object[: error.start].decode(self._form.encoding, "ignore").encode()
            hint = f"{self._form.encoding}, as its encoding states"
            if self._form.text_encoding == "utf-8-sig":
                hint = 'UTF-8; write the file in UTF-8, or state its encoding: encoding = "cp1252"'
            raise self._wrong(self._rest + before, None, f"the text is not in {hint}") from None

    def _check(self, lines: bytes) -> None:
        """RecordsError unless these whole lines are rows."""
        if b"\r" in lines and (found := lines.replace(b"\r\n", b"\n\n").find(b"\r")) >= 0:
            raise self._wrong(
                lines, found, "found a carriage return in the middle of the line; lines end with LF or CRLF"
            )
        if b'"' in lines:
            self._check_quotes(lines)

    def _check_quotes(self, lines: bytes) -> None:
        """RecordsError unless each quote opens a field at its start, closes it at its end, or is one of two inside."""
        array = np.frombuffer(lines, dtype=np.uint8)
        quotes, ends = np.flatnonzero(array == _QUOTE), np.flatnonzero(array == _NEWLINE)
        line = np.searchsorted(ends, quotes)
        first = np.flatnonzero(np.r_[True, line[1:] != line[:-1]])  # of each line that has quotes
        in_line = np.diff(np.r_[first, quotes.size])
        opens = (np.arange(quotes.size) - np.repeat(first, in_line)) % 2 == 0
        before, behind = self._separated(array)
        fits = np.where(opens, before[quotes], behind[quotes])
        wrong = (
            [(quotes[~fits][0], "a quote inside a field that is not in quotes, or behind one that is")]
            if not fits.all()
            else []
        )
        if (left_open := first[in_line % 2 == 1] + in_line[in_line % 2 == 1] - 1).size:
            wrong.append((quotes[left_open[0]], "a quote is opened and not closed on its line"))
        if wrong:
            place, what = min(wrong)
            raise self._wrong(
                lines,
                int(place),
                f'{what}; quotes (") stand around a whole field, on one line, and two of them for one inside',
            )

    def _separated(self, array: NDArray[np.uint8]) -> tuple[BoolArray, BoolArray]:
        """Which bytes `(n,)` may be a quote that opens a field, by the byte before, and which may close one."""
        separator = self._form.separator.encode()
        padded = np.r_[np.uint8(_NEWLINE), array, np.uint8(_NEWLINE)]
        before = (padded[:-2] == separator[-1]) | (padded[:-2] == _NEWLINE) | (padded[:-2] == _QUOTE)
        behind = np.isin(padded[2:], np.frombuffer(separator[:1] + b'\n\r"', dtype=np.uint8))
        return before, behind

    def _wrong(self, lines: bytes, place: int | None, what: str) -> RecordsError:
        """The error of what stands at a byte of some lines that come next, or behind them."""
        line = self._lines_before + lines[:place].count(b"\n") + 1
        return RecordsError(f"{self._path}, line {line:,}: {what}")


def rows_of(path: Path, form: TextFormat) -> Iterator[tuple[int, list[str]]]:
    """The fields of each row with the line it stands on, the header first; empty lines hold no row.

    Raises:
        RecordsError: as `StrictCsv`, or the file cannot be read.
    """
    try:
        with StrictCsv(path, form) as file:
            text = io.TextIOWrapper(io.BufferedReader(file, BLOCK_BYTES), encoding="utf-8", newline="\n")
            for number, line in enumerate(text, 1):
                if line := line.rstrip("\r\n"):
                    yield number, next(csv.reader([line], delimiter=form.separator))
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise RecordsError(f"{path}: not a readable CSV file: {error or type(error).__name__}") from error


#: What files are separated by, in words.
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}
_NEEDED = "a .csv, .tsv, .txt (also .gz) or .parquet file is needed"
_TEXT_ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")


@dataclass(frozen=True)
class RecordsFile:
    """A file that was found readable, with the columns that are needed.

    Attributes:
        columns: the needed columns, in the order of the chunks.
        chunks: opens the file and yields `pa.RecordBatch`es, text columns dictionary-encoded.
        find_lines: row numbers from 1 -> line numbers from 1 (CSV), else None.
    """

    columns: tuple[str, ...]
    chunks: Callable[[], Iterator[pa.RecordBatch]]
    find_lines: Callable[[Sequence[int]], dict[int, int]] | None


def open_records(
    path: Source,
    columns: Sequence[str],
    chunk_rows: int,
    *,
    label: str = "the file of the records",
    text: TextFormat = PLAIN,
) -> RecordsFile:
    """Check that `path` can be read and has the columns.

    Args:
        path: a CSV file, also compressed, a Parquet file, or a table in memory.
        columns: the columns that are needed; the others are not read.
        chunk_rows: rows in a chunk of a Parquet file or a table. CSV is cut by bytes.
        label: what messages call the file.
        text: how a CSV file is written.

    Raises:
        RecordsError: the file is missing, empty or corrupt, its type is unknown, or a column is missing or repeated.
    """
    needed = tuple(dict.fromkeys(columns))
    if isinstance(path, MemoryTable):
        _check_columns(path, path.columns, needed)
        batches = open_memory_table(path, needed, chunk_rows)
        return RecordsFile(needed, lambda: iter(batches), None)
    kind = _kind(path, label)
    return _open_parquet(path, needed, chunk_rows) if kind == "parquet" else _open_csv(path, needed, text)


def column_names(path: Source, *, text: TextFormat = PLAIN) -> tuple[str, ...]:
    """The names of the columns that records can have: all of a CSV file, those of a Parquet file that are not nested.

    Raises:
        RecordsError: as `open_records` does.
    """
    if isinstance(path, MemoryTable):
        return path.columns
    if _kind(path, "the file of the records") == "parquet":
        schema, _ = _parquet_schema(path)
        return tuple(field.name for field in schema if not pa.types.is_nested(field.type))
    return tuple(_csv_header(path, text))


def is_text_file(path: Path) -> bool:
    """Whether the file's name is that of a CSV file."""
    return path.name.lower().endswith(_TEXT_ENDINGS)


def _kind(path: Path, label: str) -> Literal["parquet", "csv"]:
    """The type of a file that is there; RecordsError otherwise."""
    try:
        status = path.stat()
    except OSError as error:
        problem = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        raise RecordsError(f"{path}: {label} {problem}; {_NEEDED}") from error
    if not stat.S_ISREG(status.st_mode):
        problem = "is a folder" if stat.S_ISDIR(status.st_mode) else "is not a file that can be read twice"
        raise RecordsError(f"{path}: {label} {problem}; {_NEEDED}")
    if status.st_size == 0:
        raise RecordsError(f"{path}: the file is empty (0 bytes); at least one record is needed")
    name = path.name.lower()
    if name.endswith((".parquet", ".pq")):
        return "parquet"
    if is_text_file(path):
        return "csv"
    raise RecordsError(
        f"{path}: unknown type of file {quote(path.suffix)}; allowed are .csv, .tsv, .txt (also .gz) and .parquet"
    )


def _check_columns(path: Source, present: Sequence[str], needed: Sequence[str]) -> None:
    whose = "the table's" if isinstance(path, MemoryTable) else "the file's"
    if missing := [column for column in needed if column not in present]:
        raise RecordsError(
            f"{path}: no column {', '.join(map(quote, missing))}; {whose} columns are {list_allowed(present)}"
        )
    if twice := [column for column in needed if present.count(column) > 1]:
        raise RecordsError(f"{path}: several columns are named {', '.join(map(quote, twice))}; each may occur once")


def _check_separator(path: Path, header: Sequence[str], needed: Sequence[str], form: TextFormat) -> None:
    """Refuse a file whose whole header is one column, and which has the needed columns with another separator."""
    for separator in _SEPARATORS:
        if len(header) == 1 and separator in header[0] and set(needed) <= set(header[0].split(separator)):
            stated = '"\\t"' if separator == "\t" else f'"{separator}"'
            raise RecordsError(
                f"{path}: found one column, {quote(header[0])}; the separator is {form.separator!r}. "
                f"Columns appear to be separated by {_SEPARATORS[separator]}: state separator = {stated}"
            )


def _parquet_schema(path: Path) -> tuple[pa.Schema, int]:
    """The columns, and the number of rows."""
    try:
        with pq.ParquetFile(local_name(path)) as file:
            return file.schema_arrow, file.metadata.num_rows
    except pa.ArrowMemoryError:
        raise MemoryShortError(str(path)) from None
    except UnicodeDecodeError as error:
        raise RecordsError(
            f"{path}: the name of a column is not UTF-8: found {error.object!r}; all names of columns must be"
        ) from None
    except (pa.ArrowException, OSError) as error:
        raise RecordsError(f"{path}: not a readable Parquet file: {_reason(error)}") from error


def _open_parquet(path: Path, columns: tuple[str, ...], chunk_rows: int) -> RecordsFile:
    schema, n_rows = _parquet_schema(path)
    _check_columns(path, schema.names, columns)
    for name in columns:
        if pa.types.is_nested(kind := schema.field(name).type):
            raise RecordsError(f"{path}, column {name!r}: found values of type {kind}; allowed are text and numbers")
    if n_rows == 0:
        raise RecordsError(f"{path}: the file has no rows; at least one record is needed")

    def chunks() -> Iterator[pa.RecordBatch]:
        try:
            # Checksums of pages, where the file has them: a flipped bit in a count is still a number.
            with pq.ParquetFile(
                local_name(path), read_dictionary=list(columns), page_checksum_verification=True
            ) as file:
                for batch in file.iter_batches(batch_size=chunk_rows, columns=list(columns)):
                    batch.validate(full=True)  # a damaged page can give text that is not UTF-8
                    yield batch
        except pa.ArrowMemoryError:
            raise MemoryShortError(str(path)) from None
        except (pa.ArrowException, OSError) as error:
            raise RecordsError(f"{path}: the file is corrupt: {_reason(error)}") from error

    return RecordsFile(columns, chunks, None)


def _csv_header(path: Path, text: TextFormat) -> list[str]:
    return next((fields for _, fields in rows_of(path, text)), [])


def _open_csv(path: Path, columns: tuple[str, ...], form: TextFormat) -> RecordsFile:
    header = _csv_header(path, form)
    _check_separator(path, header, columns, form)
    _check_columns(path, header, columns)

    def chunks() -> Iterator[pa.RecordBatch]:
        text = pa.dictionary(pa.int32(), pa.string())
        n_rows = 0
        try:
            with (
                StrictCsv(path, form) as file,
                pa_csv.open_csv(
                    file,
                    read_options=pa_csv.ReadOptions(block_size=BLOCK_BYTES),
                    parse_options=pa_csv.ParseOptions(delimiter=form.separator),
                    convert_options=pa_csv.ConvertOptions(
                        include_columns=list(columns),
                        column_types=dict.fromkeys(columns, text),
                        strings_can_be_null=False,
                    ),
                ) as reader,
            ):
                for batch in reader:
                    n_rows += batch.num_rows
                    yield batch
        except pa.ArrowMemoryError:
            raise MemoryShortError(str(path)) from None
        except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
            raise RecordsError(_csv_reason(path, error, form)) from error
        if n_rows == 0:
            raise RecordsError(f"{path}: the file has a header and no rows; at least one record is needed")

    return RecordsFile(columns, chunks, lambda rows: _lines_of_rows(path, rows, form))


def _lines_of_rows(path: Path, rows: Sequence[int], form: TextFormat) -> dict[int, int]:
    """The line of each of the data rows (from 1): the header and empty lines shift it."""
    numbered = enumerate(line for line, _ in rows_of(path, form))
    last, sought = max(rows, default=0), set(rows)
    return {row: line for row, line in islice(numbered, last + 1) if row in sought}


def _csv_reason(path: Path, error: Exception, form: TextFormat) -> str:
    """What is wrong with a CSV file that Arrow cannot read, with the line where it can be found."""
    rows = rows_of(path, form)
    width = len(next(rows)[1])
    for line, fields in rows:
        if len(fields) != width:
            return (
                f"{path}, line {line:,}: the number of fields is {len(fields)}, that of the header is {width}; each "
                "row must have as many as the header"
            )
    return f"{path}: the file is corrupt: {_reason(error)}"


def _reason(error: Exception) -> str:
    """The first line of a library's message."""
    return (str(error) or type(error).__name__).splitlines()[0][:200]


# -- tables in memory, chunk by chunk ---------------------------------------------------------------------------------


def open_memory_table(source: MemoryTable, columns: tuple[str, ...], chunk_rows: int) -> tuple[pa.RecordBatch, ...]:
    """The needed columns, in chunks of at most `chunk_rows` rows.

    The columns must be there (the caller checks it). Text in views, as polars has it, is made plain text.

    Raises:
        RecordsError: there are no rows, or a column holds other values than text and numbers.
    """
    if source.read is None:
        raise RecordsError(f"{source}: not given; a table or a file is needed")
    table = source.read(columns)
    for name in columns:
        if pa.types.is_nested(kind := table.schema.field(name).type):
            raise RecordsError(f"{source}, column {name!r}: found values of type {kind}; allowed are text and numbers")
    if table.num_rows == 0:
        raise RecordsError(f"{source}: the table has no rows; at least one is needed")
    return tuple(
        pa.RecordBatch.from_arrays([_without_views(column) for column in batch.columns], batch.schema.names)
        for batch in table.to_batches(max_chunksize=chunk_rows)
        if batch.num_rows
    )


def _without_views(column: pa.Array) -> pa.Array:
    """The same without views of text, which not every function of Arrow takes."""
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    if pa.types.is_dictionary(column.type) and pa.types.is_string_view(column.type.value_type):
        return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.large_string()))
    return column
