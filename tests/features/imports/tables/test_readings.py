"""No import multiplies people: the number that is counted is right, or the command stops and asks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.imported import open_problems
from typer.testing import CliRunner

from features.imports.tables.importer import TableRequest, TableSource, import_table
from features.imports.tables.readings import Asked
from flows.checks.validation import validate
from flows.cli import app
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import tabulate
from pipeline.spec.release_spec import ReleaseSpec, load_spec


def imported(out: Path, source: Path, **more: object) -> ReleaseSpec:
    """The spec of an import, found valid for its own records."""
    spec = load_spec(import_table(TableRequest(TableSource(str(source)), **more), out).spec)  # type: ignore[arg-type]
    assert spec.input is not None
    assert open_problems(None, out / "release.toml") == []
    return spec


def people_of(spec: ReleaseSpec) -> int:
    """Everybody that a release counts."""
    universe = spec.universes()[0]
    return int(tabulate(universe.require_input(), universe.schema, read_spine(spec.geography)).sum())


def refused(out: Path, source: Path, **more: object) -> str:
    """The message of an import that stops, with nothing left behind."""
    with pytest.raises(InputError) as error:
        import_table(TableRequest(TableSource(str(source)), **more), out)  # type: ignore[arg-type]
    assert error.value.exit_status == 2
    assert not out.exists()
    return str(error.value)


@pytest.fixture(scope="module")
def block_groups(shared_data: Path) -> pd.DataFrame:
    """Two states of real block groups, with their codes apart as many files have them."""
    frame = pd.read_parquet(shared_data / "us_2000_block_groups.parquet")
    frame = frame[frame["block_group"].str[:2].isin(["44", "16"])].reset_index(drop=True)
    frame.insert(0, "state", frame["block_group"].str[:2])
    frame.insert(1, "county", frame["block_group"].str[:5])
    return frame


@pytest.mark.parametrize("numbers", [False, True])
def test_codes_are_no_counts(numbers: bool, block_groups: pd.DataFrame, tmp_path: Path) -> None:
    """Columns state, county, block_group, white, black, asian: the people are those of the last three."""
    frame = block_groups[["state", "county", "block_group", "nh_white", "nh_black", "nh_asian"]]
    frame = frame.rename(columns=lambda name: name.removeprefix("nh_"))
    if numbers:
        frame = frame.astype({"state": int, "county": int, "block_group": int})
    frame.to_csv(tmp_path / "a.csv", index=False)
    spec = imported(tmp_path / "out", tmp_path / "a.csv")
    assert people_of(spec) == frame[["white", "black", "asian"]].to_numpy().sum()
    assert list(spec.schema_section.attributes.values()) == [("white", "black", "asian")]
    assert list(spec.geography.levels) == ["state", "county", "tract", "block_group"]


@pytest.mark.parametrize(
    ("names", "total"),
    [
        (["owner", "renter", "vacant", "units"], "units"),
        (["units", "owner", "renter", "vacant"], "units"),
        (["male", "pop", "female"], "pop"),
        (["age_under5", "age_5_17", "age_18plus", "age_total"], "age_total"),
        (["pop", "male", "female", "a", "b", "c"], "pop"),
        (["a", "male", "b", "pop", "female", "c"], "pop"),
        (["male", "female", "a", "b", "c"], "pop"),
        (["hh_1", "hh_2", "hh_3plus", "owner", "renter", "vacant", "units"], "units"),
    ],
)
def test_sums_are_counted_once(names: list[str], total: str, block_groups: pd.DataFrame, tmp_path: Path) -> None:
    """Whatever the columns are called and in whatever order they stand, a sum of others is not counted again."""
    frame = block_groups.assign(
        age_under5=block_groups["age_0_4"],
        age_18plus=block_groups["pop"] - block_groups["age_0_4"] - block_groups["age_5_17"],
        age_total=block_groups["pop"],
        hh_3plus=block_groups[[f"hh_{i}" for i in range(3, 8)]].sum(axis=1),
        a=block_groups["age_0_4"],
        b=block_groups["age_5_17"],
        c=block_groups["pop"] - block_groups["age_0_4"] - block_groups["age_5_17"],
    )
    frame[["block_group", *names]].to_csv(tmp_path / "a.csv", index=False)
    assert people_of(imported(tmp_path / "out", tmp_path / "a.csv")) == frame[total].sum()


def test_two_things_are_asked_about(block_groups: pd.DataFrame, tmp_path: Path) -> None:
    """People and housing units are no groups of one attribute; each answer counts what it says."""
    frame = block_groups[["block_group", "pop", "units"]].rename(columns={"pop": "pop2000"})
    frame.to_csv(tmp_path / "a.csv", index=False)
    people, units = int(frame["pop2000"].sum()), int(frame["units"].sum())
    told = refused(tmp_path / "out", tmp_path / "a.csv")
    for n, option in ((people, "pop2000"), (units, "units"), (people + units, "pop2000,units")):
        assert f"  {n:,} people: " in told
        assert f"(--counts {option})" in told
    assert people_of(imported(tmp_path / "a", tmp_path / "a.csv", reading=Asked(counts=("pop2000",)))) == people
    assert people_of(imported(tmp_path / "b", tmp_path / "a.csv", reading=Asked(people=units))) == units
    assert "no reading of the table gives that" in refused(
        tmp_path / "c", tmp_path / "a.csv", reading=Asked(people=people + 1)
    )


def test_all_columns_of_the_file_at_once(block_groups: pd.DataFrame, tmp_path: Path) -> None:
    """34 columns of people, households and families: it stops, and the number of people is enough of an answer."""
    block_groups.to_parquet(tmp_path / "a.parquet")
    people, units = int(block_groups["pop"].sum()), int(block_groups["units"].sum())
    told = refused(tmp_path / "out", tmp_path / "a.parquet")
    assert f"  {people:,} people: " in told
    assert f"  {units:,} people: " in told
    spec = imported(tmp_path / "a", tmp_path / "a.parquet", reading=Asked(people=people))
    assert people_of(spec) == people
    assert max(map(len, spec.schema_section.attributes.values())) == 8


def test_the_whole_file(shared_data: Path, tmp_path: Path) -> None:
    """180,718 block groups: the people that the census counted."""
    file = shared_data / "us_2000_block_groups.parquet"
    spec = imported(tmp_path / "out", file, reading=Asked(people=239_665_439))
    assert people_of(spec) == 239_665_439


def test_names_that_say_nothing(tmp_path: Path) -> None:
    """Three columns without a total and without a common name could be anything."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"town": [f"T{i}" for i in range(40)], **{n: rng.integers(0, 90, 40) for n in ("foo", "bar")}})
    frame.to_csv(tmp_path / "a.csv", index=False)
    told = refused(tmp_path / "out", tmp_path / "a.csv")
    assert f"{frame[['foo', 'bar']].to_numpy().sum():,} people" in told
    spec = imported(tmp_path / "a", tmp_path / "a.csv", reading=Asked(counts=("foo", "bar")))
    assert people_of(spec) == frame[["foo", "bar"]].to_numpy().sum()


