"""The layout of P.L. 94-171 legacy-format summary files: the position of each line of each table.

Source: US Census Bureau, 2020 and 2010 Census Redistricting Data (P.L. 94-171) Summary File technical documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.exchange.pl94171_tables import GEO_HEADER

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
