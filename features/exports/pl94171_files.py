"""The P.L. 94-171 legacy-format summary files of a state: a geographic header and three segments, delimited by bars.

They have the layout of the 2020 files, so programs that read those read these. What a release does not know about an
area (land area, coordinates, other geographies, names if it has none) is left empty. Source: 2020 Census State
Redistricting Data (Public Law 94-171) Summary File, technical documentation, chapter 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

import numpy as np
from numpy.typing import NDArray

from features.exports.pl94171 import column_names
from geography.spine import Spine

_GEO_FIELDS: Final = (
    "FILEID STUSAB SUMLEV GEOVAR GEOCOMP CHARITER CIFSN LOGRECNO GEOID GEOCODE REGION DIVISION STATE "
    "STATENS COUNTY COUNTYCC COUNTYNS COUSUB COUSUBCC COUSUBNS SUBMCD SUBMCDCC SUBMCDNS ESTATE ESTATECC "
    "ESTATENS CONCIT CONCITCC CONCITNS PLACE PLACECC PLACENS TRACT BLKGRP BLOCK AIANHH AIHHTLI AIANHHFP "
    "AIANHHCC AIANHHNS AITS AITSFP AITSCC AITSNS TTRACT TBLKGRP ANRC ANRCCC ANRCNS CBSA MEMI CSA METDIV "
    "NECTA NMEMI CNECTA NECTADIV CBSAPCI NECTAPCI UA UATYPE UR CD116 CD118 CD119 CD120 CD121 SLDU18 "
    "SLDU22 SLDU24 SLDU26 SLDU28 SLDL18 SLDL22 SLDL24 SLDL26 SLDL28 VTD VTDI ZCTA SDELM SDSEC SDUNI PUMA "
    "AREALAND AREAWATR BASENAME NAME FUNCSTAT GCUNI POP100 HU100 INTPTLAT INTPTLON LSADC PARTFLAG UGA"
)
#: Fields of the geographic header, in order.
GEO_FIELDS: Final = tuple(_GEO_FIELDS.split(" "))
#: Length of a geocode -> summary level.
SUMMARY_LEVELS: Final = {2: "040", 5: "050", 11: "140", 12: "150", 15: "750"}
#: Characters of the field NAME.
_LONGEST_NAME: Final = 125
_SEGMENTS: Final = (("P1", "P2"), ("P3", "P4", "H1"), ("P5",))
_STATE_CODES: Final = (
    "01AL02AK04AZ05AR06CA08CO09CT10DE11DC12FL13GA15HI16ID17IL18IN19IA20KS21KY22LA23ME24MD25MA26MI27MN28MS29MO"
    "30MT31NE32NV33NH34NJ35NM36NY37NC38ND39OH40OK41OR42PA44RI45SC46SD47TN48TX49UT50VT51VA53WA54WV55WI56WY72PR"
)
_STATES: Final = {_STATE_CODES[i : i + 2]: _STATE_CODES[i + 2 : i + 4] for i in range(0, len(_STATE_CODES), 4)}


def census_levels(spine: Spine) -> dict[str, str]:
    """Level -> summary level, of the levels whose geocodes are those of states, counties, tracts, block groups, blocks.

    Empty where the leaves are not such areas: then the spine is another country's, and has no such files.
    """
    codes = {}
    for level in spine.levels:
        lengths = set(np.strings.str_len(level.geocodes).tolist())
        if len(lengths) == 1 and (width := lengths.pop()) in SUMMARY_LEVELS:
            states = np.unique(level.geocodes.astype("<U2"))
            if np.strings.isdigit(level.geocodes).all() and all(state in _STATES for state in states):
                codes[level.name] = SUMMARY_LEVELS[width]
    if spine.leaf_level.name not in codes or len(set(codes.values())) < len(codes):
        return {}
    return codes


@dataclass(frozen=True, eq=False)
class Areas:
    """Geounits of one state, `(n,)` each, and their names as the file can hold them."""

    geocodes: NDArray[np.str_]
    names: Sequence[str]


def _name(name: str) -> str:
    """A name in the file's encoding, without the sign that separates fields, as long as the layout allows."""
    return name.replace("|", "/").encode("latin-1", "replace").decode("latin-1")[:_LONGEST_NAME]