def long_frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    rows = [(f"E0{t // 4}", f"E01{t:03d}", age, sex) for t in range(12) for age in "abc" for sex in "fm"]
    return pd.DataFrame(rows, columns=["lad21cd", "lsoa21cd", "age", "sex"]).assign(n=rng.integers(0, 300, len(rows)))


@pytest.mark.parametrize("name", ["usual_residents", "Anzahl", "población", "Observation", "n", "obs_value"])
def test_a_row_a_cell(name: str, tmp_path: Path) -> None:
    """The column of counts is known in many languages; what it counts is everybody."""
    frame = long_frame().rename(columns={"n": name})
    frame.to_csv(tmp_path / "a.csv", index=False)
    spec = imported(tmp_path / "out", tmp_path / "a.csv")
    assert spec.input is not None
    assert (spec.input.form, spec.input.count) == ("long", name)
    assert people_of(spec) == frame[name].sum()
    assert spec.geography.levels == ("lad21cd", "lsoa21cd")


def test_a_number_that_may_be_a_count(tmp_path: Path) -> None:
    """Each combination has one row, and a number: nobody but the user knows whether it counts."""
    frame = long_frame().rename(columns={"n": "zz"})
    frame.to_csv(tmp_path / "a.csv", index=False)
    told = refused(tmp_path / "out", tmp_path / "a.csv")
    assert f"  {len(frame):,} people: a row is a record" in told
    assert "(--form microdata)" in told
    assert f"  {frame['zz'].sum():,} people: a row is a cell with its count in 'zz'" in told
    assert people_of(imported(tmp_path / "a", tmp_path / "a.csv", count="zz")) == frame["zz"].sum()
    frame["zz"] %= 30
    frame.to_csv(tmp_path / "b.csv", index=False)
    assert people_of(imported(tmp_path / "b", tmp_path / "b.csv", reading=Asked(form="microdata"))) == len(frame)


def test_cells_that_stand_in_several_rows(tmp_path: Path) -> None:
    """Rows that are alike but for their counts are refused; rows that differ in what is left out are added up."""
    frame = long_frame().rename(columns={"n": "count"})
    pd.concat([frame, frame.iloc[:2]]).to_csv(tmp_path / "twice.csv", index=False)
    told = refused(tmp_path / "out", tmp_path / "twice.csv", count="count")
    assert "the same cell occurs in several rows" in told
    spec = imported(tmp_path / "a", tmp_path / "twice.csv", count="count", repeated=True)
    assert people_of(spec) == frame["count"].sum() + frame["count"][:2].sum()
    rng = np.random.default_rng(2)
    many = frame.loc[frame.index.repeat(50)].assign(job=[f"J{i:02d}" for i in range(50)] * len(frame))
    many = many.assign(count=rng.integers(0, 9, len(many)))
    many.to_csv(tmp_path / "jobs.csv", index=False)
    spec = imported(tmp_path / "b", tmp_path / "jobs.csv")
    assert spec.input is not None
    assert spec.input.repeated == "add"
    assert people_of(spec) == many["count"].sum()


