"""Tables of persons and households as ActivitySim reads them, from a release of joined universes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.one_town import write_one_town
from releases.small import run

from features.exports.population import _numbers_in_household
from features.exports.release import export_release
from pipeline.errors import InputError
from pipeline.published import open_finished


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(write_one_town(tmp_path_factory.mktemp("in")), tmp_path_factory.mktemp("out"))


def test_persons_find_their_households(released: Path, tmp_path: Path) -> None:
    out = export_release(open_finished(released, check_hashes=True), "activitysim", tmp_path / "asim")
    assert sorted(path.name for path in out.iterdir()) == [
        "STATUS.txt", "households.csv", "persons.csv", "persons_outside.csv"
    ]  # fmt: skip
    # As ActivitySim reads them, by the index columns of its settings.
    households = pd.read_csv(out / "households.csv", index_col="household_id")
    persons = pd.read_csv(out / "persons.csv", index_col="person_id")
    outside = pd.read_csv(out / "persons_outside.csv", index_col="person_id")
    assert list(households.columns) == [
        "home_zone_id", "county", "tract", "hhsize", "size", "holder_age", "kids", "tenure"
    ]  # fmt: skip
    assert list(persons.columns) == ["household_id", "PNUM", "quarters", "role", "age", "sex"]
    assert list(outside.columns) == ["home_zone_id", "county", "tract", "quarters", "role", "age", "sex"]
    assert households.index.is_unique
    assert persons["household_id"].isin(households.index).all()
    assert (persons.groupby("household_id").size().reindex(households.index) == households["hhsize"]).all()
    assert (persons.groupby("household_id")["PNUM"].max() == households["hhsize"]).all()
    assert not persons.duplicated(["household_id", "PNUM"]).any()
    microdata = pd.read_parquet(released / "public" / "microdata.parquet")
    assert sorted([*persons.index, *outside.index]) == list(range(1, len(microdata) + 1))
    assert (outside["quarters"] == "dorm").all()
    back = microdata.iloc[persons.index - 1]
    assert np.array_equal(back["household"].to_numpy(), persons["household_id"].to_numpy())
    assert (back["age"].astype(str).to_numpy() == persons["age"].to_numpy()).all()
    assert (households["tract"] == households["home_zone_id"].str[:3]).all()


def test_numbers_go_on_where_a_household_is_cut() -> None:
    seen = np.zeros(5, dtype=np.int32)
    assert _numbers_in_household(np.array([2, 1, 2, 4]), seen).tolist() == [1, 1, 2, 1]
    assert _numbers_in_household(np.array([4, 2, 3]), seen).tolist() == [2, 3, 1]


def test_a_release_without_joins_cannot_say_who_lives_where(town: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--format activitysim: needs persons who are joined .* has no \[\[join\]\]"):
        export_release(open_finished(town, check_hashes=True), "activitysim", tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_names_of_columns_that_clash_are_told(tmp_path: Path) -> None:
    renamed = ('sex = ["f", "m"]', 'PNUM = ["f", "m"]')
    spec = write_one_town(tmp_path / "in", renamed)
    frame = pd.read_csv(spec.parent / "persons.csv", dtype=str).rename(columns={"sex": "PNUM"})
    frame.to_csv(spec.parent / "persons.csv", index=False)
    root = run(spec, tmp_path / "out")
    with pytest.raises(InputError, match="the attribute 'PNUM' has the name of a column of this layout"):
        export_release(open_finished(root, check_hashes=True), "activitysim", tmp_path / "x")
    assert not (tmp_path / "x").exists()
