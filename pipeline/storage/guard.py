"""Parquet files of strangers: refused by what their footers and page headers say, before anything is decompressed.

A file of two megabytes can hold a billion equal numbers, which take eight gigabytes when they are read; a text that is
stored once can be named by every row. So whoever reads a file says how much it can hold by the spine and the schema,
and nothing larger is read, nor what lies about its size.

What a footer says of sizes is a claim of whoever wrote the file; a reader allocates what the headers of the pages say.
They are structures in Thrift's compact protocol, laid out in parquet.thrift as `PageHeader`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import ReleaseError
from pipeline.storage.paths import check_regular, local_name

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


#: Numbers in one row group: writers of releases put 2^20 into one, or 2^24 of a table, or one row.
_MOST_VALUES: Final = 1 << 24
_MOST_IN_A_ROW: Final = 1 << 27
#: Bytes of a column chunk's pages: so many for each value, and so many besides, for a dictionary.
_BYTES_PER_VALUE, _BYTES_BESIDE = 128, 16 << 20
#: Characters of a column of texts in a row group if all were as long as the longest, as NumPy holds them.
_MOST_TEXT: Final = 1 << 26
_LONG_TEXT: Final = 256
_ROWS_TO_TELL: Final = 1000
#: A file that is read as a whole may hold so many bytes, and so many times its own size.
_WHOLE_BYTES, _WHOLE_RATIO = 64 << 20, 200


class GuardedFile:
    """An open Parquet file that gives out nothing larger than it can be; as `pyarrow.parquet.ParquetFile`.

    Args:
        path: of the file.
        rows: that it can have at most, if the reader knows; otherwise only files that are no larger than their bytes
            allow are read as a whole.
        own_groups: whether row groups have the size that writers of releases give them.

    Raises:
        ReleaseError: it states that it holds more.
    """

    def __init__(self, path: Path, rows: int | None = None, *, own_groups: bool = True) -> None:
        self._path = path
        self._rows = rows
        check_regular(path)
        try:
            self._plain = pq.ParquetFile(local_name(path), page_checksum_verification=True)
        except UnicodeDecodeError as error:
            raise ReleaseError(f"{path}: the name of a column is not UTF-8: {error.object!r}") from None
        self.metadata = self._plain.metadata
        self.schema_arrow: pa.Schema = self._plain.schema_arrow
        self.num_row_groups: int = self._plain.num_row_groups
        texts = [field.name for field in self.schema_arrow if _is_text(field.type)]
        # Texts come as dictionaries, however they are stored: one for each that is different.
        self._file = pq.ParquetFile(
            local_name(path), page_checksum_verification=True, read_dictionary=texts, metadata=self.metadata
        )
        self._bytes: BinaryIO = path.open("rb")
        try:
            self._check(own_groups=own_groups)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> GuardedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._plain.close()
        self._file.close()
        self._bytes.close()

    def at_most(self, rows: int, values: int | None = None) -> None:
        """ReleaseError where the file states more rows, or more numbers in a column than `values` for each row."""
        # Up to twice as many are read, so that the reader can tell which rows are too many.
        if self.metadata.num_rows > 2 * rows + _ROWS_TO_TELL:
            raise ReleaseError(
                f"{self._path} states {self.metadata.num_rows:,} rows; by the spine and the schema it has {rows:,} at "
                "most, and it is not read"
            )
        for group in map(self.metadata.row_group, range(self.num_row_groups)):
            numbers = max((group.column(index).num_values for index in range(group.num_columns)), default=0)
            if values is not None and numbers > 2 * max(values, 1) * group.num_rows + _ROWS_TO_TELL:
                raise ReleaseError(
                    f"{self._path} states {numbers:,} numbers in {group.num_rows:,} rows; by the schema a row has "
                    f"{values:,} at most, and it is not read"
                )

    def check_whole(self) -> None:
        """ReleaseError where the file states more than a file of its bytes holds, and nobody knows its rows."""
        n_bytes = 8 * sum(
            self.metadata.row_group(group).column(index).num_values
            for group in range(self.num_row_groups)
            for index in range(self.metadata.num_columns)
        )
        size = os.fstat(self._bytes.fileno()).st_size
        if self._rows is None and n_bytes > _WHOLE_BYTES + _WHOLE_RATIO * size:
            raise ReleaseError(
                f"{self._path} has {size:,} bytes and states that {n_bytes:,} are in it, which only a file that was "
                "made to do harm has; it is not read"
            )

    def read_row_group(
        self, group: int, *, columns: Sequence[str] | None = None, use_threads: bool = False
    ) -> pa.Table:
        """A row group, after its pages have been looked at; ReleaseError where they hold what they cannot."""
        self._check_pages(group, columns)
        names = None if columns is None else list(columns)
        return self._spelled(self._file.read_row_group(group, columns=names, use_threads=use_threads))

    def read(self) -> pa.Table:
        """The whole file; ReleaseError where it holds more than a file of its size can."""
        self.check_whole()
        parts = [self.read_row_group(group) for group in range(self.num_row_groups)]
        return pa.concat_tables(parts) if parts else self._plain.read()

    def _check(self, *, own_groups: bool) -> None:
        if self._rows is not None:
            self.at_most(self._rows)
        if not own_groups:
            return
        for number in range(self.num_row_groups):
            group = self.metadata.row_group(number)
            numbers = sum(group.column(index).num_values for index in range(group.num_columns))
            if numbers > (_MOST_IN_A_ROW if group.num_rows == 1 else max(_MOST_VALUES, 4 * group.num_columns)):
                raise ReleaseError(
                    f"{self._path} states {numbers:,} numbers in its part {number + 1}; files of a release have "
                    f"{_MOST_VALUES:,} in one at most, and it is not read"
                )

    def _check_pages(self, number: int, columns: Sequence[str] | None) -> None:
        group = self.metadata.row_group(number)
        for index in range(group.num_columns):
            chunk = group.column(index)
            name = chunk.path_in_schema.split(".")[0]
            if columns is not None and name not in columns:
                continue
            start = chunk.data_page_offset
            if chunk.has_dictionary_page and 0 < (chunk.dictionary_page_offset or 0) < start:
                start = chunk.dictionary_page_offset
            most = _BYTES_BESIDE + _BYTES_PER_VALUE * chunk.num_values
            found = n_bytes = 0
            try:
                for page in pages(self._bytes, start, chunk.total_compressed_size, chunk.num_values):
                    found += page.values
                    n_bytes += page.uncompressed
            except PageError as error:
                raise ReleaseError(f"{self._path} is damaged: column {name}: {error}") from None
            if found != chunk.num_values or n_bytes > most:
                raise ReleaseError(
                    f"{self._path}: the pages of column {name} hold {found:,} values in {n_bytes:,} bytes; its footer "
                    f"states {chunk.num_values:,} values, which take {most:,} bytes at most, and it is not read"
                )

    def _check_nul(self, name: str, texts: pa.Array) -> None:
        if _is_text(texts.type) and not pa.types.is_binary(texts.type):
            with_nul = texts.filter(pc.match_substring(texts, "\0"))
            if len(with_nul):
                raise ReleaseError(
                    f"{self._path}: column {name} has the text {with_nul[0].as_py()!r:.60}; no code or label has a NUL "
                    "character, and it is not read"
                )

    def _spelled(self, table: pa.Table) -> pa.Table:
        """The table in the file's own types, unless the texts are too long to be spelled out."""
        columns = []
        named = Counter(self.schema_arrow.names)
        if unclear := [name for name in table.column_names if named[name] != 1]:
            raise ReleaseError(f"{self._path} is damaged: it has {named[unclear[0]]} columns {unclear[0]!r}")
        for field, column in zip(table.schema, table.columns, strict=True):
            kind = self.schema_arrow.field(field.name).type
            if pa.types.is_dictionary(column.type) and _is_text(column.type.value_type):
                for chunk in column.chunks:
                    self._check_nul(field.name, chunk.dictionary)
                    longest = pc.max(pc.binary_length(chunk.dictionary)).as_py() or 0
                    n = len(chunk) if _is_text(kind) else len(chunk.dictionary)
                    if longest > _LONG_TEXT and longest * n > _MOST_TEXT:
                        raise ReleaseError(
                            f"{self._path}: column {field.name} has a text of {longest:,} bytes among {n:,}, which no "
                            "code or label has; it is not read"
                        )
            columns.append(column.cast(kind) if column.type != kind else column)
        fields = [self.schema_arrow.field(name) for name in table.column_names]
        return pa.table(columns, schema=pa.schema(fields, metadata=self.schema_arrow.metadata))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))