def test_rows_that_are_totals(tmp_path: Path) -> None:
    """ "Total" among the values is left out where it adds up; where not, row and difference are told."""
    frame = long_frame().rename(columns={"n": "count"})
    sums = frame.groupby(["lad21cd", "lsoa21cd", "sex"], as_index=False)["count"].sum().assign(age="Total")
    whole = pd.concat([frame, sums])
    whole.to_csv(tmp_path / "a.csv", index=False)
    spec = imported(tmp_path / "out", tmp_path / "a.csv")
    assert people_of(spec) == frame["count"].sum()
    assert spec.schema_section.attributes["age"] == ("a", "b", "c")
    whole.iloc[-1, whole.columns.get_loc("count")] += 7
    whole.to_csv(tmp_path / "b.csv", index=False)
    told = refused(tmp_path / "b", tmp_path / "b.csv")
    assert "column 'age': 'Total' is called a total, and in 1 row of 24 it is not the sum of the others" in told
    assert f"line {len(whole) + 1} has" in told
    assert "(7 less)" in told


def test_ages_of_any_form(tmp_path: Path) -> None:
    """91 ages, the last of them 90+: no value stops the import, and everybody stands in the right group."""
    rng = np.random.default_rng(8)
    ages = rng.integers(0, 91, 3000)
    frame = pd.DataFrame(
        {
            "town": rng.choice(["A", "B"], 3000),
            "age": [str(a) if a < 90 else "90+" for a in ages],
            "sex": rng.choice(["f", "m"], 3000),
        }
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    spec = imported(tmp_path / "out", tmp_path / "a.csv")
    universe = spec.universes()[0]
    counts = tabulate(universe.require_input(), universe.schema, read_spine(spec.geography)).toarray()
    expected = np.histogram(ages, [0, 5, 18, 25, 45, 65, 85, 131])[0]
    assert counts.reshape(2, 7, 2).sum(axis=(0, 2)).tolist() == expected.tolist()


def test_persons_with_several_records(tmp_path: Path) -> None:
    """A person's number that stands in several rows is told of, by import and by validate; a clean one is not."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"town": rng.choice(["A", "B"], 400), "pid": range(400), "sex": rng.choice(["f", "m"], 400)})
    for name, several in (("clean", False), ("several", True)):
        if several:
            frame.loc[380:, "pid"] = range(20)
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        request = TableRequest(TableSource(str(tmp_path / f"{name}.csv")))
        told = import_table(request, tmp_path / name).messages
        warned = [line for line in told if "'pid' looks like a person's number" in line]
        assert len(warned) == several
        remarks = validate(None, tmp_path / name / "release.toml").remarks
        assert [line for line in remarks if "'pid' looks like a person's number" in line] == [
            f"{tmp_path / name}.csv: {line.removeprefix('Warning: ')}" for line in warned
        ]
    assert "1.05 rows for each" in warned[0]


def test_the_number_of_people_in_validate(tmp_path: Path) -> None:
    """Both numbers stand in the message; the right one passes."""
    frame = long_frame().rename(columns={"n": "count"})
    frame.to_csv(tmp_path / "a.csv", index=False)
    imported(tmp_path / "out", tmp_path / "a.csv")
    right, spec = int(frame["count"].sum()), tmp_path / "out" / "release.toml"
    spec.write_text(spec.read_text().replace("# accept =", "accept ="))
    arguments = ["validate", str(tmp_path / "a.csv"), str(spec), "--people"]
    assert CliRunner().invoke(app, [*arguments, str(right)]).exit_code == 0
    shown = CliRunner().invoke(app, [*arguments, str(right - 7)])
    assert shown.exit_code == 2
    assert f"{right:,} are counted, but --people expects {right - 7:,} (7 more)" in shown.output


def test_the_options_of_the_command(tmp_path: Path) -> None:
    """As a user types them."""
    frame = long_frame().rename(columns={"n": "zz"}).assign(note="x")
    frame.to_csv(tmp_path / "a.csv", index=False)
    arguments = ["import", "table", str(tmp_path / "a.csv"), "--out", str(tmp_path / "out")]
    shown = CliRunner().invoke(app, arguments)
    assert isinstance(shown.exception, InputError)
    shown = CliRunner().invoke(app, [*arguments, "--people", str(frame["zz"].sum()), "--ignore", "note,sex"])
    assert shown.exit_code == 2 or isinstance(shown.exception, InputError)
    shown = CliRunner().invoke(app, [*arguments, "--people", str(frame["zz"].sum()), "--ignore", "note"])
    assert shown.exit_code == 0
    assert f"{frame['zz'].sum():,} people are counted" in shown.stderr.replace("\n", " ")
