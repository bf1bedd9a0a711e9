"""Cumulative numbers of releases: sums of what is published, intervals that hold the truth, verified and judged."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from releases.hashed import every_file_hashed_first
from releases.small import QUICK, public_bytes, run, write_town

from auditor.check.release import check_release, examine
from features.cumulative.cumulated import Cumulated
from features.cumulative.files import CUMULATIVE as CUMULATIVE_FILES
from features.cumulative.files import _cumulated
from pipeline.errors import InputError
from pipeline.execution.progress import Silent
from pipeline.metadata.products import ReleaseScope
from pipeline.metadata.products import described as contents_of
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.model.universe import Table
from pipeline.published import open_finished
from pipeline.reading.release import Release, open_release, reader_of
from pipeline.release.layout import RunDirectory
from pipeline.release.long_tables import is_long
from pipeline.release.tables import ReleasedTable, long_terms, read_table, write_table
from pipeline.runs.verify import verify_release
from pipeline.storage.readable import unchecked

#: Of the town: one attribute, one of two, a recode, and a companion's.
CUMULATIVE = (
    *QUICK,
    (
        'total = "total"\nsex =',
        'total = "total"\nage = { query = "age", cumulative = true, levels = ["county", "tract"] }\n'
        'both = { query = "sex * age", cumulative = "age" }\n'
        'sexes = { query = "sex * grown", cumulative = "sex", levels = ["tract"] }\nsex =',
    ),
    (
        "invariants = { block",
        'tables = { s = { query = "status", cumulative = true } }\ninvariants = { block',
    ),
)  # fmt: skip
#: Universe, table, the cumulated term and its levels.
TABLES = (
    ("", "age", "age", ("county", "tract")),
    ("", "both", "age", ("county", "tract", "block")),
    ("", "sexes", "sex", ("tract",)),
    ("units", "s", "status", ("county", "tract", "block")),
)


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("town")
    return run(write_town(folder / "in", *CUMULATIVE), folder / "out")


def _sums(frame: pd.DataFrame, query: Query, term: str) -> dict[str, NDArray[np.int64]]:
    """Label -> sums of the columns of a published table, one by one, by the labels of its terms."""
    values = list(dict.fromkeys(query.labels_of(term).tolist()))
    combinations = [[str(query.labels_of(one)[at]) for one in query.terms] for at in range(query.size)]
    found = {}
    for own in combinations:
        value = own[query.terms.index(term)]
        label, total = [], np.zeros(len(frame), dtype=np.int64)
        for one, part in zip(query.terms, own, strict=True):
            label.append(f"up to {part}" if one == term else part)
        for earlier in values[: values.index(value) + 1]:
            parts = [earlier if one == term else part for one, part in zip(query.terms, own, strict=True)]
            total = total + frame[" * ".join(parts)].to_numpy()
        found[" * ".join(label)] = total
    return found


def _of(town: Path, universe: str) -> Release:
    release = open_release(town)
    return release.companion(universe) if universe else release


@pytest.mark.parametrize(("universe", "name", "term", "levels"), TABLES)
def test_counts_are_sums_of_the_published_table_and_of_children(
    town: Path, universe: str, name: str, term: str, levels: tuple[str, ...]
) -> None:
    release = _of(town, universe)
    (table,) = (one for one in reader_of(release).universe.tables if one.name == name)
    assert table.levels == levels
    below: pd.DataFrame | None = None
    for level in reversed(levels):
        found, published = release.table(name, level, cumulative=True), release.table(name, level)
        sums = _sums(published, table.query, term)
        assert list(sums) == [column for column in found.columns if ":" not in column]
        for label, expected in sums.items():
            assert np.array_equal(found[label], expected)
            low, high = found[label + ":low90"], found[label + ":high90"]
            assert ((low <= expected) & (expected <= high)).all()
            if label.replace("up to ", "", 1) in published and f"up to {table.query.labels_of(term)[0]}" in label:
                for end in (":moe90", ":low90", ":high90"):
                    assert found[label + end].equals(published[label.replace("up to ", "", 1) + end])
        if below is not None:
            parents = reader_of(release).spine.level(levels[levels.index(level) + 1]).parents
            for label in sums:
                assert np.array_equal(np.bincount(parents, below[label]).astype(int), found[label])
        below = found


def test_an_interval_is_that_of_the_sum_and_not_the_sum_of_intervals(town: Path) -> None:
    """Everybody in a county is published exactly, though no age is; those up to "adult" by less than both margins."""
    found, ages = (open_release(town).table("age", "county", cumulative=one) for one in (True, False))
    assert (found["up to old:moe90"] == 0).all()
    assert (ages["old:moe90"] > 0).all()
    assert (found["up to adult:moe90"] < ages["child:moe90"] + ages["adult:moe90"]).all()


def test_readers_have_them_wherever_they_ask_for_these_numbers(town: Path) -> None:
    """`--show cumulative` and a sum of the same cells have the published interval; tidy rows and refusals."""
    release = open_release(town)
    with every_file_hashed_first():
        published = open_release(town).table("age", "tract", cumulative=True)
    pd.testing.assert_frame_equal(release.query("age").cumulative_at("tract"), published)
    asked = release.query("total").where(age=["child", "adult"], sex="f").at("block")
    of_both = release.table("both", "block", cumulative=True)  # terms stand in the order of the schema
    columns = [f"up to adult * f{end}" for end in ("", ":moe90", ":low90", ":high90")]
    assert np.array_equal(asked.to_numpy(), of_both[columns].to_numpy())
    tidy = release.table("both", "block", cumulative=True, tidy=True)
    assert list(tidy.columns) == ["geocode", "age", "sex", "value", "low", "high", "reliability"]
    assert len(tidy) == 6 * len(of_both)
    with pytest.raises(InputError, match="table 'sex' is not published cumulatively; its spec would say"):
        release.table("sex", "tract", cumulative=True)
    with pytest.raises(InputError, match="published for county, tract, not for 'block'"):
        release.table("age", "block", cumulative=True)


def test_all_else_is_as_without_them(town: Path, tmp_path: Path) -> None:
    """Measurements, histograms and tables: nothing but these files, and what lists or shows them, is new."""
    plain = [(old, new.replace(", cumulative = true", "")) for old, new in CUMULATIVE]
    plain = [(old, new.replace(', cumulative = "age"', "").replace(', cumulative = "sex"', "")) for old, new in plain]
    found, without = public_bytes(town), public_bytes(run(write_town(tmp_path / "in", *plain), tmp_path / "out"))
    new = {name for name in found if "/cumulative/" in name}
    assert len(new) == sum(len(levels) for *_, levels in TABLES)
    assert found.keys() - new == without.keys()
    others = {"public/manifest.json", "public/datapackage.json", "public/report.html"}
    assert [name for name in without if name not in others and found[name] != without[name]] == []


def test_a_release_is_the_same_whatever_the_workers_and_verified(town: Path, tmp_path: Path) -> None:
    again = run(write_town(tmp_path / "in", *CUMULATIVE), tmp_path / "out", workers=2)
    found, expected = public_bytes(again), public_bytes(town)
    others = {"public/manifest.json", "public/report.html"}  # have when it was made
    assert {name: one for name, one in found.items() if name not in others} == {
        name: one for name, one in expected.items() if name not in others
    }
    assert verify_release(RunDirectory(town), 1, Silent()) == []


def test_they_are_described_and_shown(town: Path) -> None:
    package = json.loads((town / "public" / "datapackage.json").read_text("utf-8"))
    described = {one["path"]: one for one in package["resources"]}
    one = described["cumulative/age/county.parquet"]
    assert one["title"] == "age: cumulative, by county"
    titles = {field["name"]: field["title"] for field in one["schema"]["fields"]}
    assert titles["up to adult"] == "up to adult"
    assert titles["up to old:low90"] == "all values: lower end of the 90 % interval"
    assert "companions/units/cumulative/s/block.parquet" in described
    opened = open_finished(town, check_hashes=False)
    files = contents_of(ReleaseScope(opened.spec, opened.universes, opened.run), CUMULATIVE_FILES)
    folder = {"": "", "units": "companions/units/"}
    assert sorted(file.path for file in files) == sorted(
        f"{folder[universe]}cumulative/{name}/{level}" for universe, name, _, levels in TABLES for level in levels
    )
    page = (town / "public" / "report.html").read_text("utf-8")
    row = open_release(town).table("age", "county", cumulative=True).loc["A"]
    assert 'id="cumulative"' in page
    low, high = (round(row[f"up to adult:{end}90"]) for end in ("low", "high"))
    cell = f"<td>{row['up to adult']:.0f}<br><small>{low} to {high}</small>"
    assert cell in page
    assert "cumulative/TABLE/LEVEL.parquet" in page


# -- the second program -----------------------------------------------------------------------------------------------


def _changed(path: Path, change: Callable[[pd.DataFrame], None]) -> None:
    """Write a file with other numbers, and the header that it had."""
    table = pq.read_table(path)
    frame = table.to_pandas()
    change(frame)
    pq.write_table(type(table).from_pandas(frame, schema=table.schema, preserve_index=False), path)


def _add(column: str, amount: int) -> Callable[[pd.DataFrame], None]:
    def change(frame: pd.DataFrame) -> None:
        frame[column] += np.where(frame.index == 0, amount, 0)

    return change


def _wider(label: str) -> Callable[[pd.DataFrame], None]:
    def change(frame: pd.DataFrame) -> None:
        first = frame.index == 0
        frame[f"{label}:high90"] = np.where(first, frame[label] + 50.0, frame[f"{label}:high90"])
        frame[f"{label}:moe90"] = np.where(first, 50.0, frame[f"{label}:moe90"])

    return change


@pytest.mark.parametrize(
    ("file", "change", "sentence"),
    [
        ("age/county", _add("up to adult", 1), "'up to adult': found"),
        ("both/block", _add("up to old * m", -1), "'up to old * m': found"),
        ("age/tract", _wider("up to child"), "its interval is not the interval of 'child' in"),
        ("age/tract", _add("up to adult:low90", 1_000), "whole numbers around the count (or NaN, unknown)"),
        ("sexes/tract", None, "public/cumulative/sexes/tract.parquet"),
    ],
)  # fmt: skip
def test_the_second_program_finds_what_is_wrong(
    town: Path, tmp_path: Path, file: str, change: Callable[[pd.DataFrame], None] | None, sentence: str
) -> None:
    assert check_release(town) == []
    shutil.copytree(town / "public", tmp_path / "public")
    path = tmp_path / "public" / "cumulative" / f"{file}.parquet"
    if change is None:
        path.unlink()
    else:
        _changed(path, change)
    (told, *_) = check_release(tmp_path)
    assert sentence in told


def test_a_file_that_no_spec_gives_is_found(town: Path, tmp_path: Path) -> None:
    shutil.copytree(town / "public", tmp_path / "public")
    folder = tmp_path / "public" / "cumulative"
    shutil.copytree(folder / "age", folder / "sex")
    told = examine(tmp_path).problems
    assert len(told) == 2
    assert all("does not follow from the spec" in one for one in told)


# -- tables of many numbers -------------------------------------------------------------------------------------------


class _Wide:
    """An interval for every number that says which number it is of: from so many less to its number more."""

    def ends(self, counts: NDArray[np.int64], rows: slice) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        numbers = counts.astype(np.float64)
        return numbers - 1 - np.arange(rows.start, rows.stop)[:, None], numbers + 2


def test_tables_with_many_numbers_are_written_part_by_part(tmp_path: Path) -> None:
    ages, kinds = (Attribute(name, tuple(map(str, range(n)))) for name, n in (("age", 100), ("kind", 22)))
    schema = Schema((ages, kinds), ())
    query = Query.parse("age * kind", schema)
    table, fact = Table("all", query, ("block",)), Cumulated("age", 0)
    assert is_long(query.size)
    rng = np.random.default_rng(2)
    counts = rng.poisson(0.05, (700, query.size)).astype(np.int64)
    geocodes = np.array([f"{n:04d}" for n in range(700)])
    numbers, terms = counts.astype(np.float64), long_terms("all", query)
    labels = query.answer_labels()
    whole = ReleasedTable("all", "block", query.name, geocodes, labels, counts, numbers - 1, numbers + 1, terms=terms)
    step = 238  # 2^19 numbers
    parts = [whole.rows(slice(first, first + step)) for first in range(0, 700, step)]
    write_table(tmp_path / "long.parquet", tmp_path, _cumulated(iter(parts), table, fact, [_Wide()] * 99))
    found = read_table(unchecked(tmp_path / "long.parquet"), geocodes=geocodes)
    expected = counts.reshape(700, 100, 22).cumsum(axis=1).reshape(700, -1)
    assert np.array_equal(found.counts, expected)
    assert found.labels[0] == "up to 0 * 0"
    assert found.lows is not None and found.highs is not None  # noqa: PT018
    first = np.arange(query.size) < 22
    assert np.array_equal(found.lows[:, ~first], (expected - 1.0 - np.arange(700)[:, None])[:, ~first])
    assert np.array_equal(found.highs - expected, np.where(first, 1.0, 2.0) * np.ones((700, 1)))


# -- coverage ---------------------------------------------------------------------------------------------------------

AGES = ("0_4", "5_14", "15_24", "25_44", "45_64", "65_84", "85_plus")
SPEC = """
name = "ages"
[privacy]
rho = "1/2"
key = "insecure-test:1"
[geography]
file = "blocks.csv"
column = "block"
levels = { county = 1, tract = 3, block = 5 }
[schema.attributes]
age = ["0_4", "5_14", "15_24", "25_44", "45_64", "65_84", "85_plus"]
sex = ["f", "m"]
[strategy.queries]
age = "1/2"
detailed = "1/2"
[strategy.levels]
county = "1/4"
tract = "1/4"
block = "1/2"
[input]
file = "persons.csv"
form = "microdata"
geocode = "block"
[tables]
age = { query = "age", cumulative = true }
[publish]
replicates = 6
microdata = false
[postprocess]
solver = "batched"
"""


def write_ages(folder: Path) -> pd.DataFrame:
    """Write the files of a spec with ages; the persons."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(3)
    blocks = [f"{county}{tract:02d}{block:02d}" for county in "AB" for tract in range(1, 6) for block in range(1, 7)]
    pd.DataFrame({"block": blocks}).to_csv(folder / "blocks.csv", index=False)
    shares = np.array([5, 10, 12, 28, 25, 16, 4]) / 100
    persons = pd.DataFrame({"block": np.repeat(blocks, rng.poisson(120, len(blocks)))})
    persons["age"] = rng.choice(AGES, len(persons), p=shares)
    persons["sex"] = rng.choice(["f", "m"], len(persons))
    persons.to_csv(folder / "persons.csv", index=False)
    (folder / "release.toml").write_text(SPEC, "utf-8")
    return persons


