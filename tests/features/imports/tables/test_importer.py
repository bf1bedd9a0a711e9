"""Tables as they come: what is guessed is what was meant, is told, and makes a spec that counts every record."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.imported import open_problems

from features.imports.tables.importer import TableRequest, TableSource, import_table
from features.registry import part_of
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import tabulate
from pipeline.spec.release_spec import ReleaseSpec, load_spec, parse_spec


def imported(out: Path, source: object, query: str | None = None, **more: object) -> ReleaseSpec:
    """The spec of an import, found valid for its own records."""
    request = TableRequest(TableSource(str(source), query), **more)  # type: ignore[arg-type]
    spec = load_spec(import_table(request, out).spec)
    assert spec.input is not None
    assert isinstance(spec.input.file, Path)
    assert open_problems(spec.input.file, out / "release.toml") == []
    return spec


def counts_of(spec: ReleaseSpec, universe: int = 0) -> np.ndarray:
    """The leaves' histograms, dense."""
    one = spec.universes()[universe]
    return tabulate(one.require_input(), one.schema, read_spine(spec.geography)).toarray()


def people(n: int = 600, seed: int = 3) -> pd.DataFrame:
    """Persons in households in towns in counties; codes with leading zeros, an age, a missing value, an identifier."""
    rng = np.random.default_rng(seed)
    household = np.sort(rng.integers(0, n // 3, n))
    town_of = rng.integers(0, 12, n // 3)
    tenure = rng.choice(["own", "rent"], n // 3)
    town = town_of[household]
    return pd.DataFrame(
        {
            "county": [f"{t // 4 + 1:02d}" for t in town],
            "town": [f"{t // 4 + 1:02d}{t % 4:02d}" for t in town],
            "hh_id": [f"H{h:05d}" for h in household],
            "person_id": range(n),
            "age": rng.integers(0, 100, n),
            "sex": rng.choice(["f", "m"], n),
            "works": np.where(rng.random(n) < 0.1, np.array(None), rng.choice(["yes", "no"], n)),
            "tenure": tenure[household],
            "planet": "earth",
        }
    )


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_persons_in_households(ending: str, tmp_path: Path) -> None:
    """One table of persons gives two histograms; identifiers and constants are left out; every record is counted."""
    frame = people()
    path = tmp_path / f"people.{ending}"
    frame.to_parquet(path) if ending == "parquet" else frame.to_csv(path, index=False)
    spec = imported(tmp_path / "out", path)
    text, _, report = (tmp_path / "out" / "release.toml").read_text("utf-8").partition("# [report]")
    filled = parse_spec(text + "[report]" + report.replace("\n# ", "\n"))
    assert (spec.about.publisher, filled.about.publisher) == ("", "Statistics Office")
    assert spec.geography.levels == ("county", "town")
    assert {name: len(values) for name, values in spec.schema_section.attributes.items()} == {
        "age": 7, "sex": 2, "works": 3,
    }  # fmt: skip
    households = spec.companions["households"]
    assert dict(households.schema_section.attributes) == {"tenure": ("own", "rent")}
    persons, homes = counts_of(spec), counts_of(spec, 1)
    towns = sorted(frame["town"].unique())
    expected = frame.assign(works=frame["works"].fillna("missing"))
    expected["age"] = pd.cut(expected["age"], [0, 5, 18, 25, 45, 65, 85, 131], right=False, labels=False)
    cells = expected["age"] * 6 + expected["sex"].map({"f": 0, "m": 1}) * 3
    cells += expected["works"].map({"no": 0, "yes": 1, "missing": 2})
    found = np.zeros_like(persons)
    np.add.at(found, (expected["town"].map(towns.index), cells), 1)
    assert np.array_equal(persons, found)
    assert homes.sum() == frame["hh_id"].nunique()
    assert homes[:, 0].sum() == frame[frame["tenure"] == "own"]["hh_id"].nunique()


def test_two_tables_with_a_key(tmp_path: Path) -> None:
    """Persons get the area of their household; the two histograms are those of the one table."""
    frame = people()
    homes = frame.drop_duplicates("hh_id")[["hh_id", "county", "town", "tenure"]]
    frame[["hh_id", "person_id", "age", "sex", "works"]].to_csv(tmp_path / "persons.csv", index=False)
    homes.to_csv(tmp_path / "homes.csv", index=False)
    frame.to_csv(tmp_path / "all.csv", index=False)
    two = imported(tmp_path / "two", tmp_path / "persons.csv", households=TableSource(str(tmp_path / "homes.csv")))
    one = imported(tmp_path / "one", tmp_path / "all.csv")
    for universe in (0, 1):
        assert np.array_equal(counts_of(two, universe), counts_of(one, universe))
    assert (tmp_path / "two" / "persons.parquet").stat().st_mode & 0o777 == 0o600


def joins_of(spec: ReleaseSpec) -> list[Any]:
    """What a spec states of joins; of the feature, by name."""
    return list(part_of("joins", "resolve").stated_joins(spec).joins)


def test_households_with_their_size_are_joined(tmp_path: Path) -> None:
    """Where an attribute of households is the number of their persons, the spec joins both; else it does not."""
    frame = people(n=900).drop(columns="tenure")
    frame.to_csv(tmp_path / "all.csv", index=False)
    spec = imported(tmp_path / "one", tmp_path / "all.csv")
    (join,) = joins_of(spec)
    labels = join.households.answer_labels()
    assert (join.persons.name, join.households.name, join.others, labels[-1]) == ("total", "size", False, "7+")
    assert join.least.tolist() == [[int(label.rstrip("+")) for label in labels]]
    assert join.most.tolist() == [[*(int(label) for label in labels[:-1]), 20]]
    persons, homes = counts_of(spec), counts_of(spec, 1)
    assert (persons.sum(axis=1) >= homes @ join.least[0]).all()
    assert (persons.sum(axis=1) <= homes @ join.most[0]).all()

    sizes = frame.groupby("hh_id").size()
    homes_table = frame.drop_duplicates("hh_id")[["hh_id", "county", "town"]]
    members = [int(sizes[code]) for code in homes_table["hh_id"]]
    frame[["hh_id", "person_id", "age", "sex"]].to_csv(tmp_path / "persons.csv", index=False)
    for name, change, joined in (("right", 0, 1), ("wrong", 1, 0)):
        homes_table.assign(np=[members[0] + change, *members[1:]]).to_csv(tmp_path / f"{name}.csv", index=False)
        source = TableSource(str(tmp_path / f"{name}.csv"))
        spec = imported(tmp_path / f"{name}_out", tmp_path / "persons.csv", households=source)
        assert "np" in dict(spec.companions["households"].schema_section.attributes)
        assert len(joins_of(spec)) == joined
        assert [join.households.name for join in joins_of(spec)] == ["np"] * joined


def test_keys_that_do_not_fit(tmp_path: Path) -> None:
    """A person without household, a household twice, and one in two places are refused by name."""
    frame = people(60)
    homes = frame.drop_duplicates("hh_id")[["hh_id", "county", "town", "tenure"]]
    frame[["hh_id", "age", "sex"]].to_csv(tmp_path / "persons.csv", index=False)
    homes.iloc[1:].to_csv(tmp_path / "fewer.csv", index=False)
    pd.concat([homes, homes.iloc[:1]]).to_csv(tmp_path / "twice.csv", index=False)
    for file, key, says in (
        ("fewer.csv", None, "of households that"),
        ("twice.csv", "hh_id", "1 household with several rows: 'H00000'; each has one"),
        ("twice.csv", None, "no column is the key of its rows"),
    ):
        request = TableRequest(TableSource(str(tmp_path / "persons.csv")), TableSource(str(tmp_path / file)), key)
        with pytest.raises(InputError, match=says):
            import_table(request, tmp_path / "out")
    frame.loc[1, "hh_id"] = str(frame.loc[0, "hh_id"])
    frame.loc[1, "town"], frame.loc[0, "town"] = "0101", "0102"
    frame.loc[:1, "county"] = "01"
    frame.to_csv(tmp_path / "apart.csv", index=False)
    with pytest.raises(InputError, match="with persons in several values of 'town': 'H0"):
        import_table(TableRequest(TableSource(str(tmp_path / "apart.csv")), key="hh_id"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_column_of_census_codes(tmp_path: Path) -> None:
    """Blocks of 15 digits are a spine by themselves; numbers that lost a zero get it back."""
    blocks = [f"0{s}001{t:06d}{b}00{b}" for s in (1, 2) for t in (100, 200) for b in (1, 2)]
    frame = pd.DataFrame({"block": np.repeat(blocks, 30), "sex": ["f", "m"] * 120})
    frame.to_csv(tmp_path / "text.csv", index=False)
    frame.assign(block=frame["block"].astype("int64")).to_parquet(tmp_path / "numbers.parquet")
    frame.assign(block=frame["block"].astype("int64")).to_csv(tmp_path / "lost.csv", index=False)
    for file in ("text.csv", "numbers.parquet", "lost.csv"):
        spec = imported(tmp_path / f"out-{file}", tmp_path / file)
        assert spec.geography.levels == {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15}
        assert np.array_equal(counts_of(spec), np.full((8, 2), 15))


def test_counts_in_a_column(tmp_path: Path) -> None:
    """A row a cell: the column called count, or the one that is named, is not an attribute."""
    rows = [(f"{c}", f"{c}{t}", sex, 10 * c + t) for c in (1, 2) for t in (1, 2, 3) for sex in "fm"]
    frame = pd.DataFrame(rows, columns=["county", "town", "sex", "count"])
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.rename(columns={"count": "heads"}).to_csv(tmp_path / "b.csv", index=False)
    for file, more in (("a.csv", {}), ("b.csv", {"count": "heads"})):
        spec = imported(tmp_path / f"out-{file}", tmp_path / file, **more)
        assert spec.input is not None
        assert spec.input.form == "long"
        assert counts_of(spec).sum() == frame["count"].sum()


@pytest.mark.parametrize(
    ("columns", "attributes"),
    [
        (("pop_a", "pop_b", "pop_c", "vap_a", "vap_b", "vap_c"), {"votingage": 2, "group": 3}),
        (("men_a", "men_b", "women_a", "women_b"), {"kind": 2, "group": 2}),
        (("n_x y", "n_z", "n_w"), {"group": 3}),
        (("young", "old", "everybody"), {"group": 2}),
    ],
)
def test_counts_side_by_side(columns: tuple[str, ...], attributes: dict[str, int], tmp_path: Path) -> None:
    """A row an area: columns with a common beginning are an attribute, a part of others is taken off, sums are left."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"county": np.repeat(["1", "2"], 15), "town": [f"T{i:02d}" for i in range(30)]})
    for name in columns:
        frame[name] = rng.integers(1, 50, 30) + 20 * name.endswith("_b")  # nothing that may be counted twice
    if "vap_a" in columns:
        for name in "abc":
            frame[f"pop_{name}"] += frame[f"vap_{name}"]
    if "everybody" in columns:
        frame["everybody"] = frame["young"] + frame["old"]
    frame["county_name"] = frame["county"].map({"1": "One", "2": "Two"})
    frame.to_csv(tmp_path / "a.csv", index=False)
    spec = imported(tmp_path / "out", tmp_path / "a.csv")
    assert {name: len(values) for name, values in spec.schema_section.attributes.items()} == attributes
    whole = [name for name in columns if not name.startswith("vap") and name != "everybody"]
    assert np.array_equal(counts_of(spec).sum(axis=1), frame[whole].sum(axis=1))


def test_names_and_values_that_a_spec_does_not_allow(tmp_path: Path) -> None:
    """Columns and values are renamed where the spec's rules ask for it, and still counted one by one."""
    frame = pd.DataFrame(
        {
            "Town code": np.repeat(["a", "b"], 24),
            "total": ["x * y", " x", "x", "geocode"] * 12,
            "1st class?": ["yes", "no", 'qu"ote'] * 16,
            "Sex": ["f", "m"] * 24,
            "sex": ["1", "2", "2"] * 16,
            "all": ["p", "q", "r:moe90"] * 16,
        }
    )
    frame.to_csv(tmp_path / "odd.csv", index=False)
    spec = imported(tmp_path / "out", tmp_path / "odd.csv")
    assert spec.geography.levels == ("all", "Town_code")
    assert list(spec.schema_section.attributes) == ["total_2", "a_1st_class", "Sex", "sex_2", "all"]
    assert counts_of(spec).sum() == 48
    assert spec.schema_section.attributes["total_2"] == ("x", "geocode_", "x (2)", "x x y")


def test_the_public_list_of_areas(tmp_path: Path) -> None:
    """Areas without records are in the spine where the list has them."""
    people().to_csv(tmp_path / "people.csv", index=False)
    areas = pd.DataFrame([(f"{c:02d}", f"{c:02d}{t:02d}") for c in range(1, 5) for t in range(6)])
    areas.columns = ["county", "town"]
    areas.to_csv(tmp_path / "areas.csv", index=False)
    spec = imported(tmp_path / "out", tmp_path / "people.csv", areas=tmp_path / "areas.csv")
    assert read_spine(spec.geography).n_leaves == 24
    assert "published with the release" not in (tmp_path / "out" / "release.toml").read_text()
    assert "published with the release" in _spec_without_areas(tmp_path)


def _spec_without_areas(folder: Path) -> str:
    imported(folder / "without", folder / "people.csv")
    return (folder / "without" / "release.toml").read_text()


def test_geography_that_is_named(tmp_path: Path) -> None:
    """Columns with any names can be levels; several parents are refused with the pairs."""
    frame = people()[["county", "town", "sex"]].rename(columns={"county": "k1", "town": "k2"})
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(InputError, match="no column looks like a geography; name the columns"):
        import_table(TableRequest(TableSource(str(tmp_path / "a.csv"))), tmp_path / "out")
    spec = imported(tmp_path / "out", tmp_path / "a.csv", geography=("k1", "k2"))
    assert spec.geography.levels == ("k1", "k2")
    frame.loc[0, "k1"] = "99"
    frame.to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(InputError, match=r"1 code with several parents: .* under \d\d and 99"):
        import_table(TableRequest(TableSource(str(tmp_path / "b.csv")), geography=("k1", "k2")), tmp_path / "out2")


def test_a_duckdb_query(tmp_path: Path) -> None:
    """A query of a database, or over files, is the table that it gives."""
    duckdb = pytest.importorskip("duckdb")
    frame = people()
    frame.to_csv(tmp_path / "people.csv", index=False)
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.register("given", frame)
        connection.execute("create table people as select * from given")
    direct = imported(tmp_path / "a", tmp_path / "people.csv")
    queried = imported(tmp_path / "b", tmp_path / "people.duckdb", "select * from people")
    over_files = imported(
        tmp_path / "c", "duckdb:", f"select * from read_csv('{tmp_path / 'people.csv'}', all_varchar = true)"
    )
    grouped = imported(
        tmp_path / "d", tmp_path / "people.duckdb",
        "select county, town, sex, sum(1) as n from people group by all order by all",
    )  # fmt: skip
    assert np.array_equal(counts_of(queried), counts_of(direct))
    assert np.array_equal(counts_of(over_files), counts_of(direct))
    assert counts_of(grouped).sum() == len(frame)
    assert "# The query:" in (tmp_path / "d" / "release.toml").read_text()


@pytest.mark.parametrize(
    ("source", "query", "says"),
    [
        ("{folder}/a.duckdb", None, "a database needs a query"),
        ("{folder}/a.csv", "select 1", "a query needs a database"),
        ("{folder}/none.duckdb", "select 1", "no such file; a DuckDB database is needed"),
        ("duckdb:", "select * from nothing", "DuckDB: Catalog Error"),
        ("duckdb:", "select", "DuckDB: "),
        ("duckdb:", "select 1 as a where false", "the query has no rows"),
        ("duckdb:", "create table t (a int)", "the query (gives|has) no rows"),
        ("postgresql://nobody@127.0.0.1:1/none", "select 1", "a PostgreSQL database: "),
        ("postgresql://a:b:c:d", "select 1", "PostgreSQL database"),
    ],
)
def test_databases_that_cannot_be_asked(source: str, query: str | None, says: str, tmp_path: Path) -> None:
    """One clear message each, and no folder left."""
    pytest.importorskip("duckdb")
    with pytest.raises(InputError, match=says):
        import_table(TableRequest(TableSource(source.format(folder=tmp_path), query)), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(InputError, match='need duckdb: pip install "duckdb'):
        import_table(TableRequest(TableSource("duckdb:", "select 1")), tmp_path / "out")


def test_a_postgresql_query(tmp_path: Path) -> None:
    """A real server: the same histograms as from the file; the password is nowhere; nothing can be written by it."""
    import sqlalchemy as sa
    from oracles.postgresql import NoServerError, server

    frame = people(200)
    frame.to_csv(tmp_path / "people.csv", index=False)
    try:
        with server() as url:
            engine = sa.create_engine(sa.make_url(url).set(drivername="postgresql+psycopg"))
            frame.to_sql("people", engine, index=False)
            engine.dispose()
            secret = sa.make_url(url).set(drivername="postgresql", password="hunter2")
            text = secret.render_as_string(hide_password=False)
            spec = imported(tmp_path / "a", text, "select * from people")
            taking = "with gone as (delete from people returning *) select * from gone"
            for query in (taking, "delete from people returning *", "drop table people"):
                with pytest.raises(InputError, match="a PostgreSQL database: "):
                    import_table(TableRequest(TableSource(text, query)), tmp_path / "b")
            again = imported(tmp_path / "d", text, "select * from people where sex like '%'")
    except NoServerError as error:
        pytest.skip(str(error))
    assert np.array_equal(counts_of(spec), counts_of(imported(tmp_path / "c", tmp_path / "people.csv")))
    assert np.array_equal(counts_of(spec), counts_of(again))
    assert "hunter2" not in (tmp_path / "a" / "release.toml").read_text()


def test_a_real_hierarchy_that_is_not_american(shared_data: Path, tmp_path: Path) -> None:
    """Persons in households in zones: every one of them is counted, in two histograms."""
    spec = imported(tmp_path / "semcog", shared_data / "semcog_synthetic_persons.parquet")
    assert spec.geography.levels == ("county", "district", "taz", "maz")
    assert counts_of(spec).sum() == 35_769
    assert counts_of(spec, 1).sum() == 19_548


@pytest.mark.slow
def test_the_nation_by_voting_district(shared_data: Path, tmp_path: Path) -> None:
    """187,023 leaves with their counts side by side: totals as published."""
    spec = imported(tmp_path / "nation", shared_data / "us_2010_national_leaves.parquet")
    assert spec.geography.levels == ("region", "division", "state", "county", "leaf")
    counts = counts_of(spec)
    assert counts.shape == (187_023, 14)
    assert (counts.sum(), counts[:, 7:].sum()) == (308_745_538, 234_564_071)
