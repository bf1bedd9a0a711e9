"""`spinewise query` prints what the reader gives, in each form; a file with other rows is not read."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from oracles.damage import restored
from releases.command import printed
from releases.named import TRACTS
from releases.small import run

from flows.commands.query_output import larger_of
from geography.errors import SpinewiseError
from pipeline.errors import ReleaseError
from pipeline.reading.release import open_release, reader_of
from pipeline.release.tables import read_table, read_table_parts
from pipeline.storage.paths import unchecked


def invoke(*arguments: object) -> str:
    return printed("query", *arguments)


def frame(*arguments: object) -> pd.DataFrame:
    """What the command prints as CSV, by its first column."""
    return pd.read_csv(io.StringIO(invoke(*arguments, "--format", "csv")), index_col=0)


def same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(found, expected, check_index_type=False, check_dtype=False, check_names=False)


def test_table_and_query(town: Path) -> None:
    """As text, CSV, JSON and Markdown: the reader's counts and margins."""
    release = open_release(town)
    same(frame(town, "--table", "sex", "--at", "tract"), release.table("sex", level="tract"))
    expected = release.query("age * sex").where(quarters=["dorm", "prison"]).at("county")
    arguments = (town, "age*sex", "--where", "quarters=dorm,prison", "--at", "county")
    found = json.loads(invoke(*arguments, "--format", "json"))
    assert [row["adult * f"] for row in found] == expected["adult * f"].tolist()
    assert [row["sum:moe90"] for row in found] == expected["sum:moe90"].tolist()
    shown, markdown = invoke(*arguments), invoke(*arguments, "--format", "markdown")
    for code, row in expected.iterrows():
        line = next(line for line in shown.splitlines() if line.startswith(str(code)))
        assert f"{row['sum']:,.0f} ({row['sum:low90']:,.0f} to {row['sum:high90']:,.0f})" in line
        (cells,) = [line.strip("|").split("|") for line in markdown.splitlines() if line.startswith(f"| {code}")]
        assert [cell.strip() for cell in cells] == re.split(r"\s{2,}", line.strip())
    assert "NOT FOR RELEASE" in shown
    assert "NOT FOR RELEASE" in markdown
    tidy = invoke(*arguments, "--tidy", "--format", "markdown").splitlines()
    assert (tidy[0], len(tidy)) == ("| geocode | age | sex | value | low | high |", 2 + 6 * len(expected))