def _truth(persons: pd.DataFrame, digits: int) -> NDArray[np.int64]:
    counts = persons.groupby([persons["block"].str[:digits], "age"]).size().unstack(fill_value=0)
    return np.asarray(counts[list(AGES)].cumsum(axis=1), dtype=np.int64)


def test_intervals_hold_the_truth_in_nine_of_ten_cases(tmp_path: Path) -> None:
    """Over keys, areas and values; with the margin of one value alone they do not, with margins added up too often."""
    persons, levels = write_ages(tmp_path / "in"), {"county": 1, "tract": 3, "block": 5}
    own, alone, added, widths = (defaultdict[str, list[Any]](list) for _ in range(4))
    for key in range(1, 9):
        spec = tmp_path / "in" / "release.toml"
        spec.write_text(SPEC.replace("insecure-test:1", f"insecure-test:{key}"), "utf-8")
        root = run(spec, tmp_path / f"out{key}")
        for level, digits in levels.items():
            folders = (root / "public" / kind / "age" / f"{level}.parquet" for kind in ("cumulative", "tables"))
            found, parts = (read_table(unchecked(path)) for path in folders)
            assert found.lows is not None and found.highs is not None  # noqa: PT018
            assert found.margins is not None and parts.margins is not None  # noqa: PT018
            truth = _truth(persons, digits)
            own[level].append(((found.lows <= truth) & (truth <= found.highs))[:, 1:])
            error = np.abs(found.counts - truth)[:, 1:]
            alone[level].append(error <= parts.margins[:, 1:])
            added[level].append(error <= parts.margins.cumsum(axis=1)[:, 1:])
            widths[level].append((found.margins / parts.margins.cumsum(axis=1))[:, -1].mean())
    for level in ("tract", "block"):
        covered, of_one, of_sum = (np.mean(found[level]) for found in (own, alone, added))
        assert 0.88 <= covered <= 0.97, (level, covered)
        assert of_one < 0.75, (level, of_one)
        assert of_sum > 0.97, (level, of_sum)
        assert np.mean(widths[level]) < 0.6
    assert 0.8 <= np.mean(own["county"]) <= 1.0
