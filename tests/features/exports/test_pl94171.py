"""Tables P1 to P5 and H1 against counting persons one by one; files in the layout that the Bureau's are in."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from features.exports.pl94171 import VALUES, CensusTables, SummaryFiles, census_levels, column_names
from geography.build import spine_from_prefixes
from pipeline.errors import InputError
from pipeline.exchange.pl94171_tables import GEO_HEADER, SINGLE_RACES
from pipeline.model.universe import Universe
from pipeline.spec.release_spec import parse_spec

SPEC = """
name = "t"
privacy = { rho = "1" }
geography = { file = "b.csv", levels = ["block"] }
strategy = { queries = { total = "1" }, levels = { block = "1" } }
[schema.attributes]
ATTRIBUTES
"""


def universe(attributes: dict[str, tuple[str, ...]], name: str = "") -> Universe:
    text = SPEC.replace("ATTRIBUTES", "\n".join(f"{key} = {list(values)}" for key, values in attributes.items()))
    (found,) = parse_spec(text).universes()
    return replace(found, name=name)


def test_tables_equal_counting_one_by_one() -> None:
    """The attributes stand in another order, and the values of two of them too."""
    rng = np.random.default_rng(1)
    attributes = {
        "cenrace": VALUES["cenrace"],
        "hhgq": tuple(reversed(VALUES["hhgq"])),
        "hispanic": ("hispanic", "not_hispanic"),
        "votingage": VALUES["votingage"],
    }
    main = universe(attributes)
    units = universe({"occupancy": ("vacant", "occupied")}, "units")
    tables = CensusTables.of([main, units])
    assert tables.names == ("P1", "P2", "P3", "P4", "P5", "H1")
    cells = main.schema.n_cells
    counts = rng.integers(0, 4, (3, cells)) * (rng.random((3, cells)) < 0.2)
    housing = np.array([[2, 5], [0, 0], [1, 0]])
    histograms = {"": sp.csr_array(counts), "units": sp.csr_array(housing)}
    found = tables.tables({name: sp.csr_array(one, dtype=np.int64) for name, one in histograms.items()})
    codes = main.schema.cell_codes()
    for row in range(3):
        expected = {name: np.zeros(len(column_names(name)), dtype=int) for name in found}
        for cell in np.flatnonzero(counts[row]):
            race, quarter, hispanic, age = (list(attributes.values())[j][codes[cell, j]] for j in range(4))
            number = int(counts[row, cell])
            for prefix, counted in (("P1", True), ("P3", age == "18plus")):
                if not counted:
                    continue
                lines = race_lines(race)
                expected[prefix][lines] += number
                second = "P2" if prefix == "P1" else "P4"
                expected[second][0] += number
                if hispanic == "hispanic":
                    expected[second][1] += number
                else:
                    expected[second][[2, *(line + 2 for line in lines if line)]] += number
            if quarter != "household":
                place = VALUES["hhgq"].index(quarter)
                expected["P5"][[0, 1 if place <= 4 else 6, place + 1 if place <= 4 else place + 2]] += number
        expected["H1"][:] = [housing[row].sum(), housing[row, 1], housing[row, 0]]
        for name, table in found.items():
            assert table[row].tolist() == expected[name].tolist(), name


def race_lines(race: str) -> list[int]:
    """The lines of table P1 that a person of these races counts in."""
    some = tuple(race.split("_"))
    starts = {1: 1, 2: 9, 3: 25, 4: 46, 5: 62, 6: 69}
    place = list(combinations(SINGLE_RACES, len(some))).index(some)
    group = starts[len(some)]
    return [0, group, group + 1 + place] if len(some) == 1 else [0, 8, group, group + 1 + place]


def test_what_the_tables_are_made_of_is_told() -> None:
    with pytest.raises(InputError, match="has no attribute votingage, hispanic, cenrace; tables P1 to P4"):
        CensusTables.of([universe({"age": ("a", "b")})])
    few = {**{name: VALUES[name] for name in ("votingage", "hispanic")}, "cenrace": ("a", "b")}
    with pytest.raises(InputError, match="cenrace: found 2 values; the layout of 2020 has 63"):
        CensusTables.of([universe(few)])
    quarters = universe({"type": VALUES["hhgq"][1:]}, "quarters")
    main = universe({name: VALUES[name] for name in ("votingage", "hispanic", "cenrace")})
    assert CensusTables.of([main]).names == ("P1", "P2", "P3", "P4")
    assert CensusTables.of([main, quarters]).universes == ("", "quarters")


def test_summary_files_have_the_layout_of_2020(tmp_path: Path) -> None:
    blocks = ["440070001011000", "440070001011001", "440070001022000", "100010001011000"]
    spine = spine_from_prefixes(blocks, {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15})
    levels = census_levels(spine)
    assert levels == {"state": "040", "county": "050", "tract": "140", "block_group": "150", "block": "750"}
    assert census_levels(spine_from_prefixes(["abc"], {"a": 1, "b": 3})) == {}
    rng = np.random.default_rng(0)
    with SummaryFiles(tmp_path, ("P1", "P2", "P3", "P4", "P5")) as files:
        for level in spine.levels:
            tables = {
                name: rng.integers(0, 9, (len(level), len(column_names(name))))
                for name in ("P1", "P2", "P3", "P4", "P5")
            }
            files.write(levels[level.name], level.geocodes, tables)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{state}{part}2020.pl" for state in ("de", "ri") for part in ("00001", "00002", "00003", "geo")
    ]
    header = [line.split("|") for line in (tmp_path / "rigeo2020.pl").read_text().splitlines()]
    assert {len(line) for line in header} == {len(GEO_HEADER)} == {97}
    last = dict(zip(GEO_HEADER, header[-1], strict=True))
    assert (last["GEOID"], last["TRACT"], last["BLKGRP"], last["BLOCK"]) == (
        "7500000US440070001022000",
        "000102",
        "2",
        "2000",
    )
    numbers = [line[GEO_HEADER.index("LOGRECNO")] for line in header]
    assert numbers == [f"{number:07d}" for number in range(1, len(header) + 1)]
    for segment, width in ((1, 71 + 73), (2, 71 + 73 + 3), (3, 10)):
        lines = [line.split("|") for line in (tmp_path / f"ri0000{segment}2020.pl").read_text().splitlines()]
        assert [line[4] for line in lines] == numbers
        assert {len(line) for line in lines} == {5 + width}
    assert lines[0][:4] == ["PLST", "RI", "000", "03"]
