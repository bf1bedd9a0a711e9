"""What is stated of a table is done, or it stops: places, levels, cells, households, proofs; tables once misread."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from releases.imported import open_problems
from releases.small import run
from typer.testing import CliRunner

from features.imports.folder import Imported
from features.imports.tables.importer import import_table
from features.imports.tables.statement import TableStatement
from features.registry import part_of
from flows.checks.validation import validate
from flows.cli import app
from pipeline.errors import InputError, SpinewiseError
from pipeline.inputs.geography import read_spine
from pipeline.inputs.names import read_names
from pipeline.publishing.provenance import from_records
from pipeline.records.tabulate import tabulate
from pipeline.spec.release_spec import ReleaseSpec, load_spec

COUNTIES = {"01": "Alder", "02": "Birch"}
TOWNS = {"0101": "Ford", "0102": "Mill <b>", "0201": "Ford", "0202": "=Hill"}


def persons() -> pd.DataFrame:
    """80 persons in four towns."""
    rows = [(town[:2], COUNTIES[town[:2]], town, name, "fm"[i % 3 == 0], 7 * i % 99) for i in range(20)
            for town, name in TOWNS.items()]  # fmt: skip
    return pd.DataFrame(rows, columns=["county", "county_name", "town", "town name", "sex", "age"])


def cells() -> pd.DataFrame:
    return persons().groupby(["county", "town", "sex"], as_index=False).size().rename(columns={"size": "n"})


def imported(folder: Path, table: pd.DataFrame, **stated: Any) -> Imported:
    path = folder / f"table{len(list(folder.iterdir()))}.csv"
    table.to_csv(path, index=False)
    stated = {"expect_records": 80, "expect_areas": 4} | stated
    done = import_table(TableStatement(str(path), **stated), path.with_suffix(""))
    assert open_problems(None, done.spec) == []
    return done


def counts_of(spec: ReleaseSpec, universe: int = 0) -> np.ndarray:
    one = spec.universes()[universe]
    return tabulate(one.require_input(), one.schema, read_spine(spec.geography)).toarray()


def test_names_of_areas(tmp_path: Path) -> None:
    """Beside the codes, of each level for which they are stated; an area with two names stops."""
    stated = {"geography": "county=county_name,town=town name", "records": True, "attributes": "sex"}
    spec = load_spec(imported(tmp_path, persons(), **stated).spec)
    spine = read_spine(spec.geography)
    names = {
        level: dict(zip(spine.level(level).geocodes.tolist(), named.in_language(), strict=True))
        for level, named in read_names(spec.geography, spine).items()
    }
    assert names == {"county": COUNTIES, "town": TOWNS}
    assert spec.provenance is not None
    assert {name: one.source for name, one in spec.provenance.inputs.items()} == {
        "geography": "records", "schema": "records", "names": "records",
    }  # fmt: skip
    twice = persons()
    twice.loc[40, "town name"] = "Forde"
    with pytest.raises(InputError, match=r"column 'town name': area '0101' has the names 'Ford' and 'Forde'"):
        imported(tmp_path, twice, **stated)


def test_the_public_list_of_areas(tmp_path: Path) -> None:
    """Levels above and names are its own; empty areas are in it; an area that it lacks stops."""
    listed = persons()[["county", "county_name", "town"]].drop_duplicates()
    listed.loc[99] = ["02", "Birch", "0203"]
    listed.to_csv(tmp_path / "areas.csv", index=False)
    stated = {
        "geography": "county=county_name,town", "records": True, "attributes": "sex=sex,age=ages broad",
        "areas": str(tmp_path / "areas.csv"),
    }  # fmt: skip
    spec = load_spec(imported(tmp_path, persons()[["town", "sex", "age"]], **stated).spec)
    assert read_spine(spec.geography).n_leaves == 5
    assert counts_of(spec).sum() == 80
    assert spec.provenance is not None
    assert {one.source for one in spec.provenance.inputs.values()} == {"public"}
    listed.iloc[1:].to_csv(tmp_path / "areas.csv", index=False)
    with pytest.raises(InputError, match=r"line 2, column 'town': found '0101', not in .*areas\.csv"):
        imported(tmp_path, persons()[["town", "sex", "age"]], **stated)


def test_what_is_stated_to_be_public_does_not_depend_on_the_records(tmp_path: Path) -> None:
    """With stock lists and a list of areas no public part of the spec changes with a record: missing values neither."""
    persons()[["county", "town"]].drop_duplicates().to_csv(tmp_path / "areas.csv", index=False)
    stated = {
        "geography": "county,town", "records": True, "attributes": "sex=sex,age=ages broad", "missing": "999",
        "areas": str(tmp_path / "areas.csv"), "name": "n", "expect_areas": 4,
    }  # fmt: skip
    other = persons().assign(sex="f")
    other.loc[5, "age"] = 999
    one, two = (load_spec(imported(tmp_path, table, **stated).spec) for table in (persons(), other))
    assert one.public_dict() == two.public_dict()
    with pytest.raises(InputError, match=r"line 7, column 'age': found nothing, .*--missing ''"):
        imported(
            tmp_path, persons().assign(age=["1", "2", "3", "4", "5", "", *["6"] * 74]), **(stated | {"missing": None})
        )


def test_levels_of_one_column(tmp_path: Path) -> None:
    """Codes whose zeros were lost are filled up; what is longer than stated stops."""
    lost = cells().astype({"town": int})
    stated = {"geography": "town", "levels": "county=2,town=4", "zeros": 4, "count": "n", "attributes": "sex"}
    spec = load_spec(imported(tmp_path, lost, **stated).spec)
    assert spec.geography.levels == ("county", "town")
    assert counts_of(spec).tolist() == [[13, 7]] * 4
    with pytest.raises(InputError, match=r"line 2, column 'town': found '101', longer than --zeros 2"):
        imported(tmp_path, lost, **(stated | {"zeros": 2}))
    with pytest.raises(InputError, match=r"--levels says that codes have 4 characters"):
        imported(tmp_path, lost, **(stated | {"zeros": None}))


@pytest.mark.parametrize(
    ("columns", "pattern", "attributes"),
    [
        (["pop_f_0", "pop_f_1", "pop_m_0", "pop_m_1"], "pop_{sex}_{age}", {"sex": ("f", "m"), "age": ("0", "1")}),
        (["f", "m", "both", "d"], "{sex:f|m}", {"sex": ("f", "m")}),
        (["a b c", "a b d", "total", "x"], "a b {kind}", {"kind": ("c", "d")}),
    ],
)
def test_cells_side_by_side(columns: list[str], pattern: str, attributes: dict[str, Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"county": ["01", "01", "02", "02"], "town": list(TOWNS)})
    for name in columns:
        table[name] = rng.integers(20, 50, 4)
    read = [name for name in columns if name.startswith("pop") or name in ("f", "m") or name.startswith("a b")]
    people = int(table[read].to_numpy().sum())
    spec = load_spec(imported(tmp_path, table, geography="county,town", wide=pattern, expect_records=people).spec)
    assert spec.schema_section.attributes == attributes
    assert counts_of(spec).tolist() == table[read].to_numpy().tolist()


def test_equal_names_in_two_counties_are_two_areas(tmp_path: Path) -> None:
    table = persons()
    spec = load_spec(imported(tmp_path, table, geography="county_name,town name", records=True, attributes="sex").spec)
    assert sorted(read_spine(spec.geography).levels[-1].geocodes) == [
        "Alder / Ford", "Alder / Mill <b>", "Birch / =Hill", "Birch / Ford",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"count": "n", "records": True}, "what counts is to be stated by one of"),
        ({"geography": None}, "--geography COLUMN.* is needed"),
        ({"geography": "county,ward"}, "no column 'ward', which the statement names; the columns are county"),
        ({"only": ("sex == x",)}, "--only: no row has 'x' in column 'sex'; its values are f, m"),
        ({"only": ("kind == x",)}, "no column 'kind'"),
        ({"only": ("sex",)}, "--only 'sex': found 'sex'; COLUMN == VALUE"),
        ({"drop_level": "x"}, "--drop-level: there is no --level"),
        ({"level": "county", "drop_level": "03"}, "no row has '03' in column 'county'; its values are 01, 02"),
        ({"households": "h.csv"}, "only records .* belong to households"),
        ({"header": "0"}, "--header: found '0'"),
        ({"levels": "a=4,b=2"}, "--levels: found 'b=2'"),
        ({"attributes": "sex=ages"}, "'ages' is no list; allowed are ages single"),
        ({"attributes": "sex,sex"}, "--attributes: column 'sex' stands twice"),
        ({"attributes": None}, "two rows of the same cell .*line 2 and line 3|line 2 and line 3: two rows"),
        ({"sheet": "a"}, "--sheet: only a workbook"),
        ({"expect_records": None}, "--expect-records N is needed: how many people"),
        ({"expect_records": None, "expect_areas": None}, "--expect-records N and --expect-areas M are needed"),
        ({"unproved": True}, "--unproved: both numbers are stated"),
    ],
)
def test_what_is_wrong_with_a_statement_is_said(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    stated = {"geography": "county,town", "count": "n", "attributes": "sex"} | change
    with pytest.raises(InputError, match=says):
        imported(tmp_path, cells(), **stated)
    assert [path.name for path in tmp_path.iterdir()] == ["table0.csv"]


def test_names_and_values_that_a_spec_does_not_allow(tmp_path: Path) -> None:
    """Columns and values are renamed where the spec's rules ask for it, and still counted one by one."""
    frame = pd.DataFrame(
        {
            "Town code": np.repeat(["a", "b"], 240),
            "total": ["x * y", " x", "x", "geocode"] * 120,
            "1st class?": ["yes", "no", 'qu"ote'] * 160,
            "Sex": ["f", "m"] * 240,
            "sex": ["1", "2", "2"] * 160,
            "all": ["p", "q", "r:moe90"] * 160,
        }
    )
    done = imported(
        tmp_path, frame, geography="Town code", records=True, attributes="total,1st class?,Sex,sex,all",
        expect_records=480, expect_areas=2,
    )  # fmt: skip
    spec = load_spec(done.spec)
    assert spec.geography.levels == ("all", "Town_code")
    assert list(spec.schema_section.attributes) == ["total_2", "a_1st_class", "Sex", "sex_2", "all"]
    assert counts_of(spec).sum() == 480
    assert spec.schema_section.attributes["total_2"] == ("geocode_", "x", "x x y")


