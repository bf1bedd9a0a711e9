"""Where records are: lookup tables, codes that are used again, prefix lengths and grids; nobody gets lost or moved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.imported import open_problems
from typer.testing import CliRunner

from features.imports.tables.grid import GridRequest, cell_code, cell_of_point, cells_of_codes
from features.imports.tables.importer import TableRequest, TableSource, import_table
from features.imports.tables.level_names import is_label, rank
from flows.cli import app
from geography.spine import Spine
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import roll_up, tabulate
from pipeline.spec.release_spec import ReleaseSpec, load_spec


def imported(out: Path, source: Path, **more: object) -> ReleaseSpec:
    """The spec of an import, found valid for its own records."""
    spec = load_spec(import_table(TableRequest(TableSource(str(source)), **more), out).spec)  # type: ignore[arg-type]
    assert open_problems(None, out / "release.toml") == []
    return spec


def people_by_area(spec: ReleaseSpec) -> list[dict[str, int]]:
    """The people of every geounit of every level, the top first."""
    spine: Spine = read_spine(spec.geography)
    universe = spec.universes()[0]
    levels = roll_up(spine, tabulate(universe.require_input(), universe.schema, spine))
    return [
        dict(zip(level.geocodes.tolist(), np.asarray(counts.sum(axis=1)).ravel().tolist(), strict=True))
        for level, counts in zip(spine.levels, levels, strict=True)
    ]


def english_areas() -> pd.DataFrame:
    """A lookup as offices publish it: codes and names of four levels, from the leaf up, in any order."""
    oas = [f"E00{i:03d}" for i in range(48)]
    frame = pd.DataFrame({"oa21cd": oas})
    for name, every in (("lsoa21", 4), ("msoa21", 12), ("lad22", 24)):
        frame[f"{name}cd"] = [f"{name[0].upper()}{i // every:03d}" for i in range(48)]
        frame[f"{name}nm"] = [f"{name.upper()} number {i // every}" for i in range(48)]
    frame["rgn22cd"] = "R1"
    frame["ObjectId"] = range(48)
    return frame.sample(frac=1, random_state=1)


@pytest.mark.parametrize("code", ["oa21cd", "area", "OA code"])
def test_a_lookup_gives_the_hierarchy(code: str, tmp_path: Path) -> None:
    """Records have a leaf code only, under whatever name; every area above has its people."""
    areas = english_areas()
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({code: rng.choice(areas["oa21cd"].to_numpy()[:40], 900), "sex": rng.choice(["f", "m"], 900)})
    frame.to_csv(tmp_path / "people.csv", index=False)
    areas.to_csv(tmp_path / "lookup.csv", index=False)
    spec = imported(tmp_path / "out", tmp_path / "people.csv", areas=tmp_path / "lookup.csv")
    assert list(spec.geography.levels) == ["rgn22cd", "lad22cd", "msoa21cd", "lsoa21cd", "oa21cd"]
    joined = frame.merge(areas, left_on=code, right_on="oa21cd", suffixes=("", "_"))
    for level, found in zip(spec.geography.levels, people_by_area(spec), strict=True):
        assert {area: n for area, n in found.items() if n} == joined.groupby(str(level)).size().to_dict()
    assert len(people_by_area(spec)[-1]) == 48, "areas without records are there"


def test_a_lookup_that_does_not_know_a_code(tmp_path: Path) -> None:
    areas = english_areas()
    areas.to_csv(tmp_path / "lookup.csv", index=False)
    frame = pd.DataFrame({"oa21cd": [*areas["oa21cd"], "E99", "E99"], "sex": ["f", "m"] * 25})
    frame.to_csv(tmp_path / "people.csv", index=False)
    with pytest.raises(InputError, match=r"column 'oa21cd': 1 code in 2 rows is not in .*lookup.csv: 'E99'"):
        imported(tmp_path / "out", tmp_path / "people.csv", areas=tmp_path / "lookup.csv")


def test_a_lookup_whose_levels_cross(tmp_path: Path) -> None:
    """Wards and districts that cross are asked about; the answer is taken, and what is left out is said."""
    areas = english_areas().assign(ward=lambda frame: "W" + (frame["oa21cd"].str[3:].astype(int) // 5).astype(str))
    areas.to_csv(tmp_path / "lookup.csv", index=False)
    pd.DataFrame({"oa21cd": [*areas["oa21cd"]] * 2, "sex": ["f", "m"] * 48}).to_csv(tmp_path / "p.csv", index=False)
    with pytest.raises(InputError, match=r"cross each other: .* name the levels from the top down: --geography"):
        imported(tmp_path / "out", tmp_path / "p.csv", areas=tmp_path / "lookup.csv")
    spec = imported(
        tmp_path / "out", tmp_path / "p.csv", areas=tmp_path / "lookup.csv", geography=("rgn22cd", "ward", "oa21cd")
    )
    assert spec.geography.levels == ("rgn22cd", "ward", "oa21cd")
    assert sum(people_by_area(spec)[1].values()) == 96


def test_zeros_that_a_lookup_has(tmp_path: Path) -> None:
    """Codes that lost their zeros find their area."""
    areas = pd.DataFrame({"ags": [f"0{i}001" for i in range(1, 9)], "land": [f"0{i // 5}" for i in range(1, 9)]})
    areas.to_csv(tmp_path / "lookup.csv", index=False)
    frame = pd.DataFrame({"ags": np.repeat([int(code) for code in areas["ags"]], 10), "sex": ["f", "m"] * 40})
    frame.to_csv(tmp_path / "p.csv", index=False)
    spec = imported(tmp_path / "out", tmp_path / "p.csv", areas=tmp_path / "lookup.csv")
    assert people_by_area(spec) == [{"00": 40, "01": 40}, dict.fromkeys(areas["ags"], 10)]


def test_codes_that_are_used_again(tmp_path: Path) -> None:
    """County 001 is in every state, block group 1 in every tract: the code is all of them, and no level is skipped."""
    rows = [
        (f"{s:02d}", f"{c:03d}", f"{t:06d}", str(b))
        for s in (1, 2, 3) for c in (1, 3, 5) for t in (100, 200) for b in (1, 2)
    ]  # fmt: skip
    frame = pd.DataFrame(rows * 30, columns=["state", "county", "tract", "block_group"])
    frame["sex"] = ["f", "m", "f"] * (len(frame) // 3)
    frame.to_csv(tmp_path / "p.csv", index=False)
    spec = imported(tmp_path / "out", tmp_path / "p.csv")
    levels = people_by_area(spec)
    assert [len(level) for level in levels] == [3, 9, 18, 36]
    assert set(levels[3].values()) == {30}
    assert levels[1]["01003"] == 120
    assert "020050001002" in levels[3]
    assert list(spec.schema_section.attributes) == ["sex"]


def test_a_mistake_is_no_code_that_is_used_again(tmp_path: Path) -> None:
    """One town of many with a wrong county stops the import; nothing is skipped and nobody is moved."""
    frame = pd.DataFrame({"county": np.repeat(["01", "02"], 60), "town": [f"{i // 4:03d}" for i in range(120)]})
    frame["sex"] = ["f", "m"] * 60
    frame.loc[0, "county"] = "02"
    frame.to_csv(tmp_path / "p.csv", index=False)
    with pytest.raises(InputError, match=r"1 value of 'town' is in several of 'county', first '000'"):
        imported(tmp_path / "out", tmp_path / "p.csv")
    spec = imported(tmp_path / "out", tmp_path / "p.csv", ignore=("county",))
    assert spec.geography.levels == ("all", "town")
    spec = imported(tmp_path / "b", tmp_path / "p.csv", attributes=("county",))
    assert list(spec.schema_section.attributes) == ["county", "sex"]


def test_prefix_lengths_on_the_command_line(tmp_path: Path) -> None:
    """Codes of no known kind become levels by their first characters, as the option says."""
    frame = pd.DataFrame({"zone": [f"A{i % 2}B{i % 6}" for i in range(240)], "sex": ["f", "m", "f"] * 80})
    frame.to_csv(tmp_path / "p.csv", index=False)
    arguments = ["import", "table", str(tmp_path / "p.csv"), "--out", str(tmp_path / "out")]
    shown = CliRunner().invoke(app, [*arguments, "--geocode", "zone", "--levels", "big=2,small=4"])
    assert shown.exit_code == 0, shown.exception
    spec = load_spec(tmp_path / "out" / "release.toml")
    assert people_by_area(spec) == [{"A0": 120, "A1": 120}, {f"A{i % 2}B{i}": 40 for i in range(6)}]
    for levels in ("big=2,small=5", "big=4,small=2", "big", "big=x"):
        shown = CliRunner().invoke(app, [*arguments[:4], str(tmp_path / "b"), "--geocode", "zone", "--levels", levels])
        assert isinstance(shown.exception, InputError)
        assert "--levels" in str(shown.exception)


@pytest.mark.parametrize(
    ("name", "rank_of"),
    [
        ("lsoa21cd", "lsoa"), ("MSOA11CD", "msoa"), ("lad22cd", "ltla"), ("LTLA", "lad"), ("nuts3", "state"),
        ("NUTS_3"[:4] + "3", "nuts3"), ("Gemeinde", "municipio"), ("Gemeindeschlüssel"[:8], "commune"),
        ("Município", "comune"), ("dguid", "dguid"), ("oa_2011", "oa"), ("GEMEINDE_NR", "gemeinde"),
        ("kommune", "gmina"),
    ],
)  # fmt: skip
def test_names_of_many_countries(name: str, rank_of: str) -> None:
    """A name with its year, its case, its accents and "code" is the level's."""
    assert rank(name) == rank(rank_of) is not None


