"""Persons and households in two files, with one number for both."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from features.joins.publishing import AssignedHouseholds, JoinedRecords, write_joined_microdata
from pipeline.model.schema import Attribute, Schema
from pipeline.release.microdata import write_microdata

PERSONS = Schema((Attribute("age", ("child", "adult")), Attribute("lives", ("home", "dorm"))))
HOMES = Schema((Attribute("tenure", ("owned", "rented")),))
N = 17
GEOCODES = np.array([f"44{i:03d}" for i in range(N)])


def _population(seed: int = 0) -> tuple[sp.csr_array, sp.csr_array, list[NDArray[np.int64]]]:
    """Persons, homes, and for each leaf the home of each person, at random; -1 in dormitories."""
    rng = np.random.default_rng(seed)
    homes = rng.poisson(1.5, (N, 2)).astype(np.int64)
    persons = rng.poisson(2.0, (N, 4)).astype(np.int64)
    persons[homes.sum(axis=1) == 0] *= np.array([0, 1, 0, 1])
    persons[3] = homes[5] = 0
    persons[5, 0::2] = 0
    assigned = []
    for people, houses in zip(persons, homes, strict=True):
        lives = np.repeat(np.arange(4) % 2, people)
        drawn = rng.integers(0, max(1, int(houses.sum())), len(lives))
        assigned.append(np.where(lives == 1, -1, drawn).astype(np.int64))
    return sp.csr_array(persons), sp.csr_array(homes), assigned


def _parts(assigned: list[NDArray[np.int64]], cuts: list[int]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    for start, stop in pairwise([0, *cuts, N]):
        yield stop - start, np.concatenate([np.zeros(0, dtype=np.int64), *assigned[start:stop]])


def _write(folder: Path, seed: int = 0, cuts: list[int] | None = None, names: tuple[str, ...] = ("household",)) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "staging").mkdir(exist_ok=True)
    persons, homes, assigned = _population(seed)
    households = [
        AssignedHouseholds(JoinedRecords(folder / f"{name}.parquet", HOMES, homes), name, _parts(assigned, cuts or []))
        for name in names
    ]
    records = JoinedRecords(folder / "persons.parquet", PERSONS, persons)
    assert write_joined_microdata(records, households, folder / "staging", "block", GEOCODES) == persons.sum()
    return folder


@pytest.mark.parametrize("seed", range(3))
def test_each_person_has_the_number_of_the_row_of_its_household(tmp_path: Path, seed: int) -> None:
    folder = _write(tmp_path, seed, cuts=[4, 9])
    persons, homes, assigned = _population(seed)
    people, houses = (pd.read_parquet(folder / f"{name}.parquet") for name in ("persons", "household"))
    assert list(people.columns) == ["geocode", "age", "lives", "household"]
    assert list(houses.columns) == ["geocode", "tenure", "household", "members"]
    assert houses["household"].tolist() == list(range(1, len(houses) + 1))
    numbers, first = [], 1
    for here, number in zip(homes.toarray(), assigned, strict=True):
        numbers += [None if one < 0 else first + one for one in number.tolist()]
        first += int(here.sum())
    assert [None if pd.isna(one) else int(one) for one in people["household"]] == numbers
    joined = people.dropna(subset="household").merge(houses, on="household", suffixes=("", "_home"))
    assert (joined["geocode"].astype(str) == joined["geocode_home"].astype(str)).all()
    counted = people["household"].value_counts().reindex(houses["household"]).fillna(0)
    assert (counted.to_numpy() == houses["members"].to_numpy()).all()
    assert (people["household"].isna() == (people["lives"] == "dorm")).all()
    types = {field.name: (str(field.type), field.nullable) for field in pq.read_schema(folder / "persons.parquet")}
    assert types["household"] == ("int64", True)
    types = {field.name: (str(field.type), field.nullable) for field in pq.read_schema(folder / "household.parquet")}
    assert types["household"] == types["members"] == ("int64", False)
    # But for the new columns these are the microdata without joins.
    write_microdata(tmp_path / "plain", folder / "staging", "block", GEOCODES, PERSONS, persons)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "plain"), people.drop(columns="household"))


@settings(deadline=None, max_examples=15)
@given(cuts=st.lists(st.integers(0, N), max_size=4).map(sorted))
def test_the_bytes_do_not_depend_on_the_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuts: list[int]) -> None:
    monkeypatch.setattr("features.joins.publishing.rows_per_group", lambda _columns: 13)
    monkeypatch.setattr("pipeline.release.histograms.VALUES_PER_ROW_GROUP", 5)
    cut, whole = _write(tmp_path / "cut", cuts=cuts), _write(tmp_path / "whole")
    for name in ("persons.parquet", "household.parquet"):
        assert (cut / name).read_bytes() == (whole / name).read_bytes()
    groups = pq.ParquetFile(whole / "persons.parquet").metadata
    assert [groups.row_group(g).num_rows for g in range(groups.num_row_groups - 1)] == [13] * (
        groups.num_row_groups - 1
    )


def test_several_companions_have_a_column_each(tmp_path: Path) -> None:
    folder = _write(tmp_path, names=("household_a", "household_b"))
    people = pd.read_parquet(folder / "persons.parquet")
    assert list(people.columns)[3:] == ["household_a", "household_b"]
    assert people["household_a"].equals(people["household_b"])


def test_assignments_that_do_not_fit_leave_no_file(tmp_path: Path) -> None:
    persons, homes, assigned = _population()
    (tmp_path / "staging").mkdir()
    for wrong in ([*assigned[:-1], np.append(assigned[-1], 0)], [assigned[0][1:], *assigned[1:]]):
        home = AssignedHouseholds(JoinedRecords(tmp_path / "h", HOMES, homes), "household", _parts(wrong, [2]))
        with pytest.raises(ValueError, match=r"leaves \d+ to \d+: \d+ persons, \d+ assigned"):
            write_joined_microdata(
                JoinedRecords(tmp_path / "p", PERSONS, persons), [home], tmp_path / "staging", "block", GEOCODES
            )
    assert [path.name for path in tmp_path.rglob("*")] == ["staging"]
