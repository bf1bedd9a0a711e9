"""Cumulative numbers: what the spec means, how they are read and judged, and intervals that hold the truth."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from releases.changed import not_refused
from releases.made_case import made_case
from releases.small import SPEC as TOWN
from releases.small import run
from releases.wide import SPEC as WIDE

from auditor.check.release import check_release
from features.cumulative.cumulated import Cumulated, cumulated_in
from features.cumulative.files import _cumulated
from pipeline.errors import InputError, SpecError
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.model.universe import Table
from pipeline.reading.release import open_release
from pipeline.release.long_tables import is_long
from pipeline.release.tables import ReleasedTable, long_terms, read_table, write_table
from pipeline.spec.release_spec import ReleaseSpec, parse_spec
from pipeline.storage.paths import unchecked


@pytest.fixture
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small town with running sums, which the matrix makes."""
    return made_case(tmp_path_factory, "cumulative") / "out" / "town"


def test_readers_have_them_wherever_they_ask_for_these_numbers(town: Path, tmp_path: Path) -> None:
    """`--show cumulative` and a sum of the same cells have the published interval; tidy rows and refusals."""
    release = open_release(town)
    copy = Path(shutil.copytree(town, tmp_path / "town"))
    _, wrong = not_refused(copy / "public", lambda: open_release(copy).table("age", "tract", cumulative=True))
    assert wrong == []
    published = release.table("age", "tract", cumulative=True)
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
    shutil.copytree(town / "public", tmp_path / "public")
    path = tmp_path / "public" / "cumulative" / f"{file}.parquet"
    if change is None:
        path.unlink()
    else:
        _changed(path, change)
    (told, *_) = check_release(tmp_path)
    assert sentence in told


def _wide(counts: NDArray[np.int64], rows: slice) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """An interval for every number that says which number it is of: from so many less to its number more."""
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
    write_table(tmp_path / "long.parquet", tmp_path, _cumulated(iter(parts), table, fact, [_wide] * 99))
    found = read_table(unchecked(tmp_path / "long.parquet"), geocodes=geocodes)
    expected = counts.reshape(700, 100, 22).cumsum(axis=1).reshape(700, -1)
    assert np.array_equal(found.counts, expected)
    assert found.labels[0] == "up to 0 * 0"
    assert found.lows is not None and found.highs is not None  # noqa: PT018
    first = np.arange(query.size) < 22
    assert np.array_equal(found.lows[:, ~first], (expected - 1.0 - np.arange(700)[:, None])[:, ~first])
    assert np.array_equal(found.highs - expected, np.where(first, 1.0, 2.0) * np.ones((700, 1)))


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


@pytest.mark.slow
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


#: Attributes that have an order, or none.
SCHEMA = """
[schema.attributes]
age = ["0_4", "5_9", "10_14", "15_plus"]
sex = ["f", "m"]
income = ["under_10k", "10k_100k", "100k_1m", "1m_plus"]
decade = ["10s", "90s", "00s"]
one = ["all"]

[schema.recodes.school]
attribute = "age"
groups = { before = ["0_4"], at = ["5_9", "10_14"], after = ["15_plus"] }

[schema.recodes.mixed]
attribute = "age"
groups = { ends = ["0_4", "15_plus"], middle = ["5_9", "10_14"] }

[schema.recodes.backwards]
attribute = "age"
groups = { old = ["10_14", "15_plus"], young = ["0_4", "5_9"] }
"""
BEGIN = """
name = "ages"
privacy = { rho = "1", key = "insecure-test:1" }
geography = { file = "blocks.csv", column = "block", levels = { county = 1, block = 5 } }
strategy = { queries = { detailed = "1" }, levels = { county = "1/2", block = "1/2" } }
"""


def table(stated: str) -> Table:
    """The table `people` of a spec that states it so."""
    (found,) = parse_spec(f"{BEGIN}{SCHEMA}\n[tables.people]\n{stated}\n").universes()[0].tables
    return found


@pytest.mark.parametrize(
    ("stated", "term", "labels"),
    [
        ('query = "age"\ncumulative = true', "age", ["up to 0_4", "up to 5_9", "up to 10_14", "up to 15_plus"]),
        ('query = "school"\ncumulative = true', "school", ["up to before", "up to at", "up to after"]),
        ('query = "sex * one"\ncumulative = true', "sex", ["up to f * all", "up to m * all"]),
        ('query = "school * sex"\ncumulative = "school"', "school", None),
        ('query = "sex * income"\ncumulative = "income"', "income", None),
        ('query = "sex"\ncumulative = "sex"', "sex", ["up to f", "up to m"]),
    ],
)  # fmt: skip
def test_numbers_are_those_up_to_each_value(stated: str, term: str, labels: list[str] | None) -> None:
    """The queries of a table are of the cells up to a value, by brute force over all cells."""
    found = table(stated)
    fact = cumulated_in(found)
    assert fact is not None
    assert fact.term == term
    query = fact.query(found)
    if labels is not None:
        assert list(query.answer_labels()) == labels
    assert query.size == found.query.size
    counts = np.random.default_rng(1).integers(0, 50, (3, len(query.cell_answer)))
    answers = np.stack([np.bincount(found.query.cell_answer, row, query.size) for row in counts]).astype(int)
    labels_of = found.query.labels_of(term)
    order = {label: number for number, label in enumerate(dict.fromkeys(labels_of))}
    rest = [found.query.labels_of(one) for one in found.query.terms if one != term]
    others = [tuple(str(labels[answer]) for labels in rest) for answer in range(query.size)]
    for one, columns in fact.answers_in_file(found):
        cut = np.stack([np.bincount(one.cell_answer, row, one.size) for row in counts]).astype(int)
        assert (columns >= 0).sum() == query.size // len(order)
        for answer, column in enumerate(columns.tolist()):
            if column >= 0:
                up_to = [
                    a for a in range(query.size)
                    if others[a] == others[column] and order[labels_of[a]] <= order[labels_of[column]]
                ]  # fmt: skip
                assert np.array_equal(cut[:, answer], answers[:, up_to].sum(axis=1))
    assert not {one.name for one in fact.tabulated(found)} & {"people"}


