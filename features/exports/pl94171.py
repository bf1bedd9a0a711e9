"""The 2020 Census redistricting data (P.L. 94-171) from released histograms: tables P1 to P5 and H1, and summary files.

P1 race; P2 Hispanic or Latino, and not by race; P3, P4 the same for those aged 18 and over; P5 group quarters by type;
H1 occupancy. Columns are called as in the Bureau's summary files: P0010001 ... P0010071 and so on. Source: 2020 Census
State Redistricting Data (Public Law 94-171) Summary File, technical documentation, chapters 2 and 6.

The legacy-format summary files of a state are a geographic header and three segments, delimited by bars. They have the
layout of the 2020 files, so programs that read those read these. What a release does not know about an area (land area,
coordinates, other geographies, names if it has none) is left empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from features.exports.words import area_names
from geography.spine import Spine
from pipeline.errors import InputError
from pipeline.exchange.pl94171_tables import (
    GEO_HEADER,
    LINES,
    OCCUPANCY,
    QUARTERS,
    RACES,
    SEGMENTS,
    race_lines,
    race_sums,
)
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.model.universe import Universe
from pipeline.published import PublishedRelease
from pipeline.storage.plain_tables import CsvFiles
from postprocess.arrays import IntArray

#: Geounits worked on at a time.
_AT_ONCE = 20_000
#: Labels of the values that the tables are made of, in the order of the histogram of 2020.
VALUES = {
    "votingage": ("under18", "18plus"),
    "hispanic": ("not_hispanic", "hispanic"),
    "cenrace": RACES,
    "hhgq": ("household", *QUARTERS["institutional"], *QUARTERS["noninstitutional"]),
    "status": OCCUPANCY,
}


def column_names(table: str) -> tuple[str, ...]:
    """The names of a table's fields, "P0010001" and so on for the table "P1"."""
    return tuple(f"{table[0]}{int(table[1:]):03d}{number:04d}" for number in range(1, LINES[table] + 1))


def _race_groups() -> IntArray:
    """`(71, 63)` of 0 and 1: which of the 63 combinations each column of table P1 counts."""
    groups = np.zeros((LINES["P1"], len(RACES)), dtype=np.int64)
    groups[list(race_lines()), range(len(RACES))] = 1
    for line, parts in sorted(race_sums().items(), reverse=True):  # sums of sums stand above them
        groups[line] = groups[list(parts)].sum(axis=0)
    return groups


_P1 = _race_groups()


