"""How a text file is written, as stated; else as its first bytes show, which the strict reader then holds it to."""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from pathlib import Path

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
                for info in archive.infolist():
                    if is_text_file(Path(info.filename)) and "__MACOSX" not in info.filename:
                        with archive.open(info) as file:
                            return file.read(_SAMPLE)
            return None
        if not is_text_file(Path(source)):
            return None
        with gzip.open(source) if source.lower().endswith(".gz") else Path(source).open("rb") as file:
            return file.read(_SAMPLE)
    except (OSError, EOFError, zipfile.BadZipFile, RuntimeError):
        return None


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
