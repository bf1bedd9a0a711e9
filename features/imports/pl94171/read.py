"""Reads a P.L. 94-171 summary file into one array a table, with a row for each area of the levels that are used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from features.imports.pl94171.files import SummaryFiles, SummaryPart
from features.imports.pl94171.header import (
    areas_of,
    decoded,
    file_lines,
    geocodes_of,
    quoted,
    read_header,
    whole_numbers,
)
from features.imports.pl94171.layout import BLOCK, GEO_LEVELS, SEGMENT_START, SEGMENTS, line_name
from pipeline.errors import InputError
from pipeline.exchange.pl94171_tables import LINES

#: Largest count that a line may hold, so that sums stay far below the end of int64.
LARGEST = 10**9 - 1
_ALLOWED = f"a whole number from 0 to {LARGEST:,} is needed"
_CSV_BLOCK_BYTES = 1 << 24


def read_segment(
    part: SummaryPart,
    number: int,
    numbers: NDArray[np.int64],
    row_of: NDArray[np.int64],
    lines: NDArray[np.int64],
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
                f"{part.place}, line {first + unknown[0] + 1:,}: LOGRECNO {read_numbers[unknown[0]]} has no record in "
                f"{geo.member}; each record belongs to one there"
            )
        repeated = seen[at]
        seen[at] = True
        if at.size != np.unique(at).size or repeated.any():
            ends = np.ones(at.size, dtype=np.bool_)
            ends[np.unique(at, return_index=True)[1]] = False
            again = int(np.flatnonzero(ends | repeated)[0])
            raise InputError(
                f"{part.place}, line {first + again + 1:,}: LOGRECNO {read_numbers[again]} occurs twice; each record "
                "has its own"
            )
        rows = row_of[at]
        used = np.flatnonzero(rows >= 0)
        for place in range(len(columns)):
            values = batch.column(place + 1).to_numpy()
            if values.size and (values.min() < 0 or values.max() > LARGEST):
                bad_row = int(np.flatnonzero((values < 0) | (values > LARGEST))[0])
                raise InputError(
                    f"{part.place}, line {first + bad_row + 1:,}: {columns[place]} is {values[bad_row]}; {_ALLOWED}"
                )
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
                    f"{part.place}, line {number:,}: the number of fields is {len(fields)}; a record of this segment "
                    f"has {len(names)}, with {separator.decode()} between them"
                )
            for name, field in zip(names[4:], fields[4:], strict=True):
                digits = field.strip()
                if not digits.isdigit() or len(digits) > 9:
                    return f"{part.place}, line {number:,}: {name} is {quoted(field)}; {_ALLOWED}"
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
    population: NDArray[np.int64]
    units: NDArray[np.int64]
    tables: Mapping[str, NDArray[np.int32]]

    def rows(self, level: str) -> NDArray[np.int64]:
        """The rows of a summary level."""
        return np.flatnonzero(self.level == level)


def read_summary(files: SummaryFiles) -> SummaryFile:
    """Read the header and the segments.

    Raises:
        InputError: a file is not in the layout of its year; the message names the file and the line.
    """
    header = read_header(files.geo)
    numbers = whole_numbers(header["LOGRECNO"], files.geo, "LOGRECNO", header["line"])
    order = np.argsort(numbers, kind="stable")
    if (again := np.flatnonzero(numbers[order][1:] == numbers[order][:-1])).size:
        line = int(header["line"][order[again[0] + 1]])
        raise InputError(
            f"{files.geo.place}, line {line:,}: LOGRECNO {numbers[order[again[0]]]} occurs twice; each record "
            "has its own"
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
        population=whole_numbers(used_header["POP100"], files.geo, "POP100", used_header["line"]),
        units=whole_numbers(used_header["HU100"], files.geo, "HU100", used_header["line"]),
        tables=tables,
    )
