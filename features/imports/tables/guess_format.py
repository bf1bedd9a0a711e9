"""Guesses how a text file is written: its encoding, its separator, its decimal mark."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pipeline.errors import InputError
from pipeline.model.text_format import PLAIN, TextFormat, check_encoding, check_separator
from pipeline.records.record_files import is_text_file

_SEPARATORS = (",", ";", "\t", "|")
_SAMPLE_BYTES = 1 << 20
_SAMPLE_ROWS = 300
_COMMA_NUMBER = re.compile(r"-?[0-9]+,[0-9]+")
_POINT_NUMBER = re.compile(r"-?[0-9]+\.[0-9]+")
_GROUPED_NUMBER = re.compile(r"[1-9][0-9]{0,2}([.,][0-9]{3})+")
#: Of rows that are not all alike, as where titles and notes stand around a table, this part shows the separator.
_MOST_ROWS = 0.6
_NAMES = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}

_THOUSANDS = {
    ",": ("comma", "commas"),
    ".": ("point", "points", "dot"),
    " ": ("space", "spaces", "\u00a0", "\u2009", "\u202f"),
    "'": ("apostrophe", "\u2019"),
    "": ("none",),
}


@dataclass(frozen=True)
class AskedFormat:
    """What the user states; None where it must be guessed."""

    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    thousands: str | None = None

    @classmethod
    def checked(
        cls, separator: str | None, encoding: str | None, decimal: str | None, thousands: str | None = None
    ) -> AskedFormat:
        """The options as they are typed; a tab may be called tab, and what separates thousands by its name.

        Raises:
            InputError: one of them is not a separator, or no encoding.
        """
        separator = "\t" if separator in ("tab", "\\t") else separator
        for option, value, check in (
            ("--separator", separator, check_separator),
            ("--encoding", encoding, check_encoding),
        ):
            try:
                if value is not None:
                    check(value)
            except ValueError as error:
                raise InputError(f"{option}: {error}") from None
        if thousands is not None:
            named = {name: mark for mark, names in _THOUSANDS.items() for name in (mark, *names)}
            if thousands.lower() not in named:
                raise InputError(
                    f"--thousands: found {thousands!r}; allowed are comma, point, space, apostrophe and none"
                )
            thousands = named[thousands.lower()]
            if thousands and thousands == decimal:
                raise InputError(f"--thousands and --decimal: both are {thousands!r}; they differ")
        return cls(separator, encoding, decimal, thousands)


def guess_format(path: Path, asked: AskedFormat) -> tuple[TextFormat, tuple[str, ...]]:
    """How the file is written, and what of it was guessed and is not as usual.

    Raises:
        InputError: the file cannot be read, or is not in the encoding that the user states.
    """
    if not is_text_file(path) or not path.is_file():
        return PLAIN, ()
    try:
        encoding, message = (asked.encoding, "") if asked.encoding else _encoding(path)
        with _opened(path) as raw:
            sample = codecs.getincrementaldecoder(encoding)("strict").decode(raw.read(_SAMPLE_BYTES))
    except (LookupError, UnicodeError):
        if asked.encoding:
            problem = f"the file is not in {asked.encoding!r}; leave it out for a guess"
        else:
            problem = "the file is neither in UTF-8 nor in cp1252; name its encoding, such as cp932 (Shift JIS)"
        raise InputError(f"{path}: --encoding: {problem}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    sample = sample.removeprefix("\ufeff")
    separator = asked.separator or _separator(sample)
    decimal = asked.decimal or _decimal(sample, separator)
    lines = [message] if message else []
    if separator != "," and not asked.separator:
        lines.append(f"{path}: {_NAMES[separator]} stand between the fields")
    if decimal == "," and not asked.decimal:
        lines.append(f"{path}: numbers are written with a decimal comma")
    return TextFormat(separator, encoding, decimal), tuple(lines)


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb")  # type: ignore[return-value]


def _encoding(path: Path) -> tuple[str, str]:
    """By the byte order mark, else UTF-8 where the whole file is, else that of Windows in Western Europe."""
    with _opened(path) as file:
        start = file.read(4)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16", f"{path}: the file is in UTF-16, as its byte order mark shows"
        decoder = codecs.getincrementaldecoder("utf-8")("strict")
        try:
            decoder.decode(start)
            while block := file.read(_SAMPLE_BYTES):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            text = "the file is not in UTF-8; it is read as cp1252 (Windows, Western Europe)"
            return "cp1252", f"{path}: {text}: where names look wrong, give --encoding, such as cp1250 or shift_jis"
    return "utf-8", ""


def _rows(sample: str, separator: str) -> list[list[str]]:
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=separator)
    rows = []
    try:
        for row in reader:
            if row:
                rows.append(row)
            if len(rows) > _SAMPLE_ROWS:
                break
    except csv.Error:
        return rows
    return rows if len(rows) > _SAMPLE_ROWS else rows[: max(1, len(rows) - 1)]  # the last may be cut


def _separator(sample: str) -> str:
    """The separator with which all rows have as many fields as the header, and the most of them."""
    header = sample.split("\n", 1)[0]
    if "\\" in header.split("\t")[0] and "\t" in header:
        return "\t"  # keys between commas, then tabs, as in bulk files of Eurostat
    best, most = ",", 1
    likely, share = ",", 0.0
    for separator in _SEPARATORS:
        rows = _rows(sample, separator)
        width = len(rows[0]) if rows else 0
        if width > most and all(len(row) == width for row in rows):
            best, most = separator, width
        usual = Counter(len(row) for row in rows).most_common(1)
        if usual and usual[0][0] > 1 and usual[0][1] > max(share, _MOST_ROWS) * len(rows):
            likely, share = separator, usual[0][1] / len(rows)
    return best if most > 1 else likely


def _decimal(sample: str, separator: str) -> str:
    """A comma, where numbers in the file have one and none has a point."""
    if separator == ",":
        return "."
    fields = [field for row in _rows(sample, separator)[1:] for field in row]
    with_comma = any(_COMMA_NUMBER.fullmatch(field) and not _GROUPED_NUMBER.fullmatch(field) for field in fields)
    return "," if with_comma and not any(_POINT_NUMBER.fullmatch(field) for field in fields) else "."