def value_order(attribute: Attribute, labels: Sequence[str]) -> IntArray:
    """The attribute's value numbers in the order of `labels`: by label where it has these labels, else as they stand.

    Raises:
        InputError: it has another number of values.
    """
    if len(attribute.values) != len(labels):
        raise InputError(
            f"schema.attributes.{attribute.name}: found {len(attribute.values)} values; the layout of 2020 has "
            f"{len(labels)}: {', '.join(labels[:8])}{', ...' if len(labels) > 8 else ''}"
        )
    if set(attribute.values) == set(labels):
        return np.array([attribute.values.index(label) for label in labels], dtype=np.int64)
    return np.arange(len(labels), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Cube:
    """Sums a universe's histograms to some attributes, in the order of 2020."""

    query: Query
    axes: tuple[int, ...]
    orders: tuple[IntArray, ...]

    @classmethod
    def of(cls, schema: Schema, attributes: Sequence[tuple[str, Sequence[str]]]) -> _Cube:
        """Over these attributes of the schema, each with the labels of 2020."""
        query = Query.parse(" * ".join(name for name, _ in attributes), schema)
        attributes_used = [name for name in schema.names if name in dict(attributes)]
        by_name = {attribute.name: attribute for attribute in schema.attributes}
        return cls(
            query,
            tuple(attributes_used.index(name) for name, _ in attributes),
            tuple(value_order(by_name[name], labels) for name, labels in attributes),
        )

    def counts(self, histograms: sp.csr_array) -> IntArray:
        """`(n, size, size, ...)` in the order that the attributes were given in."""
        sizes = [size for size in self.query.sizes if size > 1] or [1]
        shape = [len(histograms.indptr) - 1, *sizes]
        answers = self.query.answer_csr(histograms).reshape(shape)
        answers = answers.transpose(0, *(axis + 1 for axis in self.axes))
        for axis, order in enumerate(self.orders, start=1):
            answers = answers.take(order, axis=axis)
        return np.ascontiguousarray(answers)


@dataclass(frozen=True, eq=False)
class CensusTables:
    """Which tables a release has the attributes for, and from which universe.

    Attributes:
        race: of the release's own universe: votingage, hispanic, cenrace.
        others: of P5 and H1, universe name and how types of group quarters or units are counted there, from which on:
            households are no group quarters.
    """

    race: _Cube
    others: Mapping[str, tuple[str, _Cube, int]]

    @classmethod
    def of(cls, universes: Sequence[Universe]) -> CensusTables:
        """Of a release's universes, its own first.

        Raises:
            InputError: the release's own universe does not have the attributes of tables P1 to P4.
        """
        main = universes[0]
        needed = ("votingage", "hispanic", "cenrace")
        if missing := [name for name in needed if name not in main.schema.names]:
            raise InputError(
                f"--format pl94171: the release has no attribute {', '.join(missing)}; tables P1 to P4 are made of "
                f"{', '.join(needed)} (63 values, in the order of table P1); its attributes are "
                f"{', '.join(main.schema.names)}"
            )
        race = _Cube.of(main.schema, [(name, VALUES[name]) for name in needed])
        others: dict[str, tuple[str, _Cube, int]] = {}
        if "hhgq" in main.schema.names:
            others["P5"] = (main.name, _Cube.of(main.schema, [("hhgq", VALUES["hhgq"])]), 1)
        for universe in universes[1:]:
            for attribute in universe.schema.attributes:
                for table, labels in (("P5", VALUES["hhgq"][1:]), ("H1", VALUES["status"])):
                    if table not in others and set(attribute.values) == set(labels):
                        others[table] = (universe.name, _Cube.of(universe.schema, [(attribute.name, labels)]), 0)
        return cls(race, others)

    @property
    def names(self) -> tuple[str, ...]:
        """The tables there are, in order."""
        return ("P1", "P2", "P3", "P4", *(name for name in ("P5", "H1") if name in self.others))

    @property
    def universes(self) -> tuple[str, ...]:
        """Names of the universes that are read, the release's own ("") first."""
        return tuple(dict.fromkeys(("", *(self.others[name][0] for name in self.names[4:]))))

    def tables(self, histograms: dict[str, sp.csr_array]) -> dict[str, IntArray]:
        """Every table `(n, columns)` for the geounits whose histograms are given, by universe."""
        cube = self.race.counts(histograms[""])
        counts_of: dict[str, IntArray] = {}
        for names, ages in ((("P1", "P2"), cube.sum(axis=1)), (("P3", "P4"), cube[:, 1])):
            by_race = ages.sum(axis=1) @ _P1.T
            of_hispanic, of_others = ages[:, 1].sum(axis=1), ages[:, 0] @ _P1.T
            counts_of[names[0]] = by_race
            counts_of[names[1]] = np.concatenate(
                [by_race[:, :1], of_hispanic[:, None], of_others[:, :1], of_others[:, 1:]], axis=1
            )
        own = {table: how.counts(histograms[name])[:, first:] for table, (name, how, first) in self.others.items()}
        if (types := own.get("P5")) is not None:
            institutional, others = types[:, :4], types[:, 4:]
            totals = [part.sum(axis=1, keepdims=True) for part in (types, institutional, others)]
            counts_of["P5"] = np.concatenate([totals[0], totals[1], institutional, totals[2], others], axis=1)
        if (units := own.get("H1")) is not None:
            counts_of["H1"] = np.concatenate([units.sum(axis=1, keepdims=True), units], axis=1)
        return counts_of


# -- summary files -----------------------------------------------------------------------------------------------------


#: Length of a geocode -> summary level.
SUMMARY_LEVELS: Final = {2: "040", 5: "050", 11: "140", 12: "150", 15: "750"}
#: Characters of the field NAME.
_LONGEST_NAME: Final = 125
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


class SummaryFiles(ExitStack):
    """The files of every state, written level by level from the top; open it in a `with` block.

    Args:
        folder: they are written to.
        tables: that there are; H1 is left empty where it is not among them, and P5's segment is not written.
    """

    def __init__(self, folder: Path, tables: Sequence[str]) -> None:
        super().__init__()
        self._folder = folder
        self._segments = tuple(names for names in SEGMENTS if any(name in tables for name in names))
        self._tables = frozenset(tables)
        self._files: dict[str, list[TextIO]] = {}
        self._written: dict[str, int] = {}

    def write(
        self,
        summary_level: str,
        geocodes: NDArray[np.str_],
        tables: Mapping[str, IntArray],
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
            # In the file's encoding, without the sign that separates fields, as long as the layout allows.
            own = [""] * len(rows)
            if names is not None:
                plain = (names[row].replace("|", "/").encode("latin-1", "replace") for row in rows.tolist())
                own = [name.decode("latin-1")[:_LONGEST_NAME] for name in plain]
            areas = zip(geocodes[rows].tolist(), own, numbers, strict=True)
            self._write_geo(files[0], summary_level, areas, {k: v[rows] for k, v in tables.items()})
            for segment, (part, file) in enumerate(zip(self._segments, files[1:], strict=True), start=1):
                begin = f"PLST|{_STATES[str(state)]}|000|{segment:02d}|"
                cells = [
                    tables[name][rows].astype(str).tolist()
                    if name in self._tables
                    else [[""] * len(column_names(name))] * len(rows)
                    for name in part
                ]
                for number, *own_cells in zip(numbers, *cells, strict=True):
                    file.write(f"{begin}{number}|{'|'.join(map('|'.join, own_cells))}\n")

    def _open(self, state: str) -> list[TextIO]:
        if state not in self._files:
            abbreviation = _STATES[state].lower()
            names = [f"{abbreviation}geo2020.pl"]
            names += [f"{abbreviation}{number:05d}2020.pl" for number in range(1, len(self._segments) + 1)]
            self._files[state] = [
                self.enter_context((self._folder / name).open("w", encoding="latin-1", newline="\n")) for name in names
            ]
            self._written[state] = 0
        return self._files[state]

    def _write_geo(
        self,
        file: TextIO,
        summary_level: str,
        areas: Iterable[tuple[str, str, str]],
        tables: Mapping[str, IntArray],
    ) -> None:
        persons = tables["P1"][:, 0].tolist()
        units = tables["H1"][:, 0].tolist() if "H1" in tables else [""] * len(persons)
        for (code, name, number), count, housing in zip(areas, persons, units, strict=True):
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
            file.write("|".join(values.get(field, "") for field in GEO_HEADER) + "\n")


# -- of a release ------------------------------------------------------------------------------------------------------


def write_pl94171(release: PublishedRelease, folder: Path) -> None:
    """Write the tables to tables/, and summary files where the areas are census areas.

    Raises:
        InputError: the release does not have the attributes of tables P1 to P4.
    """
    tables = CensusTables.of(release.universes)
    summary = census_levels(release.spine)
    with CsvFiles(folder / "tables") as csv, SummaryFiles(folder, tables.names) as files:
        for level in release.spine.levels:
            names = area_names(release, level.name)
            histograms = {
                universe.name: release.histogram(universe, level)
                for universe in release.universes
                if universe.name in tables.universes
            }
            for start in range(0, len(level), _AT_ONCE):
                some = slice(start, start + _AT_ONCE)
                counts = tables.tables({name: whole[some] for name, whole in histograms.items()})
                geocodes = level.geocodes[some]
                texts = {"LEVEL": level.name, "SUMLEV": summary.get(level.name, "")}
                areas = {name: pa.array([text] * len(geocodes), pa.string()) for name, text in texts.items()}
                areas["GEOCODE"] = pa.array(geocodes.tolist(), pa.string())
                for name in tables.names:
                    numbers = zip(column_names(name), map(pa.array, counts[name].T), strict=True)
                    csv.write(name.lower(), pa.table(areas | dict(numbers)))
                if level.name in summary:
                    files.write(summary[level.name], geocodes, counts, None if names is None else names[some])
