"""The tables of the redistricting data (P.L. 94-171), as they are read and written: races, quarters, and their lines.

P1 race; P2 Hispanic or Latino, and not by race; P3, P4 the same for those aged 18 and over; P5 group quarters by type;
H1 occupancy. Source: US Census Bureau, 2020 Census State Redistricting Data (Public Law 94-171) Summary File, technical
documentation, chapter 6.
"""

from __future__ import annotations

from itertools import combinations

#: Races in the order of the tables, and what an attribute's values are called for them.
SINGLE_RACES = ("white", "black", "aian", "asian", "nhpi", "sor")
#: The 63 combinations of one to six races, in the order of table P1.
RACES = tuple("_".join(several) for size in range(1, 7) for several in combinations(SINGLE_RACES, size))
#: Group quarters types in the order of table P5.
QUARTERS = {
    "institutional": ("correctional", "juvenile", "nursing", "other_institutional"),
    "noninstitutional": ("college", "military", "other_noninstitutional"),
}
#: The lines of table H1 after the total.
OCCUPANCY = ("occupied", "vacant")

_GEO_HEADER = (
    "FILEID STUSAB SUMLEV GEOVAR GEOCOMP CHARITER CIFSN LOGRECNO GEOID GEOCODE REGION DIVISION STATE "
    "STATENS COUNTY COUNTYCC COUNTYNS COUSUB COUSUBCC COUSUBNS SUBMCD SUBMCDCC SUBMCDNS ESTATE ESTATECC "
    "ESTATENS CONCIT CONCITCC CONCITNS PLACE PLACECC PLACENS TRACT BLKGRP BLOCK AIANHH AIHHTLI AIANHHFP "
    "AIANHHCC AIANHHNS AITS AITSFP AITSCC AITSNS TTRACT TBLKGRP ANRC ANRCCC ANRCNS CBSA MEMI CSA METDIV "
    "NECTA NMEMI CNECTA NECTADIV CBSAPCI NECTAPCI UA UATYPE UR CD116 CD118 CD119 CD120 CD121 SLDU18 "
    "SLDU22 SLDU24 SLDU26 SLDU28 SLDL18 SLDL22 SLDL24 SLDL26 SLDL28 VTD VTDI ZCTA SDELM SDSEC SDUNI PUMA "
    "AREALAND AREAWATR BASENAME NAME FUNCSTAT GCUNI POP100 HU100 INTPTLAT INTPTLON LSADC PARTFLAG UGA"
)
#: Fields of the geographic header of 2020, in order.
GEO_HEADER = tuple(_GEO_HEADER.split(" "))
#: Tables in each of the segments 1, 2, 3.
SEGMENTS = (("P1", "P2"), ("P3", "P4", "H1"), ("P5",))

#: Number of lines of each table.
LINES = {"P1": 71, "P2": 73, "P3": 71, "P4": 73, "H1": 3, "P5": 10}
#: Lines (from 0) of a table of races that hold a sum, and those they are the sum of; see `race_sums`.
_RACE_COUNTS = (6, 15, 20, 15, 6, 1)


def race_sums() -> dict[int, tuple[int, ...]]:
    """Line -> the lines it is the sum of, numbered from 0 at the line of all races together (P1 line 1, P2 line 3)."""
    sums: dict[int, tuple[int, ...]] = {1: tuple(range(2, 8))}
    line = 9
    several: list[int] = []
    for count in _RACE_COUNTS[1:]:
        several.append(line)
        sums[line] = tuple(range(line + 1, line + 1 + count))
        line += 1 + count
    return {0: (1, 8), 8: tuple(several), **sums}


def race_lines() -> tuple[int, ...]:
    """The lines of the 63 combinations, numbered as in `race_sums`."""
    totals = race_sums()
    return tuple(line for line in range(LINES["P1"]) if line not in totals)
