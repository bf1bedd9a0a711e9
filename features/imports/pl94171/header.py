"""Reads the geographic header of a P.L. 94-171 summary file, between pipes (2020) or in fixed columns (2010)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.imports.pl94171.files import SummaryPart
from features.imports.pl94171.layout import (
    BLOCK,
    GEO_2010,
    GEO_2010_LEAST,
    GEO_2020,
    GEO_2020_WIDTH,
    GEO_FIELDS,
    GEO_LEVELS,
    NO_AREA,
    PART_DIGITS,
)
from pipeline.errors import InputError
from pipeline.records.problems import quote

#: Field -> its values `(n,)` as bytes; "line" -> the number of each record's line.
Header = Mapping[str, NDArray[Any]]

_LINES_AT_ONCE = 50_000


def read_header(part: SummaryPart) -> dict[str, NDArray[Any]]:
    """The fields of every record, `(n,)` bytes each without blanks around them, and its line from 1."""
    chunks: dict[str, list[NDArray[np.bytes_]]] = {name: [] for name in GEO_FIELDS}
    n_lines = 0
    for lines in file_lines(part):
        cut = _cut_pipes if part.layout == "pipes" else _cut_columns
        for name, column in cut(lines, n_lines, part).items():
            chunks[name].append(np.strings.strip(column))
        n_lines += len(lines)
    header: dict[str, NDArray[Any]] = {name: np.concatenate(columns) for name, columns in chunks.items()}
    header["line"] = np.arange(1, n_lines + 1)
    return header


def file_lines(part: SummaryPart) -> Iterator[list[bytes]]:
    """The lines of a part without their line ends, in batches."""
    with part.open() as file:
        while lines := [line.rstrip(b"\r\n") for line in islice(file, _LINES_AT_ONCE)]:
            yield lines


def _cut_pipes(lines: Sequence[bytes], before: int, part: SummaryPart) -> dict[str, NDArray[np.bytes_]]:
    records = [line.split(b"|") for line in lines]
    for number, record in enumerate(records, before + 1):
        if len(record) != GEO_2020_WIDTH:
            raise InputError(
                f"{part.place}, line {number:,}: the number of fields is {len(record)}; a geographic header of the "
                f"2020 layout has {GEO_2020_WIDTH}, with | between them"
            )
    return {name: np.array([record[place] for record in records]) for name, place in GEO_2020.items()}


def _cut_columns(lines: Sequence[bytes], before: int, part: SummaryPart) -> dict[str, NDArray[np.bytes_]]:
    for number, line in enumerate(lines, before + 1):
        if len(line) < GEO_2010_LEAST:
            raise InputError(
                f"{part.place}, line {number:,}: the record has {len(line)} characters; a header of the 2010 "
                f"layout has at least {GEO_2010_LEAST} (one of 2020 has | between its fields)"
            )
    return {
        name: np.array([line[start - 1 : start - 1 + width] for line in lines])
        for name, (start, width) in GEO_2010.items()
    }


def decoded(name: bytes) -> str:
    """The text of a name: UTF-8 where it is that, else Latin-1, as the Census Bureau writes it."""
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return name.decode("latin-1")


def whole_numbers(
    values: NDArray[np.bytes_], part: SummaryPart, field: str, lines: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The values as whole numbers; InputError where one is none, or too large."""
    right = np.strings.isdigit(values) & (np.strings.str_len(values) <= 9)
    if not right.all():
        row = int(np.flatnonzero(~right)[0])
        raise InputError(
            f"{part.place}, line {lines[row]:,}: {field} is {quoted(values[row])}; at most 9 digits are needed"
        )
    return values.astype(np.int64)


def quoted(value: bytes) -> str:
    """A field's bytes in quotes, for a message."""
    return quote(value.decode("latin-1"))


def geocodes_of(header: Header, part: SummaryPart) -> NDArray[np.str_]:
    """The geocode of each record, by the parts of its summary level; InputError where a part is not a code."""
    geocodes = np.full(len(header["line"]), "", dtype="<U15")
    for level, described in GEO_LEVELS.items():
        rows = np.flatnonzero(header["SUMLEV"] == level.encode())
        code = np.full(rows.size, "", dtype="<U15")
        for name in described.parts:
            value, width = header[name][rows], PART_DIGITS[name]
            right = np.strings.isdigit(value) & (np.strings.str_len(value) == width)
            if not right.all():
                bad_row = int(np.flatnonzero(~right)[0])
                raise InputError(
                    f"{part.place}, line {header['line'][rows[bad_row]]:,}: {name} of a record "
                    f"of summary level {level} "
                    f"({described.name}) is {quoted(value[bad_row])}; a code of {width} digits is needed"
                )
            code = np.strings.add(code, value.astype(f"<U{width}"))
        unique, first, count = np.unique(code, return_index=True, return_counts=True)
        if (twice := np.flatnonzero(count > 1)).size:
            second = rows[np.flatnonzero(code == unique[twice[0]])[1]]
            raise InputError(
                f"{part.place}, line {header['line'][second]:,}: the {described.name} {unique[twice[0]]} has a record "
                f"already, in line {header['line'][rows[first[twice[0]]]]:,}; each has one"
            )
        geocodes[rows] = code
    return geocodes


def areas_of(header: Header, field: str, part: SummaryPart) -> NDArray[np.str_]:
    """The code of the off-spine area that each block is in, "" where it is in none."""
    value = header[field]
    is_block = header["SUMLEV"] == BLOCK.encode()
    none = np.isin(value, [code.encode() for code in NO_AREA[field]])
    bad_rows = np.flatnonzero(
        is_block & ~none & ~(np.strings.isdigit(value) & (np.strings.str_len(value) == PART_DIGITS[field]))
    )
    if bad_rows.size:
        raise InputError(
            f"{part.place}, line {header['line'][bad_rows[0]]:,}: {field} is {quoted(value[bad_rows[0]])}; a code of "
            f"{PART_DIGITS[field]} digits is needed"
        )
    return np.where(is_block & ~none, value, b"").astype(np.str_)