def test_names_for_people_are_no_levels() -> None:
    assert all(map(is_label, ("lsoa21nm", "lad22nm", "county_name", "Gemeinde Name", "nom_commune", "LADNM")))
    assert not any(map(is_label, ("lsoa21cd", "name", "surname", "income", "country")))


# Grids


def test_a_grid_of_coordinates(tmp_path: Path) -> None:
    """Each person lies in the cell that contains the point, and four cells make one of the level above."""
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"e": rng.uniform(-900, 2500, 500).round(2), "n": rng.uniform(5000, 7900, 500).round(2)})
    frame["sex"] = rng.choice(["f", "m"], 500)
    frame.to_csv(tmp_path / "p.csv", index=False)
    spec = imported(tmp_path / "out", tmp_path / "p.csv", grid=GridRequest.parse("e,n:500"))
    levels = people_by_area(spec)
    for up, found in enumerate(reversed(levels)):
        size = 500 * 2**up
        rows = np.floor(frame["n"] / size).astype(int), np.floor(frame["e"] / size).astype(int)
        expected = pd.Series([cell_code(size, n * size, e * size) for n, e in zip(*rows, strict=True)]).value_counts()
        assert found == expected.to_dict()
    assert len(levels[0]) <= 4


def test_a_grid_of_inspire_cells(tmp_path: Path) -> None:
    """The cells keep their codes; the list of all cells brings the empty ones."""
    cells = [f"1kmN{n}E{e}" for n in range(2600, 2604) for e in range(4000, 4004)]
    frame = pd.DataFrame({"cell": cells[:12] * 9, "sex": ["f", "m", "f"] * 36})
    frame.to_csv(tmp_path / "p.csv", index=False)
    pd.DataFrame({"cell": cells}).to_csv(tmp_path / "all.csv", index=False)
    given = {"grid": GridRequest.parse("cell"), "areas": tmp_path / "all.csv"}
    spec = imported(tmp_path / "out", tmp_path / "p.csv", **given)
    levels = people_by_area(spec)
    assert [len(level) for level in levels] == [1, 4, 16]
    assert levels[0] == {"4kmN2600E4000": 108}
    assert levels[1] == {"2kmN2600E4000": 36, "2kmN2600E4002": 36, "2kmN2602E4000": 18, "2kmN2602E4002": 18}
    assert levels[2] == {cell: 9 if cell in cells[:12] else 0 for cell in cells}


