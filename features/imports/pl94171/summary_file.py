"""Reads a P.L. 94-171 summary file, a folder or zip, into one array a table, with a row for each area that is used.

Source of the layout: US Census Bureau, 2020 and 2010 Census Redistricting Data (P.L. 94-171) Summary File technical
documentation.
"""

from __future__ import annotations

import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.exchange.pl94171_tables import GEO_HEADER, LINES, SEGMENTS
from pipeline.records.problems import quote
from postprocess.arrays import IntArray

#: What stands before the tables in a segment's record.
SEGMENT_START = ("FILEID", "STUSAB", "CHARITER", "CIFSN", "LOGRECNO")


def line_name(table: str, line: int) -> str:
    """The name of a line of a table: "P2_003" for line 2 (from 0) of P2."""
    return f"{table}_{line + 1:03d}"


@dataclass(frozen=True)
class GeoLevel:
    """A summary level that is read.

    Attributes:
        name: as the spec calls the level; "place" and "aian" are off the spine.
        parts: the fields of which its geocode is made.
    """

    name: str
    parts: tuple[str, ...]


#: Summary level -> what is read of it.
GEO_LEVELS = {
    "040": GeoLevel("state", ("STATE",)),
    "050": GeoLevel("county", ("STATE", "COUNTY")),
    "140": GeoLevel("tract", ("STATE", "COUNTY", "TRACT")),
    "150": GeoLevel("block_group", ("STATE", "COUNTY", "TRACT", "BLKGRP")),
    "750": GeoLevel("block", ("STATE", "COUNTY", "TRACT", "BLOCK")),
    "160": GeoLevel("place", ("STATE", "PLACE")),
    "280": GeoLevel("aian", ("STATE", "AIANHH")),
}
BLOCK = "750"
#: Prefix lengths of a block's geocode.
SPINE_LEVELS = {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15}
#: Digits of the parts of geocodes.
PART_DIGITS = {"STATE": 2, "COUNTY": 3, "TRACT": 6, "BLKGRP": 1, "BLOCK": 4, "PLACE": 5, "AIANHH": 4}
#: What stands where a block is in no place, and in no American Indian area.
NO_AREA = {"PLACE": ("", "99999"), "AIANHH": ("", "9999")}

#: Fields that are read of the geographic header: first column (from 1) and width in one of fixed widths (2010).
GEO_2010: Mapping[str, tuple[int, int]] = {
    "STUSAB": (7, 2), "SUMLEV": (9, 3), "GEOCOMP": (12, 2), "LOGRECNO": (19, 7), "STATE": (28, 2), "COUNTY": (30, 3),
    "PLACE": (46, 5), "TRACT": (55, 6), "BLKGRP": (61, 1), "BLOCK": (62, 4), "AIANHH": (77, 4), "NAME": (227, 90),
    "POP100": (319, 9), "HU100": (328, 9),
}  # fmt: skip
#: And their position, from 0, in one between pipes (2020).
GEO_2020: Mapping[str, int] = {name: GEO_HEADER.index(name) for name in GEO_2010}
#: Columns that a fixed-width record has to reach.
GEO_2010_LEAST = 336


_NAME = re.compile(r"(?P<state>[a-z]{2})(?P<part>geo|0000[1-9])(?P<year>\d{4})[^/]*\.pl", re.IGNORECASE)
_WANTED = "such as rigeo2020.pl, ri000012020.pl, ri000022020.pl and ri000032020.pl"

#: How a file's fields are cut.
Layout = Literal["pipes", "commas", "columns"]


@dataclass(frozen=True)
class SummaryPart:
    """One of the files.

    Attributes:
        path: the folder or zip file, and `member` the file in it.
        layout: how its fields are cut.
    """

    path: Path
    member: str
    layout: Layout

    @property
    def place(self) -> str:
        """The file, for messages."""
        return f"{self.path}/{self.member}"

    def line(self, number: int) -> str:
        """A line of the file, for messages."""
        return f"{self.place}, line {number:,}"

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The file's bytes; InputError where it cannot be read."""
        with _readable(self.place):
            if self.path.is_dir():
                with (self.path / self.member).open("rb") as file:
                    yield file
            else:
                with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as member:
                    yield member


@dataclass(frozen=True)
class StateFiles:
    """The files of one state: the geographic header, and segments 1 to 2 (2010) or 3 (2020)."""

    state: str
    year: str
    geo: SummaryPart
    segments: tuple[SummaryPart, ...]


