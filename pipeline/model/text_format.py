"""The format of a table's text file: field separator and encoding."""

from __future__ import annotations

import codecs
from dataclasses import dataclass


@dataclass(frozen=True)
class TextFormat:
    """The form of a CSV file; a Parquet file has none.

    Attributes:
        separator: the one character between fields.
        encoding: a name that Python knows, such as "utf-8", "cp1252" or "utf-16".
    """

    separator: str = ","
    encoding: str = "utf-8"

    @property
    def text_encoding(self) -> str:
        """The encoding with which the whole file is opened as text: a byte order mark of UTF-8 is not text."""
        return "utf-8-sig" if codecs.lookup(self.encoding).name == "utf-8" else self.encoding


#: Ordinary CSV.
PLAIN = TextFormat()


def check_separator(separator: str) -> str:
    """`separator` where it can be one; ValueError otherwise."""
    if len(separator) != 1 or separator.isalnum() or separator in '"\r\n':
        raise ValueError(f'found {separator!r}; one character is needed, such as ";" or "\\t"')
    return separator


def check_encoding(encoding: str) -> str:
    """`encoding` where Python knows it as one of text; ValueError otherwise."""
    try:
        "".encode(encoding)
    except (LookupError, ValueError):
        raise ValueError(
            f"found {encoding!r}; the name of an encoding of text is needed, such as utf-8, cp1252 or utf-16"
        ) from None
    return encoding
