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
from releases.mutant import resealed
from releases.small import run, write_town
from typer.testing import CliRunner

from flows.cli import app
from pipeline.errors import InputError, ReleaseError
from pipeline.reading.compare import Change, Comparison, compare
from pipeline.reading.reader import open_reader

PLAIN = (("replicates = 3\nunbiased = true", "replicates = 1\nmicrodata = false"),)


@pytest.fixture(scope="module")
def towns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The town, with another key, another estimator, and another budget and fewer tables."""
    changes = {
        "other key": (('key = "insecure-test:1"', 'key = "insecure-test:2"'),),
        "topdown": (("[publish]", '[postprocess]\nestimator = "topdown"\n\n[publish]'),),
        "poor": (('rho = "2"\n', 'rho = "1/8"\n'), ('detail = "detailed"\n', ""), ('name = "town"', 'name = "poor"')),
    }
    out = {}
    for name, change in changes.items():
        folder = tmp_path_factory.mktemp("town")
        out[name] = run(write_town(folder, *PLAIN, *change), folder / "releases")
    folder = tmp_path_factory.mktemp("town")
    out["town"] = run(write_town(folder, *PLAIN), folder / "releases")
    return out


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
    labels = [name for name in left.columns if not name.endswith((":moe90", ":low90", ":high90"))]
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


def test_another_estimator_of_the_same_measurements(towns: dict[str, Path]) -> None:
    found = compared(towns, "topdown")
    assert found.same_measurements
    assert [(one.key, one.first, one.second) for one in found.statements] == [
        ("postprocess.estimator", "full", "topdown")
    ]
    assert all(row.beyond is None for row in found.tables)
    assert "the same noisy measurements" in str(found.remark)


def test_another_budget_and_other_tables(towns: dict[str, Path]) -> None:
    found = compared(towns, "poor")
    stated = {one.key: (one.first, one.second) for one in found.statements}
    assert stated["privacy.rho"] == ("2", "1/8")
    assert stated["name"] == ("town", "poor")
    assert tuple(map(str, found.left_out)) == (
        "table detail at county is in the first only",
        "table detail at tract is in the first only",
        "table detail at block is in the first only",
    )
    (row,) = (row for row in found.tables if (row.universe, row.table, row.level) == ("", "sex", "tract"))
    assert row.first_margin is not None
    assert row.second_margin is not None
    assert row.second_margin > row.first_margin


def test_a_geocode_that_is_there_twice_is_named(towns: dict[str, Path], tmp_path: Path) -> None:
    """Its two rows are not joined with those of the other release, which would count it twice."""
    spoilt = tmp_path / "town"
    shutil.copytree(towns["town"], spoilt)
    path = spoilt / "public" / "tables" / "sex" / "tract.parquet"
    rows = pq.read_table(path)
    code = rows["geocode"][2].as_py()
    pq.write_table(pa.concat_tables([rows, rows.slice(2, 1)]), path)
    resealed(spoilt)
    with pytest.raises(ReleaseError) as caught:
        compare(open_reader(towns["other key"]), open_reader(spoilt))
    assert str(caught.value) == f"{path} is damaged: it has several rows for the geocode {code!r}"
    ended = CliRunner().invoke(app, ["compare", str(towns["other key"]), str(spoilt)])
    assert ended.exception is not None
    assert str(ended.exception) == str(caught.value)


def test_the_changes_of_an_area_are_those_of_its_tables(towns: dict[str, Path]) -> None:
    """Every number of a tract, and the verdicts by the root of the sum of the squared margins."""
    found = compared(towns, "other key").of_area("B02")
    assert (found.level, found.geocode) == ("tract", "B02")
    seen = set()
    for one in found.changes:
        seen.add((one.universe, one.table))
        folder = ("public", "companions", one.universe) if one.universe else ("public",)
        rows: list[Any] = [
            pd.read_parquet(towns[name].joinpath(*folder, "tables", one.table, "tract.parquet"))
            .set_index("geocode")
            .loc[["B02"]]
            .to_dict("records")[0]
            for name in ("town", "other key")
        ]
        first, second = (int(row[one.label]) for row in rows)
        assert (one.first, one.second) == (first, second)
        margin = float(np.linalg.norm([float(row[f"{one.label}:moe90"]) for row in rows]))
        assert one.margin == pytest.approx(margin)
        change = second - first
        told = "equal" if change == margin == 0 else "cannot tell" if abs(change) <= margin else None
        assert one.verdict == (told or ("rose" if change > 0 else "fell"))
    assert seen == {("", "total"), ("", "sex"), ("", "detail"), ("units", "total"), ("units", "status")}


@pytest.mark.parametrize(
    ("first", "second", "margin", "verdict"),
    [(10, 14, 3.0, "rose"), (14, 10, 3.0, "fell"), (10, 13, 3.0, "cannot tell"), (7, 7, 0.0, "equal"),
     (7, 8, 0.0, "rose"), (7, 9, None, "")],
)  # fmt: skip
def test_a_number_rose_if_the_change_exceeds_its_margin(
    first: int, second: int, margin: float | None, verdict: str
) -> None:
    assert Change("", "total", "total", first, second, margin).verdict == verdict


def test_the_total_of_an_area_comes_first_where_no_table_is_of_it(tmp_path: Path) -> None:
    """Its number and margin are those that a query of either release gives."""
    parts = []
    for key in (1, 2):
        changes = (('key = "insecure-test:1"', f'key = "insecure-test:{key}"'), ('total = "total"\n', ""))
        parts.append(run(write_town(tmp_path / str(key), *PLAIN, *changes), tmp_path / str(key) / "releases"))
    first, second = map(open_reader, parts)
    assert not [one.name for one in first.universe.tables if one.query.size == 1]
    found = compare(first, second).of_area("B02").changes[0]
    left, right = (one.query("total").at("tract").loc["B02"] for one in (first, second))
    assert (found.table, found.label, found.first, found.second) == ("", "total", left["total"], right["total"])
    assert found.margin == pytest.approx(np.hypot(left["total:moe90"], right["total:moe90"]))
    assert left["total:moe90"] > 0


def test_the_command_shows_the_changes_of_an_area(towns: dict[str, Path]) -> None:
    both = [str(towns["town"]), str(towns["other key"])]
    shown = CliRunner().invoke(app, ["compare", *both, "--area", "B02", "--area", "A"])
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[0] == "tract B02"
    assert "county A" in shown.stdout
    assert "The noise of the two is independent" in shown.stdout
    data = json.loads(CliRunner().invoke(app, ["compare", *both, "--area", "B02", "--json"]).stdout)
    assert data["areas"] == [compared(towns, "other key").of_area("B02").data()]
    same = compared(towns, "topdown").of_area("B02")
    assert {one.verdict for one in same.changes} == {""}
    with pytest.raises(InputError, match="town: no area has the geocode or the name 'Z99'"):
        compared(towns, "other key").of_area("Z99")