class SummaryFiles:
    """The files of every state, written level by level from the top; open it in a `with` block.

    Args:
        folder: they are written to.
        tables: that there are; H1 is left empty where it is not among them, and P5's segment is not written.
    """

    def __init__(self, folder: Path, tables: Sequence[str]) -> None:
        self._folder = folder
        self._segments = tuple(names for names in _SEGMENTS if any(name in tables for name in names))
        self._tables = frozenset(tables)
        self._files: dict[str, list[TextIO]] = {}
        self._written: dict[str, int] = {}
        self._stack = ExitStack()

    def __enter__(self) -> SummaryFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def write(
        self,
        summary_level: str,
        geocodes: NDArray[np.str_],
        tables: Mapping[str, NDArray[np.int64]],
        names: Sequence[str] | None = None,
    ) -> None:
        """Append geounits of one summary level, with each table's counts `(n, columns)` and the areas' names."""
        states = geocodes.astype("<U2")
        for state in np.unique(states):
            rows = np.flatnonzero(states == state)
            files = self._open(str(state))
            first = self._written[str(state)]
            self._written[str(state)] += len(rows)
            numbers = [f"{first + number:07d}" for number in range(1, len(rows) + 1)]
            areas = Areas(
                geocodes[rows], [""] * len(rows) if names is None else [_name(names[row]) for row in rows.tolist()]
            )
            self._write_geo(files[0], summary_level, areas, numbers, {k: v[rows] for k, v in tables.items()})
            for segment, (part, file) in enumerate(zip(self._segments, files[1:], strict=True), start=1):
                begin = f"PLST|{_STATES[str(state)]}|000|{segment:02d}|"
                for number, line in zip(numbers, self._lines(part, tables, rows), strict=True):
                    file.write(f"{begin}{number}|{line}\n")

    def _lines(
        self, names: Sequence[str], tables: Mapping[str, NDArray[np.int64]], rows: NDArray[np.int64]
    ) -> Iterator[str]:
        parts = [
            tables[name][rows].astype(str).tolist()
            if name in self._tables
            else [[""] * len(column_names(name))] * len(rows)
            for name in names
        ]
        for cells in zip(*parts, strict=True):
            yield "|".join("|".join(part) for part in cells)

    def _open(self, state: str) -> list[TextIO]:
        if state not in self._files:
            abbreviation = _STATES[state].lower()
            names = [f"{abbreviation}geo2020.pl"]
            names += [f"{abbreviation}{number:05d}2020.pl" for number in range(1, len(self._segments) + 1)]
            self._files[state] = [
                self._stack.enter_context((self._folder / name).open("w", encoding="latin-1", newline="\n"))
                for name in names
            ]
            self._written[state] = 0
        return self._files[state]

    def _write_geo(
        self,
        file: TextIO,
        summary_level: str,
        areas: Areas,
        numbers: Sequence[str],
        tables: Mapping[str, NDArray[np.int64]],
    ) -> None:
        persons = tables["P1"][:, 0].tolist()
        units = tables["H1"][:, 0].tolist() if "H1" in tables else [""] * len(areas.geocodes)
        place = {name: number for number, name in enumerate(GEO_FIELDS)}
        rows = zip(areas.geocodes.tolist(), areas.names, numbers, persons, units, strict=True)
        for code, name, number, count, housing in rows:
            line = [""] * len(GEO_FIELDS)
            values = {
                "FILEID": "PLST",
                "STUSAB": _STATES[code[:2]],
                "SUMLEV": summary_level,
                "GEOVAR": "00",
                "GEOCOMP": "00",
                "CHARITER": "000",
                "CIFSN": "00",
                "LOGRECNO": number,
                "GEOID": f"{summary_level}0000US{code}",
                "GEOCODE": code,
                "STATE": code[:2],
                "COUNTY": code[2:5],
                "TRACT": code[5:11],
                "BLKGRP": code[11:12],
                "BLOCK": code[11:15] if len(code) == 15 else "",
                "NAME": name,
                "POP100": str(count),
                "HU100": str(housing),
            }
            for field, value in values.items():
                line[place[field]] = value
            file.write("|".join(line) + "\n")
