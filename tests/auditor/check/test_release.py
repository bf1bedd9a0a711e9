"""The independent checker passes a release as it was made, and names every kind of fault that is put into one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from releases.command import PROJECT, environment, spinewise
from releases.once import release_once, spec_once
from releases.small import write_town

from auditor.check.release import check_release, examine
from auditor.reading.findings import FormError


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The town's release: with a companion, bounds, invariants, impossible cells and recodes."""
    return release_once(tmp_path_factory, "town", spec_once(tmp_path_factory, "town", write_town))


@pytest.fixture
def copy(released: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(released, tmp_path / "town"))


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


def test_a_release_as_it_was_made_is_right(released: Path) -> None:
    found = examine(released)
    assert found.problems == []
    assert found.n_checks > 50


def test_only_public_files_are_read(copy: Path) -> None:
    shutil.rmtree(copy / "restricted")
    assert check_release(copy) == []


FAULTS: list[tuple[str, Callable[[pd.DataFrame], pd.DataFrame], str]] = [
    ("histograms/block.parquet", moved("count", 0, 1), "sum"),
    ("histograms/tract.parquet", moved("count", 1, 3), "sum"),
    ("histograms/county.parquet", moved("count", 0, -1), "sum"),
    ("histograms/block.parquet", moved("count", 0, -1000), "whole numbers from 0"),
    ("histograms/block.parquet", lambda f: pd.concat([f, f.iloc[:1]]), "histograms/block.parquet"),
    ("histograms/block.parquet", lambda f: f.assign(geocode="99999"), "geocode"),
    ("histograms/block.parquet", lambda f: f.assign(age="unborn"), "unborn"),
    ("histograms/block.parquet", lambda f: f.drop(columns="sex"), "sex"),
    ("tables/detail/tract.parquet", lambda f: f.assign(**{f.columns[1]: f[f.columns[1]] + 1}), "tables/detail"),
    ("tables/sex/county.parquet", lambda f: f.iloc[:-1], "tables/sex/county.parquet"),
    ("tables/total/block.parquet", lambda f: f.assign(**{"total:moe90": -3.0}), "margin of error"),
    ("tables/total/block.parquet", lambda f: f.assign(**{"total:low90": f["total"] + 1.0}), "interval of 'total'"),
    (
        "tables/total/block.parquet",
        lambda f: f.assign(**{"total:high90": f["total:high90"] + 1}),
        "interval of 'total'",
    ),
    ("microdata.parquet", lambda f: f.iloc[:-1], "microdata"),
    ("microdata.parquet", lambda f: f.assign(sex="f"), "microdata"),
    ("invariants/county/total.parquet", lambda f: f.assign(value=f["value"].map(lambda v: [v[0] + 1])), "invariant"),
    ("companions/units/invariants/block/total.parquet", lambda f: f.iloc[:-1], "invariants/block/total.parquet"),
    ("spine.parquet", lambda f: f.iloc[:-1], "spine"),
]


@pytest.mark.parametrize(("file", "how", "said"), FAULTS, ids=[f"{i}-{f[0]}" for i, f in enumerate(FAULTS)])
def test_a_fault_is_named(copy: Path, file: str, how: Callable[[pd.DataFrame], pd.DataFrame], said: str) -> None:
    change(copy / "public" / file, how)
    problems = check_release(copy)
    assert problems
    assert any(said in problem for problem in problems), problems


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


@pytest.mark.parametrize(
    "file", ["histograms/tract.parquet", "microdata.parquet", "spine.parquet", "tables/total/block.parquet"]
)
def test_missing_and_damaged_files_are_problems(copy: Path, file: str) -> None:
    path = copy / "public" / file
    path.write_bytes(path.read_bytes()[:100])
    assert any(file in problem for problem in check_release(copy))
    path.unlink()
    assert any(file in problem for problem in check_release(copy))


def test_the_spec_is_read_from_the_manifest_alone(copy: Path) -> None:
    manifest = copy / "public" / "manifest.json"
    content = json.loads(manifest.read_text(encoding="utf-8"))
    content["spec"]["invariants"] = {"block": ["total"]}
    manifest.write_text(json.dumps(content), encoding="utf-8")
    assert any("invariants/block/total.parquet" in problem for problem in check_release(copy))


def test_without_a_finished_release_the_message_says_so(tmp_path: Path) -> None:
    with pytest.raises(FormError, match="no finished release is here"):
        check_release(tmp_path)
    done = spinewise("verify", "--constraints", tmp_path)
    assert done.returncode == 2
    assert "no finished release is here" in done.stderr


def test_it_shares_no_code_with_what_it_checks() -> None:
    """What the checker imports, in a process of its own."""
    code = "import sys, auditor.check.release; print('\\n'.join(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True, cwd=PROJECT
    )
    loaded = set(done.stdout.split())
    first = {"geography", "postprocess", "pipeline", "features", "flows", "spinewise"}
    assert {name for name in loaded if name.split(".")[0] in {*first, "cvxpy", "ortools", "scipy"}} == set()


def test_the_command_says_what_it_found(released: Path, copy: Path) -> None:
    done = spinewise("verify", "--constraints", released)
    assert done.returncode == 0
    assert "every constraint of the spec holds" in done.stdout
    change(copy / "public" / "histograms" / "block.parquet", moved("count", 0, 1))
    done = spinewise("verify", "--constraints", copy)
    assert done.returncode == 1
    assert "does not keep its spec" in done.stderr


def test_a_file_with_the_same_rows_and_other_bytes_is_named(copy: Path) -> None:
    """Every constraint holds in it, and it is not the release's."""
    path = copy / "public" / "histograms" / "block.parquet"
    pq.write_table(pq.read_table(path), path, compression="gzip")
    assert check_release(copy) == []
    done = spinewise("verify", "--constraints", copy)
    assert done.returncode == 1
    assert "public/histograms/block.parquet was changed: its hash is not the one in the manifest" in done.stderr