@pytest.mark.parametrize(
    ("code", "size", "cell"),
    [
        ("1kmN2599E4695", 1000, (2599, 4695)),
        ("CRS3035RES1000mN2599000E4695000", 1000, (2599, 4695)),
        ("100mN25991E46958", 100, (25991, 46958)),
        ("CRS3035RES100mN2599100E4695800", 100, (25991, 46958)),
        ("10kmN259E469", 10_000, (259, 469)),
        ("250mN10725E46950", 250, (429, 1878)),
    ],
)
def test_inspire_codes(code: str, size: int, cell: tuple[int, int]) -> None:
    """Short codes leave out the zeros, long ones do not; both are the same cell."""
    assert cells_of_codes([code], "x") == (size, [cell])


def test_points_on_a_border() -> None:
    """A point on a border lies in the cell that begins there, left of zero too, whatever the fraction's digits."""
    assert cell_of_point("100", "-100", 100) == (-1, 1)
    assert cell_of_point("99.999999999999999999", "-0.0000000000001", 100) == (-1, 0)
    assert cell_of_point("-100,5", "0", 100) == (0, -2)
    assert cell_of_point("", "1", 100) is None


@pytest.mark.parametrize("text", ["x,y", "x:0", "x,y:a", "a,b,c:5", ""])
def test_grids_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="--grid: found"):
        GridRequest.parse(text)
