"""The independent checker passes a release as it was made, and names every kind of fault; its guard is a copy."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from releases.command import PROJECT, spinewise

from auditor.check.release import check_release, examine


@pytest.fixture
def copy(town: Path, tmp_path: Path) -> Path:
    """With a companion, bounds, invariants, impossible cells and recodes."""
    return Path(shutil.copytree(town, tmp_path / "town"))


def change(path: Path, how: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    frame = pd.read_parquet(path)
    for name in frame.columns:
        if isinstance(frame[name].dtype, pd.CategoricalDtype):
            frame[name] = frame[name].astype(str)
    how(frame).to_parquet(path, index=False)


def moved(column: str, row: int, by: int) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def apply(frame: pd.DataFrame) -> pd.DataFrame:
        frame.loc[frame.index == row, column] += by
        return frame

    return apply


def test_a_release_as_it_was_made_is_right_by_its_public_files_alone(copy: Path) -> None:
    shutil.rmtree(copy / "restricted")
    found = examine(copy)
    assert found.problems == []
    assert found.n_checks > 50


#: Changes of different files, that are made in one copy: each file's problem says so.
Fault = tuple[str, Callable[[pd.DataFrame], pd.DataFrame], str]


FAULTS: list[list[Fault]] = [
    [
        ("histograms/block.parquet", moved("count", 0, 1), "sum"),
        ("tables/detail/tract.parquet", lambda f: f.assign(**{f.columns[1]: f[f.columns[1]] + 1}), "tables/detail"),
        ("tables/sex/county.parquet", lambda f: f.iloc[:-1], "tables/sex/county.parquet"),
        ("tables/total/block.parquet", lambda f: f.assign(**{"total:moe90": -3.0}), "margin of error"),
        ("microdata.parquet", lambda f: f.iloc[:-1], "microdata"),
        (
            "invariants/county/total.parquet",
            lambda f: f.assign(value=f["value"].map(lambda v: [v[0] + 1])),
            "invariant",
        ),
        ("companions/units/invariants/block/total.parquet", lambda f: f.iloc[:-1], "invariants/block/total.parquet"),
    ],
    [
        (
            "tables/total/block.parquet",
            lambda f: f.assign(**{"total:low90": f["total"] + 1.0}),
            "'total', its interval",
        ),
        ("microdata.parquet", lambda f: f.assign(sex="f"), "microdata"),
        ("histograms/block.parquet", moved("count", 0, -1000), "whole numbers from 0"),
    ],
    [("histograms/block.parquet", lambda f: pd.concat([f, f.iloc[:1]]), "histograms/block.parquet")],
    [("histograms/block.parquet", lambda f: f.assign(geocode="99999"), "geocode")],
    [("histograms/block.parquet", lambda f: f.assign(age="unborn"), "unborn")],
    [("histograms/block.parquet", lambda f: f.drop(columns="sex"), "sex")],
    [("spine.parquet", lambda f: f.iloc[:-1], "spine")],
]


@pytest.mark.parametrize("faults", FAULTS, ids=lambda faults: f"{len(faults)} {faults[0][0]}")
def test_each_fault_is_named(copy: Path, faults: list[Fault]) -> None:
    for file, how, _ in faults:
        change(copy / "public" / file, how)
    problems = check_release(copy)
    for file, _, said in faults:
        assert any(said in problem and Path(file).stem in problem for problem in problems), (file, problems)


def with_facilities(copy: Path, column: str, number: int) -> None:
    (path,) = (copy / "public" / "constraints").glob("*.parquet")
    frame = pd.read_parquet(path)
    name = next(c for c in frame.columns if column in c)
    frame[name] = number
    frame.to_parquet(path, index=False)


@pytest.mark.parametrize(("number", "said"), [(0, "0"), (1000, "1000")])
def test_bounds_are_kept_in_every_geounit(copy: Path, number: int, said: str) -> None:
    with_facilities(copy, "dorm", number)
    assert any("dorm" in problem and said in problem.replace(",", "") for problem in check_release(copy))


def test_structural_zeros_are_empty(copy: Path) -> None:
    """A child in prison, moved there in every file alike, so that only the structural zero is broken."""

    def jail(frame: pd.DataFrame) -> pd.DataFrame:
        frame.loc[frame["age"] == "child", "quarters"] = "prison"
        keys = [name for name in frame.columns if name != "count"]
        return frame.groupby(keys, as_index=False).agg({"count": "sum"}) if "count" in frame else frame

    for level in ("county", "tract", "block"):
        change(copy / "public" / "histograms" / f"{level}.parquet", jail)
    assert any("structural" in problem or "impossible" in problem for problem in check_release(copy))


def test_missing_and_damaged_files_are_problems(copy: Path) -> None:
    files = ["histograms/tract.parquet", "microdata.parquet", "tables/total/block.parquet"]
    damages: list[Callable[[Path], object]] = [lambda path: path.write_bytes(path.read_bytes()[:100]), Path.unlink]
    for damage in damages:
        for file in files:
            damage(copy / "public" / file)
        problems = check_release(copy)
        assert [file for file in files if not any(file in problem for problem in problems)] == []
    (copy / "public" / "spine.parquet").unlink()
    assert any("spine.parquet" in problem for problem in check_release(copy))


def test_the_command_names_a_file_with_the_same_rows_and_other_bytes_and_a_wrong_number(copy: Path) -> None:
    """Of the first every constraint holds, and it is not the release's."""
    path = copy / "public" / "histograms" / "block.parquet"
    pq.write_table(pq.read_table(path), path, compression="gzip")
    assert check_release(copy) == []
    done = spinewise("verify", "--constraints", copy)
    assert done.returncode == 1
    assert "public/histograms/block.parquet is not the file that is listed" in done.stderr
    change(path, moved("count", 0, 1))
    done = spinewise("verify", "--constraints", copy)
    assert (done.returncode, "does not keep its spec" in done.stderr) == (1, True)


#: What the copy has in place of the first program's words.
OTHERS = (
    ("pipeline.storage.paths import check_regular, local_name", "auditor.reading.regular import check_regular"),
    ("local_name(path)", "str(path.absolute())"),
    ("pipeline.errors", "auditor.reading.findings"),
    ("pipeline.storage", "auditor.reading"),
    ("ReleaseError", "FormError"),
)


def test_the_guard_is_the_same() -> None:
    first = (PROJECT / "pipeline" / "storage" / "guard.py").read_text("utf-8")
    for here, there in OTHERS:
        first = first.replace(here, there)
    second = (PROJECT / "auditor" / "reading" / "guard.py").read_text("utf-8")
    assert ast.dump(ast.parse(second)) == ast.dump(ast.parse(first)), "auditor/reading/guard.py is to be copied anew"