def find_files(path: Path) -> StateFiles:
    """The summary file at `path`, a folder or a zip.

    Raises:
        InputError: `path` is neither, or does not hold the files of exactly one state and year.
    """
    summaries: dict[tuple[str, str], dict[str, list[str]]] = {}
    for member in _members(path):
        if (match := _NAME.fullmatch(member.rsplit("/", 1)[-1])) is None:
            continue
        of_state = summaries.setdefault((match["state"].lower(), match["year"]), {})
        of_state.setdefault(match["part"].lower(), []).append(member)
    if not summaries:
        raise InputError(f"{path}: no file of a P.L. 94-171 summary file was found; needed are files {_WANTED}")
    if len(summaries) > 1:
        listing = ", ".join(f"{state} {year}" for state, year in sorted(summaries))
        raise InputError(
            f"{path}: files of several summary files were found ({listing}); give those of one state and year"
        )
    (((state, year), parts),) = summaries.items()
    for part, members in parts.items():
        if len(members) > 1:
            raise InputError(f"{path}: {' and '.join(sorted(members))} are both the part {part}; one is allowed")
    if missing := [part for part in ("geo", "00001", "00002") if part not in parts]:
        names = ", ".join(f"{state}{part}{year}.pl" for part in missing)
        raise InputError(f"{path}: {names} is missing; needed are files {_WANTED} (the last from 2020 on)")
    numbers = sorted(part for part in parts if part != "geo")
    if numbers[2:] not in ([], ["00003"]):
        raise InputError(
            f"{path}: {parts[numbers[-1]][0]} is not a segment of a P.L. 94-171 summary file; allowed are 1 to 3"
        )
    geo = _part(path, parts["geo"][0], "columns")
    return StateFiles(state, year, geo, tuple(_part(path, parts[number][0], "commas") for number in numbers))


def _members(path: Path) -> list[str]:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return sorted(item.name for item in path.iterdir() if item.is_file())
    except OSError as error:
        problem = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        raise InputError(f"{path}: {problem}; a folder or zip file with {_WANTED} is needed") from None
    if not stat.S_ISREG(mode) or not zipfile.is_zipfile(path):
        raise InputError(f"{path}: neither a folder nor a zip file; one with files {_WANTED} is needed")
    with _readable(str(path)), zipfile.ZipFile(path) as archive:
        return sorted(item.filename for item in archive.infolist() if not item.is_dir())


def _part(path: Path, member: str, otherwise: Layout) -> SummaryPart:
    """The file, its fields cut at pipes where its first line has one."""
    part = SummaryPart(path, member, "pipes")
    with part.open() as file:
        first = file.readline(1 << 16)
    if not first:
        raise InputError(f"{part.place}: the file is empty (0 bytes); at least one record is needed")
    return part if b"|" in first else SummaryPart(path, member, otherwise)


@contextmanager
def _readable(place: str) -> Iterator[None]:
    """Turns what goes wrong with reading a file into an InputError that names it."""
    try:
        yield
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{place}: cannot be read: {str(error) or type(error).__name__}") from error


#: Field -> its values `(n,)` as bytes; "line" -> the number of each record's line.
Header = Mapping[str, NDArray[Any]]

_LINES_AT_ONCE = 50_000


def read_header(part: SummaryPart) -> dict[str, NDArray[Any]]:
    """The fields of every record, `(n,)` bytes each without blanks around them, and its line from 1."""
    chunks: dict[str, list[NDArray[np.bytes_]]] = {name: [] for name in GEO_2010}
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
        if len(record) != len(GEO_HEADER):
            raise InputError(
                f"{part.line(number)}: the number of fields is {len(record)}; a geographic header of the "
                f"2020 layout has {len(GEO_HEADER)}, with | between them"
            )
    return {name: np.array([record[place] for record in records]) for name, place in GEO_2020.items()}


