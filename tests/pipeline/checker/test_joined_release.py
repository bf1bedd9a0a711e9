"""A whole release of joined universes: the checker passes it, and finds one person moved to another household."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from releases.again import computed_again
from releases.one_town import write_one_town
from releases.small import run

from flows.execution.progress import Silent
from flows.publishing.steps import perform_public_steps
from flows.runs.verify import verify_release
from pipeline.checker.release import check_release, examine
from pipeline.release.layout import RunDirectory


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(write_one_town(tmp_path_factory.mktemp("in")), tmp_path_factory.mktemp("out"))


def test_a_joined_release_as_it_was_made_is_right(released: Path) -> None:
    found = examine(released)
    assert found.problems == []
    assert found.n_checks > 50
    people = pd.read_parquet(released / "public" / "microdata.parquet")
    homes = pd.read_parquet(released / "public" / "companions" / "homes" / "microdata.parquet")
    assert people["household"].isna().tolist() == (people["quarters"] == "dorm").tolist()
    sizes = [str(members) if members < 5 else "5+" for members in homes["members"].tolist()]
    assert sizes == homes["size"].astype(str).tolist()
    assert homes["members"].max() <= 7
    holders = people[people["role"] == "holder"].set_index("household")["age"].astype(str)
    assert holders.sort_index().tolist() == homes["holder_age"].astype(str).tolist()
    children = set(people.loc[people["age"].isin(["baby", "teen"]), "household"])
    assert (homes["household"].isin(children) == (homes["kids"] == "some")).all()


def test_one_person_in_another_household_is_found(released: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(released, tmp_path / "town"))
    path = copy / "public" / "microdata.parquet"
    frame = pd.read_parquet(path)
    frame = frame.assign(**{name: frame[name].astype(str) for name in frame.columns if name != "household"})
    frame["household"] = frame["household"].astype("Int64")
    homes = pd.read_parquet(copy / "public" / "companions" / "homes" / "microdata.parquet")
    block = homes["geocode"].astype(str).value_counts().idxmax()
    first, last = (int(number) for number in homes.loc[homes["geocode"] == block, "household"].iloc[[0, -1]])
    frame.loc[frame.index[frame["household"] == first][0], "household"] = last
    frame.to_parquet(path, index=False)
    problems = check_release(copy)
    assert any(f"household {first:,} states" in problem for problem in problems)
    assert any(f"household {last:,}, members in 'home'" in problem and "1 too many" in problem for problem in problems)


def test_verify_computes_the_households_of_persons_again(released: Path, tmp_path: Path) -> None:
    assert verify_release(RunDirectory(released), 1, Silent()) == []
    copy = Path(shutil.copytree(released, tmp_path / "town"))
    path = copy / "public" / "microdata.parquet"
    pd.read_parquet(path).iloc[::-1].to_parquet(path, index=False)
    assert any("microdata.parquet" in problem for problem in verify_release(RunDirectory(copy), 1, Silent()))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_spine_that_is_cut_gives_the_same_households(released: Path, tmp_path: Path, workers: int) -> None:
    with computed_again(released, tmp_path / "again", 1, 250, workers) as job:
        perform_public_steps(job, report=False)
        again = RunDirectory(job.run.root)
    for name in ("", "homes"):
        path = RunDirectory(released).universe(name).microdata
        assert again.universe(name).microdata.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("key", ["others", "companion"])
def test_a_join_without_a_key_is_reported(released: Path, tmp_path: Path, key: str) -> None:
    copy = Path(shutil.copytree(released, tmp_path / "town"))
    path = copy / "public" / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    del manifest["spec"]["join"][1][key]
    path.write_text(json.dumps(manifest), "utf-8")
    assert any(f"'{key}' is missing" in problem for problem in check_release(copy))
