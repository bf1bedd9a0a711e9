"""Reads a P.L. 94-171 summary file into one array a table, with a row for each area of the levels that are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.imports.pl94171.files import SummaryFiles
from features.imports.pl94171.header import areas_of, decoded, geocodes_of, read_header, whole_numbers
from features.imports.pl94171.layout import BLOCK, GEO_LEVELS
from features.imports.pl94171.segments import read_segment
from pipeline.errors import InputError


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
