"""Two releases side by side: differences, margins, what they state, and what cannot be compared."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from releases.command import printed
from releases.mutant import resealed
from releases.small import QUICK, run, write_town

from pipeline.errors import InputError, ReleaseError
from pipeline.reading.compare import Change, Comparison, compare
from pipeline.reading.reader import open_reader

#: The town; with another key; of another estimator; with another budget and fewer tables.
CHANGES = {
    "town": (),
    "other key": (('key = "insecure-test:1"', 'key = "insecure-test:2"'),),
    "topdown": (('solver = "batched"', 'solver = "batched"\nestimator = "topdown"'),),
    "poor": (
        ('rho = "2"\n', 'rho = "1/8"\n'),
        ('total = "total"\n', ""),
        ('detail = "detailed"\n', ""),
        ('name = "town"', 'name = "poor"'),
    ),
}


@pytest.fixture(scope="module")
def towns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("towns")
    plain = (*QUICK, ("unbiased = true", "microdata = false"))
    return {
        name: run(write_town(folder / name, *plain, *changes), folder / name / "releases")
        for name, changes in CHANGES.items()
    }


def compared(towns: dict[str, Path], other: str) -> Comparison:
    return compare(open_reader(towns["town"]), open_reader(towns[other]))


def test_differences_are_those_of_the_files(towns: dict[str, Path]) -> None:
    found = compared(towns, "other key")
    assert not found.same_measurements
    assert not found.statements, "the key is not part of the spec"
    assert {(row.universe, row.table) for row in found.tables} == {
        ("", "total"), ("", "sex"), ("", "detail"), ("units", "total"), ("units", "status"),
    }  # fmt: skip
    (row,) = (row for row in found.tables if (row.table, row.level) == ("detail", "block"))
    left, right = (
        pd.read_parquet(towns[name] / "public" / "tables" / "detail" / "block.parquet").set_index("geocode")
        for name in ("town", "other key")
    )
    labels = [name for name in left.columns if ":" not in name]
    moes = [f"{name}:moe90" for name in labels]
    difference = (right[labels] - left[labels]).to_numpy()
    margin = np.sqrt(left[moes].to_numpy() ** 2 + right[moes].to_numpy() ** 2)
    assert row.geounits == len(left)
    assert row.mean_absolute == pytest.approx(np.abs(difference).mean())
    assert row.bias == pytest.approx(difference.mean())
    assert row.equal == pytest.approx((difference == 0).mean())
    assert row.first_margin == pytest.approx(left[moes].to_numpy().mean())
    assert row.beyond == pytest.approx((np.abs(difference) > margin).mean())
    assert abs(row.largest[0].second - row.largest[0].first) == np.abs(difference).max()


def test_what_differs_in_the_specs_is_stated(towns: dict[str, Path]) -> None:
    """Of the same measurements nothing is beyond noise; of a poorer release margins are wider, and tables missing."""
    same, poor = compared(towns, "topdown"), compared(towns, "poor")
    assert same.same_measurements
    stated = [(one.key, one.first, one.second) for one in same.statements]
    assert stated == [("postprocess.estimator", "full", "topdown")]
    assert all(row.beyond is None for row in same.tables)
    assert {one.verdict for one in same.of_area("B02").changes} == {""}
    assert {one.key for one in poor.statements} >= {"privacy.rho", "name"}
    assert {str(one) for one in poor.left_out} == {
        f"table {table} at {level} is in the first only"
        for table in ("total", "detail")
        for level in ("county", "tract", "block")
    }
    back = compare(open_reader(towns["poor"]), open_reader(towns["town"]))
    assert {str(one).replace("second", "first") for one in back.left_out} == {str(one) for one in poor.left_out}
    (row,) = (row for row in poor.tables if (row.universe, row.table, row.level) == ("", "sex", "tract"))
    assert row.first_margin is not None
    assert row.second_margin is not None
    assert row.second_margin > row.first_margin


@pytest.mark.parametrize(("area", "level"), [("B02", "tract"), ("A", "county")])
def test_the_changes_of_an_area_are_those_of_its_tables(towns: dict[str, Path], area: str, level: str) -> None:
    """Every number of it, and the verdicts by the root of the sum of the squared margins."""
    found = compared(towns, "other key").of_area(area)
    assert (found.level, found.geocode) == (level, area)
    seen = set()
    for one in found.changes:
        seen.add((one.universe, one.table))
        folder = ("public", "companions", one.universe) if one.universe else ("public",)
        rows: list[Any] = [
            pd.read_parquet(towns[name].joinpath(*folder, "tables", one.table, f"{level}.parquet"))
            .set_index("geocode")
            .loc[[area]]
            .to_dict("records")[0]
            for name in ("town", "other key")
        ]
        assert (one.first, one.second) == tuple(int(row[one.label]) for row in rows)
        margin = float(np.linalg.norm([float(row[f"{one.label}:moe90"]) for row in rows]))
        assert one.margin == pytest.approx(margin)
        assert one.verdict == Change("", "x", "x", one.first, one.second, margin).verdict
    assert seen == {("", "total"), ("", "sex"), ("", "detail"), ("units", "total"), ("units", "status")}
    with pytest.raises(InputError, match="town: no area has the geocode or the name 'Z99'"):
        compared(towns, "other key").of_area("Z99")


@pytest.mark.parametrize(
    ("first", "second", "margin", "verdict"),
    [(10, 14, 3.0, "rose"), (14, 10, 3.0, "fell"), (10, 13, 3.0, "cannot tell"), (7, 7, 0.0, "equal"),
     (7, 8, 0.0, "rose"), (7, 9, None, "")],
)  # fmt: skip
def test_a_number_rose_if_the_change_exceeds_its_margin(
    first: int, second: int, margin: float | None, verdict: str
) -> None:
    assert Change("", "total", "total", first, second, margin).verdict == verdict


def test_a_geocode_that_is_there_twice_is_named(towns: dict[str, Path], tmp_path: Path) -> None:
    """Its two rows are not joined with those of the other release, which would count it twice."""
    spoilt = Path(shutil.copytree(towns["town"], tmp_path / "town"))
    path = spoilt / "public" / "tables" / "sex" / "tract.parquet"
    rows = pq.read_table(path)
    pq.write_table(pa.concat_tables([rows, rows.slice(2, 1)]), path)
    resealed(spoilt)
    with pytest.raises(ReleaseError, match="is damaged: it has several rows for the geocode"):
        compare(open_reader(towns["other key"]), open_reader(spoilt))


def test_the_command(towns: dict[str, Path]) -> None:
    """Text and JSON."""
    found = compared(towns, "other key")
    words = ("compare", towns["town"], towns["other key"])
    data = json.loads(printed(*words, "--area", "B02", "--json"))
    assert data["first"]["budget"] == {"": "2", "units": "1"}
    assert data["areas"] == [found.of_area("B02").data()]
    told = [" ".join(line.split()) for line in printed(*words, "--area", "B02", "--area", "A").splitlines()]
    assert [line for line in told if line.startswith(("tract ", "county "))] == ["tract B02", "county A"]
    for one in (one for area in ("B02", "A") for one in found.of_area(area).changes if one.table == "sex"):
        change = one.second - one.first
        numbers = f"{one.label} {one.first:,} {one.second:,} {change:+,} ±{one.margin:,.1f} {one.verdict}"
        assert [line for line in told if line.endswith(numbers)] != [], numbers