def test_areas(town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Areas on the command line and in a file; a long answer says how much is left."""
    release = open_release(town)
    first, second, third = reader_of(release).spine.leaf_level.geocodes[[0, 1, -1]].tolist()
    expected = release.query("sex").over({"here": [first, third], "there": [second]})
    same(frame(town, "sex", "--area", f"here={first},{third}", "--area", f"there={second}"), expected)
    file = tmp_path / "areas.csv"
    file.write_text(f"area,geocode\nhere,{first}\nthere,{second}\nhere,{third}\n")
    same(frame(town, "sex", "--areas", file), expected)
    monkeypatch.setattr("flows.commands.query_output.MOST_ROWS", 3)
    assert "more; --format csv prints all" in invoke(town, "sex", "--at", "block")
    assert frame(town, "sex", "--area", first).index.tolist() == [first]  # called by what it was asked for by


def test_what_numbers_make(town: Path) -> None:
    """Shares, medians, ranks and differences: as CSV those of the reader, as text with their intervals."""
    release = open_release(town)
    tracts = list(reader_of(release).spine.level("tract").geocodes)
    query = release.query("age").where(sex="f")
    asked = (town, "age", "--where", "sex=f")
    two = ("--area", f"a={tracts[0]}", "--area", f"b={tracts[1]}")
    difference = query.difference(tracts[:1], tracts[1:2])
    for arguments, expected in (
        (("--show", "shares", "--at", "tract"), query.shares_at("tract")),
        (("--show", "shares", *two), query.shares_over({"a": tracts[:1], "b": tracts[1:2]})),
        (("--show", "median", "--at", "tract"), query.medians_at("tract")),
        (("--show", "median", *two), query.medians_over({"a": tracts[:1], "b": tracts[1:2]})),
        (("--show", "ranks", "--at", "tract"), query.ranks_at("tract")),
        (("--show", "difference", *two), difference),
    ):
        same(frame(*asked, *arguments), expected)
        text = invoke(*asked, *arguments)
        assert "In brackets: " in text
        assert "%" in text.splitlines()[-2]
    head, *lines = invoke(*asked, "--show", "difference", *two).splitlines()
    assert head.split() == ["number", "a", "b", "difference", "larger"]
    for line, (_, row) in zip(lines, difference.iterrows(), strict=False):
        low, high = row["difference:low90"], row["difference:high90"]
        larger = "a" if low > 0 else "b" if high < 0 else "cannot tell" if low < high else "equal"
        assert line.endswith(larger)
        assert f"{row['difference']:+,.0f} ({low:+,.0f} to {high:+,.0f})" in line


def test_areas_off_the_spine_are_called_by_their_names(town: Path, tmp_path: Path) -> None:
    """A list as [geography.regroup] has it: by kind and code, with names; the numbers are those of the leaves."""
    release = open_release(town)
    first, second, third = reader_of(release).spine.leaf_level.geocodes[[0, 1, -1]].tolist()
    rows = [("place", "059", first, "Old Mill"), ("place", "059", third, "Old Mill"), ("tribal", "7", second, "")]
    areas = pd.DataFrame(rows, columns=["kind", "code", "geocode", "name"])
    areas.to_parquet(tmp_path / "off.parquet", index=False)
    areas.to_csv(tmp_path / "off.csv", index=False)
    expected = release.query("sex").over({"Old Mill (place 059)": [first, third], "tribal 7": [second]})
    for name in ("off.parquet", "off.csv"):
        same(frame(town, "sex", "--areas", tmp_path / name), expected)
    for called in ("old mill", "place 059", "Old Mill (place 059)"):
        same(frame(town, "sex", "--areas", tmp_path / "off.csv", "--area", called), expected.iloc[:1])
    two, other = tmp_path / "two.csv", tmp_path / "other.csv"
    areas.assign(code=["058", "059", "7"]).to_csv(two, index=False)
    areas.assign(name=["Old Mill", "New Mill", ""]).to_csv(other, index=False)
    for file, called, told in (
        (tmp_path / "off.csv", "Old Mil", "none of the areas of .* are called 'Old Mil'; did you mean 'Old Mill'"),
        (two, "Old Mill", r"2 of the areas .*: Old Mill \(place 058\), Old Mill \(place 059\)"),
        (other, "tribal 7", "area 'place 059' has two names: 'Old Mill' and 'New Mill'; one is allo"),
    ):
        with pytest.raises(SpinewiseError, match=told):
            invoke(town, "sex", "--areas", file, "--area", called)


def release_with_names(folder: Path, names: Mapping[str, Sequence[str]]) -> Path:
    """A release of two counties and three blocks whose attributes and values are called so."""
    choice = np.random.default_rng(1).choice
    persons = {"block": choice(["901", "902", "911"], 90), **{name: choice(of, 90) for name, of in names.items()}}
    pd.DataFrame(persons).to_csv(folder / "persons.csv", index=False)
    (folder / "blocks.csv").write_text("block\n901\n902\n911\n")
    attributes = ", ".join(f"{name} = {json.dumps(of)}" for name, of in names.items())
    tables = ", ".join(f'{name} = "{name}"' for name in names)
    (folder / "release.toml").write_text(
        f"""
name = "named"
privacy = {{ rho = "1", key = "insecure-test:1" }}
geography = {{ file = "blocks.csv", column = "block", levels = {{ county = 2, block = 3 }} }}
schema.attributes = {{ {attributes} }}
strategy = {{ levels = {{ county = "1/2", block = "1/2" }}, queries = {{ detailed = "1" }} }}
input = {{ file = "persons.csv", form = "microdata", geocode = "block" }}
publish = {{ margins = false }}
tables = {{ {tables} }}
"""
    )
    return run(folder / "release.toml", folder / "out")


def test_names_of_columns_may_be_names_of_the_schema(tmp_path: Path) -> None:
    """Attributes and values are called as they are: none is lost, and each number stays with its values."""
    names = {
        "value": ("low", "area", "geo"),
        "low": ("sum", "value"),
        "area": ("sum of these", "high"),
        "name": ("u", "v"),
    }
    release = release_with_names(tmp_path, names)
    leaves = pd.read_parquet(release / "public" / "histograms" / "block.parquet")
    everywhere = [("--at", "block"), ("--area", "901,902")]
    for (first, second), place in product(permutations(names, 2), everywhere):
        index = "geocode" if place[0] == "--at" else "area"
        rows = json.loads(invoke(release, f"{first} * {second}", *place, "--tidy", "--format", "json"))
        heads = [f"attribute {one}" if one in ("value", "low", index) else one for one in (first, second)]
        for row in rows:
            inside = leaves["geocode"].isin([row["geocode"]] if index == "geocode" else ["901", "902"])
            matches = inside & (leaves[first] == row[heads[0]]) & (leaves[second] == row[heads[1]])
            assert row["value"] == leaves.loc[matches, "count"].sum(), row
        assert sum(row["value"] for row in rows) == leaves.loc[inside | (index == "geocode"), "count"].sum()
        alone = json.loads(invoke(release, first, *place, "--format", "json"))
        assert all({*names[first]} <= {*row} for row in alone), alone
        tidy = open_release(release).table(first, "block", tidy=True)
        assert [*tidy][2:] == ["value", "low", "high", "reliability"]


def test_an_area_is_asked_for_by_its_name(named_town: Path) -> None:
    """The numbers are those of its code, with whatever commas, equal signs and quotes the name has."""
    release = open_release(named_town)
    for code, name in [("A", "alder county"), ("B", "Condado de Abedules"), *TRACTS.items()]:
        if name != "Springfield":
            same(frame(named_town, "sex", "--area", name), release.query("sex").over({name: [code]}))
    both = frame(named_town, "total", "--area", "all=Alder County,B")["total"]
    assert both.tolist() == [release.query("total").over(["A", "B"])["total"].sum()]
    difference = release.query("total").difference(["Alder County"], ["Birch County"])
    assert difference.equals(release.query("total").difference(["A"], ["B"]))
    for wrong, told in (
        ("Springfield", "is the name of 2 areas: tract A03 in Alder County; tract B02 in Birch County"),
        ("Brich County", "1 geocode or name not in town: 'Brich County'; did you mean 'Birch County'"),
    ):
        with pytest.raises(SpinewiseError, match=told):
            invoke(named_town, "total", "--area", wrong)
    of_a_tract = release.query("total").over({"tract:Old Town": ["B03"]})
    same(frame(named_town, "total", "--area", "tract:Old Town"), of_a_tract)


#: What is wrong with the rows of a file -> which of them are written, in which order.
DAMAGES: dict[str, Callable[[list[int]], list[int]]] = {
    "the first twice": lambda rows: [0, *rows],
    "the last twice": lambda rows: [*rows, rows[-1]],
    "all twice": lambda rows: rows * 2,
    "one for another": lambda rows: [*rows[:-1], 0],
    "two exchanged": lambda rows: [*rows[:-2], rows[-1], rows[-2]],
    "one less": lambda rows: rows[:-1],
    "none": lambda _: [],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_reader(damage: str, town: Path) -> None:
    """Whatever is wrong with the rows, the first that is wrong is named."""
    path = next(path for path in sorted(town.rglob("tables/*/*.parquet")) if pq.read_metadata(path).num_rows > 2)
    geocodes = read_table(unchecked(path)).geocodes
    assert read_table(unchecked(path), geocodes=geocodes).counts.shape[0] == len(geocodes)
    rows = DAMAGES[damage](list(range(len(geocodes))))
    first = next((place for place, row in enumerate(rows) if row != place), len(rows))
    says = "it has no row for the geocode"
    if first < len(rows):
        again = rows[first] < first
        says = f"several rows for the geocode '{geocodes[rows[first]]}'" if again else f"row {first + 1:,} is of"
    with restored([path]):
        pq.write_table(pq.read_table(path).take(np.array(rows, dtype=np.int64)), path)
        with pytest.raises(ReleaseError, match=says):
            list(read_table_parts(unchecked(path), geocodes=geocodes))


@pytest.mark.parametrize(
    ("low", "high", "larger"),
    [
        (1, 5, "a"),
        (-5, -1, "b"),
        (0, 0, "equal"),
        (0, 5, "cannot tell"),
        (-5, 0, "cannot tell"),
        (math.nan, math.nan, "cannot tell"),
    ],
)
def test_one_area_is_larger_where_the_interval_is_beyond_0(low: float, high: float, larger: str) -> None:
    assert larger_of("a", "b", low, high) == larger
