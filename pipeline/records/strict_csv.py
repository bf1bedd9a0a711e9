"""A CSV file read strictly: one line a row, quotes only around whole fields, bytes of the stated encoding."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import RecordsError
from pipeline.model.text_format import TextFormat

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

    def _separated(self, array: NDArray[np.uint8]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
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