@pytest.mark.parametrize(
    ("towns", "alike"),
    [
        (["Ash", "ASH"], "'Ash' and 'ASH'"),
        (["Ash", "A\u200bsh"], "differ only by"),
        (["Köln", "Koln"], "'Köln' and 'Koln'"),
        (["0101", "101"], "'0101' and '101'"),
        (["0101", "0102", "01017", "01025"], "'0101' and '01017'"),
        (["Essen", "Essenbach"], None),
        (["0101", "0102", "01017", "01018"], None),
        (["e\u0301", "é"], None),
    ],
)
def test_two_names_of_one_area_stop(towns: list[str], alike: str | None, tmp_path: Path) -> None:
    """Among the areas of one parent; a combined and a single accent are the same."""
    table = pd.DataFrame({"county": "1", "town": towns * 20})
    n_areas = 1 if towns[1] == "é" else len(towns)
    stated = {"geography": "county,town", "records": True, "attributes": "county", "expect_records": len(table)}
    if alike is None:
        imported(tmp_path, table, **stated, expect_areas=n_areas)
        return
    with pytest.raises(InputError, match=alike):
        imported(tmp_path, table, **stated, expect_areas=n_areas)


def command(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["import", "table", *map(str, words)])
    return (2, str(done.exception)) if isinstance(done.exception, InputError) else (done.exit_code, done.output)


