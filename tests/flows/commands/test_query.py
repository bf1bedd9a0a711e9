"""`spinewise query` prints what the reader gives."""

from __future__ import annotations

import io
import json
import math
import re
import shlex
from itertools import pairwise, permutations, product
from pathlib import Path

import pandas as pd
import pytest
from releases.columns import release_with_names
from releases.command import printed

from geography.errors import SpinewiseError
from pipeline.reading.reader import open_reader
from pipeline.reading.release import open_release, reader_of


def invoke(*arguments: object) -> str:
    return printed("query", *arguments)


def test_what_there_is(town: Path) -> None:
    """What is there, and commands of the shell that work as they stand."""
    described, commands = invoke(town).split("\nTry:\n")
    assert described.splitlines() == repr(open_release(town)).splitlines()[:-1]
    assert len(commands.splitlines()) == 3
    for command in commands.splitlines():
        words = shlex.split(command)
        assert words[:3] == ["spinewise", "query", str(town)]
        shown = invoke(*words[2:])
        for code in open_release(town).table("total", level="tract").index:
            assert any(line.startswith(str(code)) for line in shown.splitlines()), f"{command}: {code}"


def test_table_and_query(town: Path) -> None:
    """As text, CSV and JSON: the reader's counts and margins."""
    release = open_release(town)
    table = pd.read_csv(
        io.StringIO(invoke(town, "--table", "sex", "--at", "tract", "--format", "csv")), index_col="geocode"
    )
    pd.testing.assert_frame_equal(table, release.table("sex", level="tract"), check_index_type=False, check_dtype=False)
    expected = release.query("age * sex").where(quarters=["dorm", "prison"]).at("county")
    arguments = (town, "age*sex", "--where", "quarters=dorm,prison", "--at", "county")
    found = json.loads(invoke(*arguments, "--format", "json"))
    assert [row["adult * f"] for row in found] == expected["adult * f"].tolist()
    assert [row["sum:moe90"] for row in found] == expected["sum:moe90"].tolist()
    shown = invoke(*arguments)
    for code, row in expected.iterrows():
        line = next(line for line in shown.splitlines() if line.startswith(str(code)))
        assert f"{row['sum']:,.0f} ({row['sum:low90']:,.0f} to {row['sum:high90']:,.0f})" in line
    assert "NOT FOR RELEASE" in shown


