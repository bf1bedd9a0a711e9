"""Levels above the areas from further columns and from codes: proven, offered, or stopped; never guessed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features.imports.tables.importer import TableRequest, TableSource, import_table
from features.imports.tables.levels_above import CODINGS, offered_lengths
from features.imports.tables.request import parse_levels
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import roll_up, tabulate
from pipeline.spec.release_spec import load_spec

AREAS = [
    (f"E010{r}{d}{s}07", f"E0600000{3 * r + d}", f"E1200000{r}") for r in range(2) for d in range(3) for s in range(4)
]


def frame(*names: str, codes: Sequence[tuple[str, ...]] | None = None) -> pd.DataFrame:
    """A row for each area, sex and age; the first columns are the codes, the area's first."""
    rows = [(*code, sex, age) for code in codes or AREAS for sex in "FM" for age in ("0-17", "18-64", "65+")]
    table = pd.DataFrame([(*row[: len(names)], *row[-2:]) for row in rows], columns=[*names, "sex", "age"])
    return table.assign(Observation=np.random.default_rng(4).integers(0, 400, len(table)))


def imported(table: pd.DataFrame, folder: Path, **more: object) -> tuple[dict[str, dict[str, int]], list[str]]:
    """The people of every area of every level of the written spec; the messages."""
    table.to_csv(folder / "table.csv", index=False)
    request = TableRequest(TableSource(str(folder / "table.csv")), **more)  # type: ignore[arg-type]
    made = import_table(request, folder / "out")
    spec = load_spec(made.spec)
    spine, universe = read_spine(spec.geography), spec.universes()[0]
    counts = roll_up(spine, tabulate(universe.require_input(), universe.schema, spine))
    decisions = json.loads((folder / "out" / "import.json").read_text())
    assert decisions["geography"]["levels"] == list(spine.level_names)
    assert set(made.messages) <= set(decisions["messages"])
    return {
        level.name: dict(zip(level.geocodes.tolist(), np.asarray(some.sum(axis=1)).ravel().tolist(), strict=True))
        for level, some in zip(spine.levels, counts, strict=True)
    }, list(made.summary)


@pytest.mark.parametrize(
    "names",
    [
        ("LSOA21CD", "LAD23CD", "RGN23CD"),
        ("area_code", "upper_code", "code_above"),
        ("geography code", "authority code", "area group code"),
        ("geography", "parent", "grandparent"),
        ("area", "zone1", "zone2"),
    ],
)
def test_codes_beside_those_of_the_areas_are_levels(names: tuple[str, ...], tmp_path: Path) -> None:
    """Each area above has the people of its areas; the columns may be called what they like, and stand in any order."""
    table = frame(*names)
    people, said = imported(table[[names[2], "sex", names[0], "age", names[1], "Observation"]], tmp_path)
    assert [list(level) for level in people.values()] == [sorted(table[name].unique()) for name in reversed(names)]
    for level, name in zip(people.values(), reversed(names), strict=True):
        assert level == table.groupby(name)["Observation"].sum().to_dict()
    assert any(line.startswith(f"levels: {names[2]} > {names[1]} > {names[0]}") for line in said)


def test_names_of_areas_above_are_levels_where_there_are_no_codes(tmp_path: Path) -> None:
    """District name beside an LSOA code, and no district code: a level, unless a name is in several regions."""
    named = [(code, f"District {above[-1]}", f"Region {top[-1]}") for code, above, top in AREAS]
    people, _ = imported(frame("LSOA code", "District name", "Region name", codes=named), tmp_path)
    assert [len(level) for level in people.values()] == [2, 6, 24]
    assert list(people)[:2] == ["Region_name", "District_name"]


def test_names_used_again_are_no_level(tmp_path: Path) -> None:
    """Three district names, each in both regions: of those that cross, none is a level but the first."""
    named = [(code, f"District {int(above[-1]) % 3}", top) for code, above, top in AREAS]
    people, said = imported(frame("LSOA code", "District name", "Region code", codes=named), tmp_path)
    assert [len(level) for level in people.values()] == [2, 24]
    assert any("'District name' groups the areas in another way" in line for line in said)


