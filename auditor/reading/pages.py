"""The headers of a Parquet file's pages, read without decompressing anything.

What a footer says of sizes is a claim of whoever wrote the file; a reader allocates what the headers of the pages say.
They are structures in Thrift's compact protocol, laid out in parquet.thrift as `PageHeader`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

#: Bytes in which a page's header is looked for; statistics of long texts make some longer than the first.
_READS: Final = (1 << 10, 1 << 20)
#: Fields of `PageHeader`, and the structures in it whose first field is a number of values.
_KIND, _UNCOMPRESSED, _COMPRESSED, _COUNTED, _DICTIONARY = 1, 2, 3, (5, 8), 7
_DEPTH: Final = 8


class PageError(ValueError):
    """A page's header cannot be read."""


@dataclass(frozen=True)
class Page:
    """What a page's header says.

    Attributes:
        values: in it, nulls too; 0 of a dictionary.
        uncompressed: bytes that are allocated for it.
    """

    values: int
    uncompressed: int


def pages(file: BinaryIO, start: int, length: int, n_values: int) -> Iterator[Page]:
    """The pages of a column chunk, in order, up to the one with which its values are complete.

    Args:
        file: the Parquet file.
        start: where the chunk begins.
        length: its bytes.
        n_values: how many values it is to have.

    Raises:
        PageError: a header is damaged, or leads out of the chunk.
    """
    end, seen = start + length, 0
    while seen < n_values and start < end:
        header, size = _header(file, start, end)
        compressed, uncompressed = header.get((_COMPRESSED,), -1), header.get((_UNCOMPRESSED,), -1)
        values = next((header[field, 1] for field in _COUNTED if (field, 1) in header), 0)
        if compressed < 0 or uncompressed < 0 or values < 0 or start + size + compressed > end:
            raise PageError("the header of a page states sizes that cannot be")
        yield Page(values, uncompressed)
        seen += values
        start += size + compressed


def _header(file: BinaryIO, start: int, end: int) -> tuple[dict[tuple[int, ...], int], int]:
    """The whole numbers of a header by their path of fields, and the header's bytes."""
    for most in _READS:
        file.seek(start)
        reader = _Compact(file.read(min(most, end - start)))
        try:
            found: dict[tuple[int, ...], int] = {}
            reader.structure((), found)
        except IndexError:
            continue
        return found, reader.place
    raise PageError("the header of a page does not end")


class _Compact:
    """Reads Thrift's compact protocol; IndexError where the bytes end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.place = 0

    def structure(self, path: tuple[int, ...], found: dict[tuple[int, ...], int]) -> None:
        """Go through a structure, and keep its whole numbers in `found`."""
        if len(path) > _DEPTH:
            raise PageError("the header of a page is nested too deeply")
        field = 0
        while (byte := self._byte()) != 0:
            field = field + (byte >> 4) if byte >> 4 else self._number()
            self._value(byte & 15, (*path, field), found)

    def _value(self, kind: int, path: tuple[int, ...], found: dict[tuple[int, ...], int]) -> None:
        if kind in (1, 2):  # a truth value, which is its kind
            return
        if kind == 3:
            self._skip(1)
        elif kind in (4, 5, 6):
            found[path] = self._number()
        elif kind == 7:
            self._skip(8)
        elif kind == 8:
            self._skip(self._varint())
        elif kind in (9, 10):
            byte = self._byte()
            if (n := byte >> 4 if byte >> 4 < 15 else self._varint()) > len(self._data):
                raise PageError("the header of a page has a list that is too long")
            for _ in range(n):
                self._value(3 if byte & 15 in (1, 2) else byte & 15, (*path, -1), {})
        elif kind == 12:
            self.structure(path, found)
        else:
            raise PageError(f"the header of a page has a field of the unknown kind {kind}")

    def _byte(self) -> int:
        self.place += 1
        return self._data[self.place - 1]

    def _skip(self, n: int) -> None:
        self.place += n
        if self.place > len(self._data):
            raise IndexError

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
            if shift > 63:
                raise PageError("the header of a page has a number that does not end")

    def _number(self) -> int:
        """A signed number, in the zigzag form."""
        number = self._varint()
        return (number >> 1) ^ -(number & 1)