def test_a_recipe_is_run_again(tmp_path: Path) -> None:
    """What was stated stands in it, without the numbers that prove it; it is read by anybody, edited and run again."""
    persons().to_csv(tmp_path / "p.csv", index=False)
    stated = "--geography county,town --records --attributes sex=sex --name a --only"
    options = (*stated.split(), "age != 0")
    n = int((persons()["age"] != 0).sum())
    proof = ("--expect-records", n, "--expect-areas", 4)
    assert command(tmp_path / "p.csv", "--out", tmp_path / "one", *options, *proof)[0] == 0
    recipe = tmp_path / "one" / "import.toml"
    assert tomllib.loads(recipe.read_text()) == {
        "geography": "county,town", "records": True, "attributes": "sex=sex", "only": ["age != 0"], "name": "a",
    }  # fmt: skip
    assert command(tmp_path / "p.csv", "--out", tmp_path / "two", "--recipe", recipe, *proof)[0] == 0
    for name in ("release.toml", "import.toml", "persons.parquet", "areas.parquet"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert "import.toml" not in (tmp_path / "one" / ".gitignore").read_text()
    for text, says in (
        ("geografy = 'a'", "found 'geografy'; allowed are query, sheet"),
        ("zeros = 'a'", "zeros: found 'a'"),
        ("expect-records = 3", "found 'expect-records'"),
        ("a =", "is not a TOML file"),
    ):
        recipe.write_text(text)
        status, told = command(tmp_path / "p.csv", "--out", tmp_path / "three", "--recipe", recipe, *proof)
        assert status == 2
        assert says in told
    assert "what is stated stands in one place" in command(tmp_path / "p.csv", "--recipe", recipe, "--records")[1]


def test_unproved_is_refused_until_it_is_proved(tmp_path: Path) -> None:
    cells().to_csv(tmp_path / "c.csv", index=False)
    options = ("--geography", "county,town", "--count", "n", "--attributes", "sex", "--unproved")
    status, told = command(tmp_path / "c.csv", "--out", tmp_path / "in", *options)
    assert status == 0
    assert "not proved: fill in [input] expect" in told
    spec = tmp_path / "in" / "release.toml"
    text = (
        spec.read_text().replace("# accept = ", "accept = ").replace('rho = "1"', 'rho = "1"\nkey = "insecure-test:1"')
    )
    text += "\n[publish]\nmargins = false\nmicrodata = false\n"
    spec.write_text(text)
    with pytest.raises(InputError, match="unproved"):
        run(spec, tmp_path / "out")
    spec.write_text(text.replace('"unproved"', "{ records = 81, areas = 4 }"))
    with pytest.raises(SpinewiseError, match="tabulate: stopped"):
        run(spec, tmp_path / "wrong")
    (told,) = (path.read_text() for path in (tmp_path / "wrong").rglob("refused.txt"))
    assert "80" in told
    assert "81" in told
    spec.write_text(text.replace('"unproved"', "{ records = 80, areas = 4 }"))
    assert run(spec, tmp_path / "out").is_dir()


LIST = """
[attributes]
age = "ages five-year"
sex = "sex"
works = { values = ["yes", "no", "missing"], column = "job" }
"""


def by_list(folder: Path, text: str, name: str = "in", n_areas: int = 3, **changed: Any) -> ReleaseSpec:
    (folder / "values.toml").write_text(text)
    content: dict[str, list[object]] = {
        "county": ["01", "01", "02", "02"],
        "town": ["0101", "0102", "0201", "0201"],
        "age": [3, 41, "110+", 41],
        "sex": ["f", "M", "1", "female"],
        "job": ["yes", "no", None, "yes"],
    }
    pd.DataFrame(content | changed).to_csv(folder / "persons.csv", index=False)
    areas = pd.DataFrame({"county": ["01", "01", "02", "02"], "town": ["0101", "0102", "0201", "0202"]})
    areas.to_csv(folder / "areas.csv", index=False)
    stated = TableStatement(
        str(folder / "persons.csv"), geography="county,town", records=True, areas=str(folder / "areas.csv"),
        schema=str(folder / "values.toml"), expect_records=4, expect_areas=n_areas,
    )  # fmt: skip
    return load_spec(import_table(stated, folder / name).spec)


def test_the_values_are_those_of_the_list_whoever_is_in_the_records(tmp_path: Path) -> None:
    """One person more, or another, and nothing public changes: neither the areas, nor a value, nor a share."""
    spec = by_list(tmp_path, LIST)
    (universe,) = spec.universes()
    assert [attribute.name for attribute in universe.schema.attributes] == ["age", "sex", "works"]
    assert universe.schema.attributes[0].values[:2] == ("0-4", "5-9")
    assert universe.schema.attributes[0].values[-1] == "100+"
    found = validate(None, tmp_path / "in" / "release.toml")
    assert found.findings == []
    counts = counts_of(spec)
    assert counts.sum(axis=1).tolist() == [1, 1, 2, 0]
    expected = universe.schema.shape
    where = [(0, 0, 0), (8, 1, 1), (20, 1, 2), (8, 0, 0)]
    cells = [(a * expected[1] + b) * expected[2] + c for a, b, c in where]
    assert [counts[leaf, cell] for leaf, cell in zip([0, 1, 2, 2], cells, strict=True)] == [1, 1, 1, 1]
    assert from_records(spec) == ()
    same: dict[str, Any] = {name: [value] * 4 for name, value in (("sex", "m"), ("job", "no"), ("county", "02"))}
    other = by_list(tmp_path, LIST, "other", age=[77, 8, 9, 10], town=["0202"] * 4, n_areas=1, **same)
    assert other.public_dict() == spec.public_dict()
    assert read_spine(other.geography).fingerprint() == read_spine(spec.geography).fingerprint()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LIST.replace(', "missing"', ""), r"attributes\.works: .*, line 4, column 'job': found nothing, which"),
        (LIST.replace('"no", ', ""), r"found 'no', which the list does not have; add it to the list, say with codes"),
        (LIST.replace('"ages five-year"', '"ages"'), r"found 'ages'; a list of values is needed, or one of"),
        (LIST.replace('"job"', '"jobs"'), r"attributes\.works: the table has no column 'jobs'; its columns are county"),
        ("[attribute]", r"it has no \[attributes\]; allowed are \[attributes\] and \[households\]"),
        (LIST.replace("column =", "colum ="), r"found the key 'colum'; allowed are values, column, codes"),
        ("x = ", "is not a TOML file"),
        ('[attributes]\nsex = ["f", "f"]', "a value stands twice"),
    ],
)
def test_what_is_wrong_with_a_list_is_said(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        by_list(tmp_path, text)
    assert not (tmp_path / "in").exists()


STATED: dict[str, Any] = {
    "geography": "county,town",
    "records": True,
    "key": "hh_id",
    "attributes": "age=ages broad,sex,works",
}


def people(n: int = 600) -> pd.DataFrame:
    """Persons in households in towns in counties; codes with leading zeros, an age, a missing value."""
    rng = np.random.default_rng(3)
    household = np.sort(rng.integers(0, n // 3, n))
    town = rng.integers(0, 12, n // 3)[household]
    tenure = rng.choice(["own", "rent"], n // 3)
    return pd.DataFrame(
        {
            "county": [f"{t // 4 + 1:02d}" for t in town],
            "town": [f"{t // 4 + 1:02d}{t % 4:02d}" for t in town],
            "hh_id": [f"H{h:05d}" for h in household],
            "age": rng.integers(0, 100, n),
            "sex": rng.choice(["f", "m"], n),
            "works": np.where(rng.random(n) < 0.1, np.array(None), rng.choice(["yes", "no"], n)),
            "tenure": tenure[household],
        }
    )


def imported_homes(folder: Path, table: pd.DataFrame, name: str = "all", **more: Any) -> ReleaseSpec:
    table.to_csv(folder / f"{name}.csv", index=False)
    stated = STATED | {"expect_records": len(table), "expect_areas": 12} | more
    spec = import_table(TableStatement(str(folder / f"{name}.csv"), **stated), folder / name).spec
    assert open_problems(None, spec) == []
    return load_spec(spec)


def test_one_table_and_two_with_a_key(tmp_path: Path) -> None:
    """Two histograms; every record is counted, in its cell. Apart, persons get the area of their household."""
    frame = people()
    spec = imported_homes(tmp_path, frame, household_attributes="tenure")
    assert {name: len(values) for name, values in spec.schema_section.attributes.items()} == {
        "age": 7, "sex": 2, "works": 3,
    }  # fmt: skip
    persons, homes = counts_of(spec), counts_of(spec, 1)
    expected = frame.assign(works=frame["works"].fillna("missing"))
    expected["age"] = pd.cut(expected["age"], [0, 5, 18, 25, 45, 65, 85, 131], right=False, labels=False)
    cells = expected["age"] * 6 + expected["sex"].map({"f": 0, "m": 1}) * 3
    cells += expected["works"].map({value: i for i, value in enumerate(spec.schema_section.attributes["works"])})
    found = np.zeros_like(persons)
    np.add.at(found, (expected["town"].map(sorted(frame["town"].unique()).index), cells), 1)
    assert np.array_equal(persons, found)
    own = frame[frame["tenure"] == "own"]["hh_id"].nunique()
    assert homes.sum(axis=0).tolist() == [own, frame["hh_id"].nunique() - own]
    frame.drop_duplicates("hh_id")[["hh_id", "county", "town", "tenure"]].to_csv(tmp_path / "homes.csv", index=False)
    two = imported_homes(
        tmp_path, frame[["hh_id", "age", "sex", "works"]], "two", households=str(tmp_path / "homes.csv"),
        household_attributes="tenure",
    )  # fmt: skip
    for universe in (0, 1):
        assert np.array_equal(counts_of(two, universe), counts_of(spec, universe))
    for name in ("persons", "households"):
        assert (tmp_path / "two" / f"{name}.parquet").stat().st_mode & 0o777 == 0o600


def test_households_get_their_size_and_are_joined(tmp_path: Path) -> None:
    """Where nothing is stated of them; not where a person has none."""
    frame = people(n=900)
    spec = imported_homes(tmp_path, frame)
    (join,) = part_of("joins", "keys").stated_joins(spec).joins
    labels = join.households.answer_labels()
    assert (join.persons.name, join.households.name, join.others, labels[-1]) == ("total", "size", False, "7+")
    assert join.most.tolist() == [[*(int(label) for label in labels[:-1]), 20]]
    persons, homes = counts_of(spec), counts_of(spec, 1)
    assert (persons.sum(axis=1) >= homes @ join.least[0]).all()
    assert (persons.sum(axis=1) <= homes @ join.most[0]).all()
    frame.loc[3, "hh_id"] = "none"
    apart = imported_homes(tmp_path, frame, "apart", missing="none")
    assert not part_of("joins", "keys").stated_joins(apart).joins
    assert counts_of(apart, 1).sum() == frame["hh_id"].nunique() - 1


def test_keys_that_do_not_fit(tmp_path: Path) -> None:
    """A person without household, a household twice, and one in two places are refused by name and line."""
    frame = people(60)
    homes = frame.drop_duplicates("hh_id")[["hh_id", "county", "town", "tenure"]]
    homes.iloc[1:].to_csv(tmp_path / "fewer.csv", index=False)
    pd.concat([homes, homes.iloc[:1]]).to_csv(tmp_path / "twice.csv", index=False)
    for file, says in (
        ("fewer.csv", r"line 2, column 'hh_id': found 'H0000\d'; .* of households that are not in"),
        ("twice.csv", r"line 2 and line \d+: household 'H0000\d' stands in two rows; each has one"),
    ):
        with pytest.raises(InputError, match=says):
            imported_homes(
                tmp_path, frame[["hh_id", "age", "sex", "works"]], "p", households=str(tmp_path / file),
                household_attributes="tenure",
            )  # fmt: skip
    frame.loc[1, "hh_id"] = str(frame.loc[0, "hh_id"])
    frame.loc[1, "town"], frame.loc[0, "town"] = "0101", "0102"
    frame.loc[:1, "county"] = "01"
    with pytest.raises(InputError, match=r"line 2 and line 3: household 'H\d+' .* has '0102' and '0101' as the area"):
        imported_homes(tmp_path, frame, "apart", expect_areas=frame["town"].nunique())
    assert not (tmp_path / "apart").exists()


_COUNTS = {"geography": "area", "count": "count", "attributes": "sex"}
#: Case -> file, statement, people, areas.
_EXACT: dict[str, tuple[str, Mapping[str, Any], int, int]] = {
    "age-999": (
        "persons.csv", {"geography": "county", "records": True, "attributes": "sex,age=ages five-year",
        "missing": "999"}, 1200, 12,
    ),
    "country-three-more": (
        "areas.csv", {"geography": "area", "count": "population",
        "only": ("area not in Country, Norfield, Sufford, Wesham",)}, 589_782, 12,
    ),
    "town-begins-like-its-county": (
        "areas.csv", {"geography": "area", "count": "population",
        "only": ("area not in Land, Nord, Sued, Stadtkreis",)}, 28_987, 9,
    ),
    "town-begins-like-its-county-2": (
        "areas.csv", {"geography": "area", "count": "population",
        "only": ("area not in Land, Nord, Sued, Stadtkreis",)}, 49_667, 9,
    ),
    "two-small-towns-alike": (
        "areas.csv", {"geography": "area", "count": "population", "attributes": "sex"}, 8724, 7,
    ),
    "household-minus-one": (
        "persons.csv", {"geography": "region", "records": True, "attributes": "sex", "key": "household_id",
        "missing": "-1"}, 287, 6,
    ),
    "invisible-spaces": ("counts.csv", _COUNTS, 3360, 12),
    "level-column-one-name-twice": (
        "towns.csv", {"geography": "area", "count": "population", "level": "level", "drop_level": "state,county"},
        97_262, 9,
    ),
    "one-district-name-in-two-states": (
        "districts.csv", {"geography": "State,District", "count": "Persons", "attributes": "Sex"}, 18_112, 8,
    ),
    "zeros-lost-everywhere": (
        "kreise.csv", {"geography": "AGS", "levels": "land=2,kreis=5", "zeros": 5, "count": "Einwohner",
        "attributes": "Geschlecht"}, 4711, 7,
    ),
    "zeros-lost-in-some-rows": (
        "kreise.csv", {"geography": "ags", "zeros": 5, "count": "anzahl", "attributes": "geschlecht"}, 7406, 7,
    ),
}  # fmt: skip
_POPULATION = {"geography": "area", "count": "population"}
#: Case -> file, a statement that a hurried user would make, people, areas, and what the message says.
_STOPPED: dict[str, tuple[str, Mapping[str, Any], int, int, str]] = {
    "ages-turned-into-dates": (
        "ages.csv", {"geography": "area", "count": "count", "attributes": "age"}, 2310, 12, "'05-Sep', a date",
    ),
    "invisible-spaces": ("counts.csv", _COUNTS, 3360, 14, "expect-areas|differ only by"),
    "header-one-name-short": ("counts.csv", _COUNTS, 57057, 12, "line 2: the number of fields"),
    "stray-quotes-counts": ("counts.csv", _COUNTS, 57057, 12, "line|fewer than"),
    "stray-quotes-in-a-note": (
        "persons.csv", {"geography": "area", "records": True, "attributes": "sex"}, 600, 3, "line|60 fewer than",
    ),
    "country-three-more": ("areas.csv", _POPULATION, 589785, 15, "more than --expect-records"),
    "town-begins-like-its-county": ("areas.csv", _POPULATION, 28987, 9, "more than --expect-records"),
    "town-begins-like-its-county-2": ("areas.csv", _POPULATION, 49667, 9, "more than --expect-records"),
    "two-small-towns-alike": (
        "areas.csv", {**_POPULATION, "attributes": "sex"}, 8724, 4, "more than --expect-records|two rows|sum|expect",
    ),
    "level-column-one-name-twice": (
        "towns.csv", {**_POPULATION, "level": "level", "drop_level": "state"}, 97262, 9, "several levels",
    ),
    "one-name-in-capitals": ("counts.csv", _COUNTS, 3384, 13, "differ only by case"),
    "zeros-lost-in-some-rows": (
        "kreise.csv", {"geography": "ags", "count": "anzahl", "attributes": "geschlecht"}, 7406, 11, "--zeros",
    ),
    "zeros-lost-everywhere": (
        "kreise.csv",
        {"geography": "AGS", "levels": "land=2,kreis=5", "count": "Einwohner", "attributes": "Geschlecht"},
        4711, 7, "line 2.*'1001'.*--zeros",
    ),
    "household-minus-one": (
        "persons.csv",
        {"geography": "region", "records": True, "attributes": "sex", "key": "household_id"},
        287, 6, "found '-1'.*--missing",
    ),
    "age-999": (
        "persons.csv",
        {"geography": "county", "records": True, "attributes": "sex,age=ages five-year"},
        1200, 12, "line 2, column 'age': found '999'.*--missing 999",
    ),
}  # fmt: skip


def _stated(folder: Path, file: str, statement: Mapping[str, Any], n: int | None, m: int | None) -> TableStatement:
    return TableStatement(str(folder / file), **statement, expect_records=n, expect_areas=m)


def _people(out: Path) -> int:
    table = pq.read_table(out / "persons.parquet")
    return pc.sum(table["count"]).as_py() if "count" in table.column_names else table.num_rows


@pytest.mark.parametrize("case", _EXACT)
def test_right_statement_is_exact_and_a_miss_by_one_stops(case: str, shared_data: Path, tmp_path: Path) -> None:
    file, statement, n, m = _EXACT[case]
    folder, out = shared_data / "import_cases" / case, tmp_path / "out"
    for wrong in ((n + 1, m), (n - 1, m), (n, m + 1), (None, None)):
        with pytest.raises(SpinewiseError, match="expect"):
            import_table(_stated(folder, file, statement, *wrong), out)
        assert not out.exists()
    import_table(_stated(folder, file, statement, n, m), out)
    assert _people(out) == n
    assert pq.read_metadata(out / "areas.parquet").num_rows == m


@pytest.mark.parametrize("case", _STOPPED)
def test_wrong_statement_stops(case: str, shared_data: Path, tmp_path: Path) -> None:
    file, statement, n, m, said = _STOPPED[case]
    with pytest.raises(SpinewiseError, match=said):
        import_table(_stated(shared_data / "import_cases" / case, file, statement, n, m), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_sum_rows_are_named_with_the_option(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("area,sex,n\nA,f,10\nA,m,20\nA,x,30\nB,f,40\nB,m,50\nB,x,90\n", encoding="utf-8")
    statement = {"geography": "area", "count": "n", "attributes": "sex"}
    with pytest.raises(SpinewiseError, match="--only 'sex != x'"):
        import_table(_stated(tmp_path, "t.csv", statement, 240, 2), tmp_path / "out")
    with pytest.raises(SpinewiseError, match=r"120 more than.*leave out the rows with sex == x: --only 'sex != x'"):
        import_table(_stated(tmp_path, "t.csv", statement, 120, 2), tmp_path / "out")
    right = {**statement, "only": ("sex != x",)}
    import_table(_stated(tmp_path, "t.csv", right, 120, 2), tmp_path / "out")
    assert _people(tmp_path / "out") == 120


@pytest.mark.parametrize(
    "cell",
    ["<5", "1-4", "*", "3.967", "", "12.5", "2020-01-01", "-3", "(3)", "1e3", "007", "1,234", "1\u00a0234", "1'234",
     "5 (1)", "5\u00b9", "5 p", "12 %", "..C", "\uff11\uff12", "'5", "NA"],
)  # fmt: skip
def test_a_count_is_a_whole_number(cell: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"area;sex;n\nA;f;1\nA;m;{cell}\n", encoding="utf-8")
    with pytest.raises(SpinewiseError, match=r"t\.csv, line 3, column 'n': found"):
        import_table(
            _stated(tmp_path, "t.csv", {"geography": "area", "count": "n", "attributes": "sex"}, 1, 1), tmp_path / "out"
        )


_SEX = {"geography": "area", "count": "n", "attributes": "sex"}
_WIDE = {"geography": "area", "wide": "{sex:f|m}"}
_TWO_WAYS = {"geography": "area", "wide": "{sex}_{age}"}


@pytest.mark.parametrize(
    ("text", "statement", "said"),
    [
        ("area,sex,n\nA,f,10\n,m,20\n", _SEX, "line 3, column 'area': found nothing"),
        ("area,sex,n\nA,f,10\nA,f,20\n", _SEX, "line 2 and line 3: two rows"),
        ("area,sex,n\nA,f,10\narea,sex,n\nA,m,20\n", _SEX, "line 3, column 'n': found 'n'"),
        ("area,sex,n\nA,f,10\nA,m,20\n\nSource: the office\n", _SEX, "line 5"),
        ("area,sex,n\nA,f,10\nA,m,20\nSource,,\n", _SEX, "line 4, column 'n': found nothing"),
        ("area,sex,n,size\nA,f,10,12\nA,m,15,18\n", _SEX, "--count 'size'"),
        ("area,f,area,m\nA,10,A,20\n", _WIDE, "several columns are named 'area'"),
        ("age,A,B\n0,10,5\n1,8,7\n", {"geography": "age", "wide": "{area}"}, "more than --expect-areas"),
        ("area,m_65_over\nA,30\n", _TWO_WAYS, "can be read as m, 65_over and as m_65, over"),
        ("title\n\narea,f,m\nA,10,20\n", _WIDE, "no column|number of fields"),
        ("freq,sex,geo\\TIME\t2021\nA,f,A\t10\n", {"geography": "geo", "count": "2021"}, "no column 'geo'"),
    ],
)
def test_what_no_statement_makes_right_stops(
    text: str, statement: Mapping[str, Any], said: str, tmp_path: Path
) -> None:
    """Areas written once, heads again in the middle, notes, tables side by side, several columns in one."""
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with pytest.raises(SpinewiseError, match=said):
        import_table(_stated(tmp_path, "t.csv", statement, 30, 1), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_values_of_few_records_reach_no_public_file(tmp_path: Path) -> None:
    rows = ["A,f"] * 30 + ["B,m"] * 30 + ["B,Jane Secret of Ashby"]
    (tmp_path / "p.csv").write_text("area,sex\n" + "\n".join(rows) + "\n", encoding="utf-8")
    out = tmp_path / "out"
    import_table(_stated(tmp_path, "p.csv", {"geography": "area", "records": True, "attributes": "sex"}, 61, 2), out)
    assert "Jane" not in (out / "release.toml").read_text(encoding="utf-8")
    assert "1 value of the records" in (out / "release.toml").read_text(encoding="utf-8")
    private = [path for path in out.iterdir() if b"Jane" in path.read_bytes()]
    assert (out / "values.txt") in private
    assert all(path.stat().st_mode & 0o077 == 0 for path in private)


def _table(rng: np.random.Generator) -> tuple[str, int, int]:
    """A table with rows of all levels and sums, the people in it, and its lowest areas."""
    rows, people, towns = [], 0, 0
    off = int(rng.integers(0, 3))
    for county in range(rng.integers(1, 4)):
        of_county = np.zeros(2, dtype=int)
        for town in range(rng.integers(1, 4)):
            counts = rng.integers(20, 60, 2)
            name = f"C{county}" if town == 0 and rng.random() < 0.3 else f"T{county}{town}"
            rows += [("town", name, sex, n) for sex, n in zip("fm", counts, strict=True)]
            if rng.random() < 0.5:
                rows.append(("town", name, "t", counts.sum()))
            of_county += counts
            towns += 1
        rows += [("county", f"C{county}", sex, n) for sex, n in zip("fm", of_county, strict=True)]
        people += int(of_county.sum())
    rows += [("land", "L", "f", people // 2), ("land", "L", "m", people - people // 2 + off)]
    return "level,area,sex,n\n" + "".join(",".join(map(str, row)) + "\n" for row in rows), people, towns


@pytest.mark.parametrize("numbers", [range(100), pytest.param(range(100, 2_100), marks=pytest.mark.slow)], ids=len)
def test_everybody_or_nothing(numbers: range, tmp_path: Path) -> None:
    """Of random hierarchies under random statements some are read, each with all of its people."""
    n_read = 0
    for number in numbers:
        rng = np.random.default_rng([52, number])
        text, people, towns = _table(rng)
        path = tmp_path / f"{number}.csv"
        path.write_text(text, encoding="utf-8")
        stated: dict[str, Any] = {"geography": "area", "count": "n", "attributes": "sex"}
        if rng.random() < 0.7:
            stated |= {"level": "level", "drop_level": str(rng.choice(["county,land", "land", "county", "town,land"]))}
        if rng.random() < 0.7:
            stated["only"] = (str(rng.choice(["sex != t", "sex in f, m", "level == town and sex != t"])),)
        out = tmp_path / f"out{number}"
        try:
            import_table(TableStatement(str(path), **stated, expect_records=people, expect_areas=towns), out)
        except SpinewiseError:
            assert not out.exists()
            continue
        n_read += 1
        assert pc.sum(pq.read_table(out / "persons.parquet")["count"]).as_py() == people
        shutil.rmtree(out)
    assert n_read > len(numbers) // 20