@pytest.mark.parametrize("names", [("LSOA21CD", "LAD23CD", "RGN23CD"), ("area_code", "upper_code", "code_above")])
def test_an_area_in_two_areas_above_stops_with_its_code(names: tuple[str, ...], tmp_path: Path) -> None:
    """One row of one area has the code of another district."""
    table = frame(*names)
    table.loc[10, names[1]] = "E06000004"
    with pytest.raises(InputError) as stop:
        imported(table, tmp_path)
    assert ("E06000004" if names[1] == "LAD23CD" else AREAS[1][0]) in str(stop.value)
    assert not (tmp_path / "out").exists()


def test_a_fact_about_areas_is_no_level(tmp_path: Path) -> None:
    """Urban or rural, and a decile, have one value for each area too."""
    table = frame("area")
    number = table["area"].map({code: i for i, (code, *_) in enumerate(AREAS)})
    people, _ = imported(table.assign(kind=np.where(number % 2, "urban", "rural"), decile=number % 7), tmp_path)
    assert list(people) == ["all", "area"]


NESTED = [(f"{p}{m}{t}",) for p in ("11", "12", "34") for m in ("01", "02", "05") for t in ("001", "002")]


def test_first_characters_are_offered_and_not_taken(tmp_path: Path) -> None:
    """Nothing proves that codes are nested; the option that is offered makes the levels."""
    people, said = imported(frame("area", codes=NESTED), tmp_path)
    assert list(people) == ["all", "area"]
    (offer,) = [line for line in said if "nothing proves it" in line]
    assert "--geocode area --levels NAME1=2,NAME2=4,area=7" in offer
    (tmp_path / "again").mkdir()
    levels = parse_levels("NAME1=2,NAME2=4,area=7")
    people, _ = imported(frame("area", codes=NESTED), tmp_path / "again", geocode="area", levels=levels)
    assert [len(level) for level in people.values()] == [3, 9, 18]


@pytest.mark.parametrize(
    ("name", "codes", "sizes"),
    [
        ("municipio", [f"{p:02}{m:03}" for p in (1, 8, 28) for m in range(1, 8)], [3, 21]),
        ("kommune", [f"{f}{k:02}" for f in ("03", "11", "50") for k in range(1, 6)], [3, 15]),
        ("Gemeinde", [f"{k}{g:03}" for k in ("01001", "01002", "09162") for g in range(1, 5)], [2, 3, 12]),
        ("DeSO", [f"{k}{z}00{i}0" for k in ("0114", "0115", "2480") for z in "AC" for i in range(1, 4)], [2, 3, 18]),
    ],
)
def test_known_codings_by_the_columns_name(name: str, codes: list[str], sizes: list[int], tmp_path: Path) -> None:
    """The levels that the coding is documented to have."""
    people, said = imported(frame(name, codes=[(code,) for code in codes]), tmp_path)
    assert [len(level) for level in people.values()] == sizes
    assert any("begin with those of the areas above" in line for line in said)


def test_codes_of_another_length_are_not_of_the_coding(tmp_path: Path) -> None:
    """Dutch municipalities have four digits that are not nested, and no name of a coding; seven digits are no AGS."""
    for number, name in enumerate(("gemeente", "AGS")):
        (tmp_path / name).mkdir()
        codes = [(f"{i * 37 + 14:0{4 + 3 * number}}",) for i in range(24)]
        people, _ = imported(frame(name, codes=codes), tmp_path / name)
        assert list(people) == ["all", name]


def test_codes_that_only_count_are_not_offered() -> None:
    """Consecutive numbers begin anew at every power of ten; that says nothing."""
    assert offered_lengths([f"E01{i:06}" for i in range(34_753)]) == {}
    assert offered_lengths([f"{i:03}" for i in range(714)]) == {}
    assert offered_lengths([code for (code,) in NESTED]) == {2: 3, 4: 9}


def test_codings_rise() -> None:
    """Every coding has lengths from the top down, and names of levels that are all different."""
    for coding in CODINGS:
        lengths = list(coding.levels.values())
        assert lengths == sorted(set(lengths))
