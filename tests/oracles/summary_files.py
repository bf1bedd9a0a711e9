"""Writes P.L. 94-171 summary files of a made-up state from known persons, line by line as documented."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

RACES = [set(c) for size in range(1, 7) for c in itertools.combinations(range(6), size)]


@dataclass
class Block:
    """Code of 15 digits, persons `(2, 2, 63)` by voting age, Hispanic origin and race; the rest by line."""

    code: str
    persons: np.ndarray
    units: tuple[int, int] = (0, 0)
    quarters: tuple[int, ...] = (0,) * 7
    place: str = "99999"
    area: str = "9999"


@dataclass
class State:
    """A state's blocks, and the names of its places and areas by code."""

    blocks: list[Block]
    names: dict[str, str] = field(default_factory=dict)


def made_up_state(seed: int, n_blocks: int = 24) -> State:
    """Two counties, some empty blocks; place 12345 and area 0042 cross block groups."""
    rng = np.random.default_rng(seed)
    blocks = []
    for number in range(n_blocks):
        code = f"99{1 + 2 * (number % 2):03d}{100 * (1 + number // 8):06d}{1 + number // 4 % 2}{number:03d}"
        rates = rng.gamma(0.05, 6.0, (2, 2, 63)) * (rng.random() < 0.8)
        persons = rng.poisson(rates)
        quarters = tuple(int(q) for q in rng.multinomial(int(persons.sum()) // 3, np.full(7, 1 / 7)))
        units = int(rng.integers(0, 9)), int(rng.integers(0, 3))
        place = "12345" if number % 3 == 0 else "99999"
        blocks.append(Block(code, persons, units, quarters, place, "0042" if number % 5 == 0 else "9999"))
    return State(blocks, {"12345": "Doña Ana city", "0042": "A Reservation"})


def race_table(counts: np.ndarray) -> list[int]:
    """The 71 lines of a table of races, `counts` (63,)."""
    of_size = [[int(c) for c, race in zip(counts, RACES, strict=True) if len(race) == size] for size in range(1, 7)]
    total = int(counts.sum())
    lines = [total, sum(of_size[0]), *of_size[0], total - sum(of_size[0])]
    for several in of_size[1:]:
        lines += [sum(several), *several]
    return lines


def tables(block: Block) -> dict[str, list[int]]:
    """All lines of all tables of one area."""
    everybody, adults = block.persons.sum(axis=0), block.persons[1]
    q = block.quarters
    return {
        "P1": race_table(everybody.sum(axis=0)),
        "P2": [int(everybody.sum()), int(everybody[1].sum()), *race_table(everybody[0])],
        "P3": race_table(adults.sum(axis=0)),
        "P4": [int(adults.sum()), int(adults[1].sum()), *race_table(adults[0])],
        "H1": [sum(block.units), *block.units],
        "P5": [sum(q), sum(q[:4]), *q[:4], sum(q[4:]), *q[4:]],
    }


def added(code: str, blocks: list[Block]) -> Block:
    """The area that consists of these blocks."""
    units = tuple(int(n) for n in np.sum([b.units for b in blocks], axis=0))
    quarters = tuple(int(n) for n in np.sum([b.quarters for b in blocks], axis=0))
    return Block(code, np.sum([b.persons for b in blocks], axis=0), (units[0], units[1]), quarters)


def records(state: State) -> list[tuple[str, Block, dict[str, str]]]:
    """Summary level, area and header fields of each record."""
    found = []
    for level, width in (("040", 2), ("050", 5), ("140", 11), ("150", 12)):
        for code in sorted({b.code[:width] for b in state.blocks}):
            inside = [b for b in state.blocks if b.code.startswith(code)]
            found.append((level, added(code, inside), {"NAME": f"Area {code}"}))
    for level, attribute, name in (("160", "place", "PLACE"), ("280", "area", "AIANHH")):
        for code in sorted({getattr(b, attribute) for b in state.blocks} - {"99999", "9999"}):
            inside = [b for b in state.blocks if getattr(b, attribute) == code]
            fields = {name: code, "NAME": state.names.get(code, "")}
            found.append((level, added(inside[0].code[:2], inside), fields))
    for block in sorted(state.blocks, key=lambda b: b.code):
        found.append(("750", block, {"PLACE": block.place, "AIANHH": block.area, "NAME": "Block"}))
    return found


def header_fields(level: str, area: Block, more: Mapping[str, str], number: int) -> dict[str, str]:
    code = area.code
    fields = {"STUSAB": "ZZ", "SUMLEV": level, "GEOCOMP": "00", "LOGRECNO": f"{number:07d}", "STATE": code[:2]}
    for name, start, end in (("COUNTY", 2, 5), ("TRACT", 5, 11), ("BLKGRP", 11, 12)):
        if len(code) >= end:
            fields[name] = code[start:end]
    if len(code) == 15:
        fields["BLOCK"] = code[11:15]
    return {**fields, "POP100": str(area.persons.sum()), "HU100": str(sum(area.units)), **more}


def write_2020(state: State, folder: Path) -> Path:
    """The four files, fields between pipes."""
    places = {
        "STUSAB": 1, "SUMLEV": 2, "GEOCOMP": 4, "LOGRECNO": 7, "STATE": 12, "COUNTY": 14, "PLACE": 29, "TRACT": 32,
        "BLKGRP": 33, "BLOCK": 34, "AIANHH": 35, "NAME": 87, "POP100": 90, "HU100": 91,
    }  # fmt: skip

    def line_of(fields: Mapping[str, str]) -> str:
        record = ["PLST", *[""] * 96]
        for name, value in fields.items():
            record[places[name]] = value
        return "|".join(record) + "\n"

    return _written(state, folder, "2020", line_of, "|", {1: ("P1", "P2"), 2: ("P3", "P4", "H1"), 3: ("P5",)})


def write_2010(state: State, folder: Path) -> Path:
    """The three files of 2010: a header in fixed columns, segments with commas, no group quarters."""
    columns = {
        "STUSAB": 7, "SUMLEV": 9, "GEOCOMP": 12, "LOGRECNO": 19, "STATE": 28, "COUNTY": 30, "PLACE": 46, "TRACT": 55,
        "BLKGRP": 61, "BLOCK": 62, "AIANHH": 77, "NAME": 227, "POP100": 319, "HU100": 328,
    }  # fmt: skip

    def line_of(fields: Mapping[str, str]) -> str:
        line = [*"PLST  ", *" " * 494]
        for name, value in fields.items():
            text = value.rjust(9) if name in ("POP100", "HU100") else value
            line[columns[name] - 1 : columns[name] - 1 + len(text)] = text
        return "".join(line) + "\r\n"

    return _written(state, folder, "2010", line_of, ",", {1: ("P1", "P2"), 2: ("P3", "P4", "H1")})


def _written(
    state: State,
    folder: Path,
    year: str,
    line_of: Callable[[Mapping[str, str]], str],
    separator: str,
    of_segment: Mapping[int, tuple[str, ...]],
) -> Path:
    """The header with a line a record, and the segments with the numbers of some tables each."""
    folder.mkdir(parents=True)
    geo, segments = "", dict.fromkeys(of_segment, "")
    for number, (level, area, more) in enumerate(records(state), 1):
        geo += line_of(header_fields(level, area, more, number))
        numbers = tables(area)
        for segment, names in of_segment.items():
            start = ["PLST", "ZZ", "000", f"{segment:02d}", f"{number:07d}"]
            segments[segment] += separator.join([*start, *(str(n) for name in names for n in numbers[name])]) + "\n"
    (folder / f"zzgeo{year}.pl").write_bytes(geo.encode("latin-1"))
    for segment, lines in segments.items():
        (folder / f"zz{segment:05d}{year}.pl").write_text(lines)
    return folder