def test_areas(town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Areas on the command line and in a file; a long answer says how much is left."""
    release = open_release(town)
    first, second, third = reader_of(release).spine.leaf_level.geocodes[[0, 1, -1]].tolist()
    expected = release.query("sex").over({"here": [first, third], "there": [second]})
    found = invoke(town, "sex", "--area", f"here={first},{third}", "--area", f"there={second}", "--format", "csv")
    read = pd.read_csv(io.StringIO(found), index_col="area")
    pd.testing.assert_frame_equal(read, expected, check_index_type=False, check_dtype=False)
    file = tmp_path / "areas.csv"
    file.write_text(f"area,geocode\nhere,{first}\nthere,{second}\nhere,{third}\n")
    assert invoke(town, "sex", "--areas", file, "--format", "csv") == found
    monkeypatch.setattr("flows.commands.queries.options.MOST_ROWS", 3)
    assert "more; --format csv prints all" in invoke(town, "sex", "--at", "block")
    alone = pd.read_csv(io.StringIO(invoke(town, "sex", "--area", first, "--format", "csv")), index_col="area")
    assert alone.index.tolist() == [first]  # called by what it was asked for by


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["sex"], "found no areas; one of --at, --area and --areas is needed"),
        (["sex", "--at", "tract", "--area", "A01"], "found --at and --area"),
        (["sex", "--table", "sex", "--at", "tract"], "one of the two is allowed"),
        (["--table", "sex"], "it requires --at LEVEL"),
        (["--at", "tract"], "found --at and no query"),
        (["sex", "--at", "tract", "--where", "age"], "found 'age'; TERM=VALUE is needed"),
        (["sex", "--at", "tract", "--where", "age=old", "--where", "age=child"], "'age' stands twice"),
        (["sex", "--area", "a=1", "--area", "a=2"], "'a' stands twice"),
        (["sex", "--areas", "nowhere.csv"], "cannot be read"),
    ],
)
def test_refusals(town: Path, arguments: list[str], told: str) -> None:
    with pytest.raises(SpinewiseError) as caught:
        invoke(town, *arguments)
    assert told in str(caught.value)
    assert caught.value.exit_status == 2


def test_what_numbers_make(town: Path) -> None:
    """Shares, medians, ranks and differences: as CSV those of the reader, as text with their intervals."""
    release = open_release(town)
    tracts = list(reader_of(release).spine.level("tract").geocodes)
    query = release.query("age").where(sex="f")
    asked = (town, "age", "--where", "sex=f")
    two = ("--area", f"a={tracts[0]}", "--area", f"b={tracts[1]}")
    for arguments, expected in (
        (("--show", "shares", "--at", "tract"), query.shares_at("tract")),
        (("--show", "shares", *two), query.shares_over({"a": tracts[:1], "b": tracts[1:2]})),
        (("--show", "median", "--at", "tract"), query.medians_at("tract")),
        (("--show", "median", *two), query.medians_over({"a": tracts[:1], "b": tracts[1:2]})),
        (("--show", "ranks", "--at", "tract"), query.ranks_at("tract")),
        (("--show", "difference", *two), query.difference(tracts[:1], tracts[1:2])),
    ):
        found = pd.read_csv(io.StringIO(invoke(*asked, *arguments, "--format", "csv")), index_col=0)
        pd.testing.assert_frame_equal(found, expected, check_index_type=False, check_dtype=False)
        text = invoke(*asked, *arguments)
        assert "In brackets: " in text
        assert "%" in text.splitlines()[-2]
    shown = invoke(*asked, "--show", "shares", "--at", "tract")
    row = query.shares_at("tract").loc[tracts[0]]
    width = row["old:high90"] - row["old:low90"]
    places = next(places for places in range(1, 5) if places == 4 or width >= 10 ** (1 - places))
    assert f"{row['old']:.{places}f} % ({row['old:low90']:.{places}f} % to {row['old:high90']:.{places}f} %)" in shown


def test_areas_off_the_spine_are_called_by_their_names(town: Path, tmp_path: Path) -> None:
    """A list as [geography.regroup] has it: by kind and code, with names; the numbers are those of the leaves."""
    release = open_release(town)
    first, second, third = reader_of(release).spine.leaf_level.geocodes[[0, 1, -1]].tolist()
    rows = [("place", "059", first, "Old Mill"), ("place", "059", third, "Old Mill"), ("tribal", "7", second, "")]
    frame = pd.DataFrame(rows, columns=["kind", "code", "geocode", "name"])
    frame.to_parquet(tmp_path / "off.parquet", index=False)
    frame.to_csv(tmp_path / "off.csv", index=False)
    expected = release.query("sex").over({"Old Mill (place 059)": [first, third], "tribal 7": [second]})
    for file in ("off.parquet", "off.csv"):
        found = invoke(town, "sex", "--areas", tmp_path / file, "--format", "csv")
        pd.testing.assert_frame_equal(
            pd.read_csv(io.StringIO(found), index_col="area"), expected, check_index_type=False, check_dtype=False
        )
    for called in ("old mill", "place 059", "Old Mill (place 059)"):
        found = invoke(town, "sex", "--areas", tmp_path / "off.csv", "--area", called, "--format", "csv")
        one = pd.read_csv(io.StringIO(found), index_col="area")
        pd.testing.assert_frame_equal(one, expected.iloc[:1], check_index_type=False, check_dtype=False)
    with pytest.raises(SpinewiseError, match=r"none of the areas of .* are called 'Old Mil'; did you mean 'Old Mill'"):
        invoke(town, "sex", "--areas", tmp_path / "off.csv", "--area", "Old Mil")
    frame.assign(code=["058", "059", "7"]).to_csv(tmp_path / "two.csv", index=False)
    with pytest.raises(SpinewiseError, match=r"2 of the areas .*: Old Mill \(place 058\), Old Mill \(place 059\)"):
        invoke(town, "sex", "--areas", tmp_path / "two.csv", "--area", "Old Mill")
    frame.assign(name=["Old Mill", "New Mill", ""]).to_csv(tmp_path / "off.csv", index=False)
    with pytest.raises(SpinewiseError, match="area 'place 059' has two names: 'Old Mill' and 'New Mill'; one is allo"):
        invoke(town, "sex", "--areas", tmp_path / "off.csv")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--table", "sex", "--at", "tract"),
        ("age * sex", "--at", "county"),
        ("total", "--area", "A,B01"),
        ("sex", "--at", "county", "--show", "shares"),
    ],
)
def test_one_row_a_number(town: Path, arguments: tuple[str, ...]) -> None:
    """The same numbers as side by side, each once, with what it is of."""
    wide = pd.read_csv(io.StringIO(invoke(town, *arguments, "--format", "csv")), index_col=0)
    text = invoke(town, *arguments, "--tidy", "--format", "csv")
    if "--show" not in arguments:
        assert not re.search(r"\.0\b", text)  # counts and the ends of their intervals are whole numbers
    tidy = pd.read_csv(io.StringIO(text))
    labels = [name for name in wide.columns if ":" not in name and name not in ("name", "sum")]
    terms = [name for name in tidy.columns[1:] if name not in ("name", "value", "low", "high", "reliability")]
    assert len(tidy) == len(wide) * len(labels)
    for number, row in tidy.iterrows():
        label = " * ".join(str(row[term]) for term in terms)
        assert label == labels[int(str(number)) % len(labels)]
        found = wide.loc[row.iloc[0]]
        assert row["value"] == found[label]
        assert (row["low"], row["high"]) == (found[f"{label}:low90"], found[f"{label}:high90"])


def _frame(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)


def test_a_number_stands_beside_its_own_values_in_any_order_of_the_query(town: Path) -> None:
    """Columns are called after what is in them: each number is that of the same conditions, asked for alone."""
    schema = open_reader(town).schema
    values = {one.name: one.values for one in schema.attributes}
    leaves = pd.read_parquet(town / "public" / "histograms" / "county.parquet")
    for terms in [*permutations(values, 2), tuple(reversed(values))]:
        tidy = _frame(invoke(town, " * ".join(terms), "--at", "county", "--tidy", "--format", "csv"))
        assert {*tidy.columns} == {"geocode", *terms, "value", "low", "high"}
        assert len(tidy) == leaves["geocode"].nunique() * math.prod(len(values[term]) for term in terms)
        counted = leaves.astype(dict.fromkeys(terms, str)).groupby(["geocode", *terms], observed=True)["count"].sum()
        for row in tidy.to_dict("records"):
            key = (row["geocode"], *(row[term] for term in terms))
            assert int(row["value"]) == counted.get(key, 0), key


def test_names_of_columns_may_be_names_of_the_schema(tmp_path: Path) -> None:
    """Attributes and values are called as they are: none is lost, and each number stays with its values."""
    names = {
        "value": ("low", "area", "geo"),
        "low": ("sum", "value"),
        "area": ("sum of these", "high"),
        "name": ("u", "v"),
    }
    release = release_with_names(tmp_path, names)
    opened = open_release(release)
    leaves = pd.read_parquet(release / "public" / "histograms" / "block.parquet")
    everywhere = [("--at", "block"), ("--area", "901,902")]
    for (first, second), place in product([*pairwise([*names, "value"]), ("area", "value")], everywhere):
        index = "geocode" if place[0] == "--at" else "area"
        rows = json.loads(invoke(release, f"{first} * {second}", *place, "--tidy", "--format", "json"))
        heads = [f"attribute {one}" if one in ("value", "low", index) else one for one in (first, second)]
        for row in rows:
            inside = leaves["geocode"].isin([row["geocode"]] if index == "geocode" else ["901", "902"])
            same = inside & (leaves[first] == row[heads[0]]) & (leaves[second] == row[heads[1]])
            assert row["value"] == leaves.loc[same, "count"].sum(), row
        assert sum(row["value"] for row in rows) == leaves.loc[inside | (index == "geocode"), "count"].sum()
        alone = json.loads(invoke(release, first, *place, "--format", "json"))
        assert all({*names[first]} <= {*row} for row in alone), alone
        tidy = opened.table(first, "block", tidy=True)
        assert [*tidy][2:] == ["value", "low", "high", "reliability"]
        assert {*tidy[heads[0] if first != "area" else first]} == {*names[first]}