def _cut_columns(lines: Sequence[bytes], before: int, part: SummaryPart) -> dict[str, NDArray[np.bytes_]]:
    for number, line in enumerate(lines, before + 1):
        if len(line) < GEO_2010_LEAST:
            raise InputError(
                f"{part.line(number)}: the record has {len(line)} characters; a header of the 2010 "
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


def _digits(
    header: Header, field: str, part: SummaryPart, rows: IntArray | slice = slice(None), about: str = ""
) -> NDArray[np.bytes_]:
    """The values of a field, which are codes with the digits that it has, or whole numbers.

    Raises:
        InputError: one is not; the message names its line.
    """
    values, width = header[field][rows], PART_DIGITS.get(field)
    length = np.strings.str_len(values)
    right = np.strings.isdigit(values) & (length <= 9 if width is None else length == width)
    if not right.all():
        row = int(np.argmin(right))
        needed = "at most 9 digits are needed" if width is None else f"a code of {width} digits is needed"
        raise InputError(f"{part.line(header['line'][rows][row])}: {field}{about} is {quoted(values[row])}; {needed}")
    return values


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
            value = _digits(header, name, part, rows, f" of a record of summary level {level} ({described.name})")
            code = np.strings.add(code, value.astype(np.str_))
        unique, first, count = np.unique(code, return_index=True, return_counts=True)
        if (twice := np.flatnonzero(count > 1)).size:
            second = rows[np.flatnonzero(code == unique[twice[0]])[1]]
            raise InputError(
                f"{part.line(header['line'][second])}: the {described.name} {unique[twice[0]]} has a record "
                f"already, in line {header['line'][rows[first[twice[0]]]]:,}; each has one"
            )
        geocodes[rows] = code
    return geocodes


def areas_of(header: Header, field: str, part: SummaryPart) -> NDArray[np.str_]:
    """The code of the off-spine area that each block is in, "" where it is in none."""
    value = header[field]
    is_block = header["SUMLEV"] == BLOCK.encode()
    none = np.isin(value, [code.encode() for code in NO_AREA[field]])
    inside = is_block & ~none
    _digits(header, field, part, np.flatnonzero(inside))
    return np.where(inside, value, b"").astype(np.str_)


#: Largest count that a line may hold, so that sums stay far below the end of int64.
LARGEST = 10**9 - 1
_ALLOWED = f"a whole number from 0 to {LARGEST:,} is needed"
_CSV_BLOCK_BYTES = 1 << 24


def read_segment(
    part: SummaryPart,
    number: int,
    numbers: IntArray,
    row_of: IntArray,
    lines: IntArray,
    geo: SummaryPart,
) -> dict[str, NDArray[np.int32]]:
    """The tables of segment `number` (from 0).

    Args:
        part: the segment's file.
        number: of the segment, from 0.
        numbers: the LOGRECNOs of the header, in order.
        row_of: the row of the result for each of `numbers`, -1 where there is none.
        lines: the line in the header of each row of the result.
        geo: the header's file, for messages.
    """
    columns = [line_name(table, line) for table in SEGMENTS[number] for line in range(LINES[table])]
    counts = np.zeros((lines.size, len(columns)), dtype=np.int32)
    seen = np.zeros(numbers.size, dtype=np.bool_)
    first = 0
    for batch in _batches(part, columns):
        read_numbers = batch.column(0).to_numpy()
        at = np.minimum(np.searchsorted(numbers, read_numbers), numbers.size - 1)
        if (unknown := np.flatnonzero(numbers[at] != read_numbers)).size:
            raise InputError(
                f"{part.line(first + unknown[0] + 1)}: LOGRECNO {read_numbers[unknown[0]]} has no record in "
                f"{geo.member}; each record belongs to one there"
            )
        repeated = seen[at]
        seen[at] = True
        if at.size != np.unique(at).size or repeated.any():
            ends = np.ones(at.size, dtype=np.bool_)
            ends[np.unique(at, return_index=True)[1]] = False
            again = int(np.flatnonzero(ends | repeated)[0])
            raise InputError(
                f"{part.line(first + again + 1)}: LOGRECNO {read_numbers[again]} occurs twice; each record has its own"
            )
        rows = row_of[at]
        used = np.flatnonzero(rows >= 0)
        for place in range(len(columns)):
            values = batch.column(place + 1).to_numpy()
            if values.size and (values.min() < 0 or values.max() > LARGEST):
                bad_row = int(np.flatnonzero((values < 0) | (values > LARGEST))[0])
                raise InputError(f"{part.line(first + bad_row + 1)}: {columns[place]} is {values[bad_row]}; {_ALLOWED}")
            counts[rows[used], place] = values[used]
        first += batch.num_rows
    missing = np.setdiff1d(np.arange(lines.size), row_of[seen])
    if missing.size:
        raise InputError(
            f"{part.place}: no record for {missing.size:,} of the {lines.size:,} areas that are used; the first is in "
            f"line {lines[missing[0]]:,} of {geo.member}"
        )
    starts = np.cumsum([0, *(LINES[table] for table in SEGMENTS[number])])
    return {table: counts[:, starts[i] : starts[i + 1]] for i, table in enumerate(SEGMENTS[number])}


def _batches(part: SummaryPart, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """LOGRECNO and the lines of the tables, as int64."""
    separator = "|" if part.layout == "pipes" else ","
    names = [*SEGMENT_START, *columns]
    needed = ["LOGRECNO", *columns]
    try:
        with (
            part.open() as file,
            pa_csv.open_csv(
                file,
                read_options=pa_csv.ReadOptions(column_names=names, block_size=_CSV_BLOCK_BYTES),
                parse_options=pa_csv.ParseOptions(delimiter=separator, quote_char=False, ignore_empty_lines=False),
                convert_options=pa_csv.ConvertOptions(
                    include_columns=needed,
                    column_types=dict.fromkeys(needed, pa.int64()),
                    null_values=[],
                    strings_can_be_null=False,
                ),
            ) as reader,
        ):
            yield from reader
    except pa.ArrowMemoryError:
        raise
    except pa.ArrowException as error:
        raise InputError(_segment_problem(part, names, separator.encode(), error)) from error


def _segment_problem(part: SummaryPart, names: Sequence[str], separator: bytes, error: Exception) -> str:
    """What is wrong with a segment that Arrow cannot read, with the line."""
    number = 0
    for lines in file_lines(part):
        for line in lines:
            number += 1
            fields = line.split(separator)
            if len(fields) != len(names):
                return (
                    f"{part.line(number)}: the number of fields is {len(fields)}; a record of this segment "
                    f"has {len(names)}, with {separator.decode()} between them"
                )
            for name, field in zip(names[4:], fields[4:], strict=True):
                digits = field.strip()
                if not digits.isdigit() or len(digits) > 9:
                    return f"{part.line(number)}: {name} is {quoted(field)}; {_ALLOWED}"
    return f"{part.place}: cannot be read: {str(error).splitlines()[0][:200]}"


@dataclass(frozen=True, eq=False)
class SummaryFile:
    """What is used of a summary file; `n` areas, in the order of the geographic header.

    Attributes:
        level: `(n,)` summary level, "750" for blocks.
        geocode: `(n,)`; state, county, tract and block digits together, or state and place or area.
        name: `(n,)` name in the header.
        place, area: `(n,)` code of the place and of the American Indian area of a block, "" where it is in none.
        population, units: `(n,)` int64, the totals in the header.
        tables: "P1" ... -> `(n, n_lines)` int32 counts.
    """

    level: NDArray[np.str_]
    geocode: NDArray[np.str_]
    name: NDArray[np.str_]
    place: NDArray[np.str_]
    area: NDArray[np.str_]
    population: IntArray
    units: IntArray
    tables: Mapping[str, NDArray[np.int32]]

    def rows(self, level: str) -> IntArray:
        """The rows of a summary level."""
        return np.flatnonzero(self.level == level)


def read_summary(files: StateFiles) -> SummaryFile:
    """Read the header and the segments.

    Raises:
        InputError: a file is not in the layout of its year; the message names the file and the line.
    """
    header = read_header(files.geo)
    numbers = _digits(header, "LOGRECNO", files.geo).astype(np.int64)
    order = np.argsort(numbers, kind="stable")
    if (again := np.flatnonzero(numbers[order][1:] == numbers[order][:-1])).size:
        line = int(header["line"][order[again[0] + 1]])
        raise InputError(
            f"{files.geo.line(line)}: LOGRECNO {numbers[order[again[0]]]} occurs twice; each record has its own"
        )
    used = np.isin(header["SUMLEV"], [level.encode() for level in GEO_LEVELS]) & (header["GEOCOMP"] == b"00")
    used_header = {name: column[used] for name, column in header.items()}
    if not (used_header["SUMLEV"] == BLOCK.encode()).any():
        raise InputError(f"{files.geo.place}: no record of summary level {BLOCK} (block); blocks are needed")
    row_of = np.full(numbers.size, -1, dtype=np.int64)
    row_of[np.flatnonzero(used)] = np.arange(int(used.sum()))
    tables: dict[str, NDArray[np.int32]] = {}
    for number, segment in enumerate(files.segments):
        tables.update(read_segment(segment, number, numbers[order], row_of[order], used_header["line"], files.geo))
    return SummaryFile(
        level=used_header["SUMLEV"].astype(np.str_),
        geocode=geocodes_of(used_header, files.geo),
        name=np.array([decoded(name) for name in used_header["NAME"]], dtype=np.str_),
        place=areas_of(used_header, "PLACE", files.geo),
        area=areas_of(used_header, "AIANHH", files.geo),
        population=_digits(used_header, "POP100", files.geo).astype(np.int64),
        units=_digits(used_header, "HU100", files.geo).astype(np.int64),
        tables=tables,
    )