@pytest.mark.parametrize(
    ("query", "term", "told"),
    [
        ("total", "true", "the query 'total' has 0 attributes with several values"),
        ("age", '"sex"', "'sex' is not in the query 'age'; name one of age"),
        ("age", '""', "'' is not in the query 'age'; name one of age"),
        ("total", '"sex"', "'sex' is not in the query 'total'; name one of none"),
        ("one", '"one"', "'one' has one value; an attribute with several values"),
        ("mixed", "true", "'mixed' are in no order: 'ends' has '15_plus', which stands after '10_14' of 'middle'"),
        ("backwards", "true", "the groups of 'backwards' are in no order"),
        ("decade", "true", "the values of 'decade' are in no order: '00s' stands after '90s'"),
        ("age", "1", "found the number 1; true, or the name of an attribute"),
    ],
)  # fmt: skip
def test_what_has_no_order_is_refused_in_one_sentence(query: str, term: str, told: str) -> None:
    with pytest.raises(SpecError) as refused:
        table(f'query = "{query}"\ncumulative = {term}')
    (line,) = str(refused.value).splitlines()
    assert line.startswith("spec: tables.people.cumulative: ")
    assert told in line


def _labels_in_order(rng: np.random.Generator) -> list[str]:
    """Classes of rising numbers as offices write them: a minus, marks between thousands, a currency, an open end."""
    ends = np.unique(np.concatenate([rng.integers(-20_000, 20_000, 6), rng.integers(-50, 50, 4), [999, 1000]]))
    ends = ends if rng.random() < 0.5 else ends[ends >= 0]
    mark, currency = rng.choice(["", ",", ".", "'", " ", "\u202f"]), rng.choice(["", "$", "EUR "])
    minus, between = rng.choice(["-", "\u2212"]), rng.choice([" to ", "..", "-"])

    def text(number: int) -> str:
        digits = f"{abs(number):,}".replace(",", mark)
        return f"{minus}{digits}" if number < 0 else f"{currency}{digits}"

    classes = [f"{text(low)}{between}{text(high - 1)}" for low, high in pairwise(ends.tolist())]
    return [*classes, f"{text(int(ends[-1]))} and more"]


def test_numbers_in_order_are_taken_however_they_are_written() -> None:
    """And never the other way round, where every way to read them falls."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        labels = _labels_in_order(rng)
        stated = BEGIN + f"[schema.attributes]\nvalue = {json.dumps(labels, ensure_ascii=False)}\n"
        people = "[tables.people]\nquery = 'value'\ncumulative = true\n"
        (found,) = parse_spec(stated + people).universes()[0].tables
        assert cumulated_in(found) is not None, labels
        if any(label[0] in "-\u2212" for label in labels):
            continue  # turned round, and with no minus for a minus, these may rise
        turned = json.dumps(labels[::-1], ensure_ascii=False)
        with pytest.raises(SpecError, match="are in no order"):
            parse_spec(BEGIN + f"[schema.attributes]\nvalue = {turned}\n" + people)


def test_tables_that_are_estimated_together_are_not_cumulated() -> None:
    pytest.importorskip("features.marginals")
    with pytest.raises(SpecError, match=r"^spec: tables\.age\.cumulative: not with \[marginals\]"):
        parse_spec(f"{WIDE}\n[tables]\nage = {{ query = 'age', cumulative = true }}\n")


def test_the_published_spec_has_it_as_it_was_stated() -> None:
    """What is measured, and with what noise, is the same with and without; old specs have no new key."""
    of_main = 'total = "total"\nsex ='
    stated = TOWN.replace(of_main, 'total = "total"\nage = { query = "age", cumulative = true }\nsex =')
    spec, without = parse_spec(stated), parse_spec(stated.replace(", cumulative = true", ""))
    tables, plain = (dict(one.public_dict()["tables"]) for one in (spec, without))
    assert tables["age"] == {**plain["age"], "cumulative": True}
    assert [one.privacy_fingerprint() for one in spec.universes()] == [
        one.privacy_fingerprint() for one in without.universes()
    ]
    again = ReleaseSpec.from_public_dict(spec.public_dict())
    assert again.public_dict() == spec.public_dict()
    assert [cumulated_in(one) for one in again.universes()[0].tables] == [
        cumulated_in(one) for one in spec.universes()[0].tables
    ]
    assert "cumulative" not in str(without.public_dict())
    assert len(spec.universes()[0].tabulated) == len(without.universes()[0].tabulated) + 2
