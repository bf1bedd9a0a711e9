"""The checker finds, from two files alone, everything that is wrong with who lives in which household."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from oracles.households import drawn_town
from oracles.joined_homes import town_joins
from releases.one_town import HOUSEHOLD_VALUES, PERSON_VALUES

from auditor.check.households import Limit, RecordFile, check_households
from auditor.reading.cells import Cells, JoinedGroup
from auditor.reading.files import Files
from auditor.reading.findings import Findings, FormError
from auditor.reading.spine import Level
from features.joins.mathematics.assignment import assigned_spans
from features.joins.mathematics.membership import NO_MOST
from features.joins.publishing import AssignedHouseholds, JoinedRecords, write_joined_microdata
from pipeline.model.schema import Attribute, Schema

N = 30
GEOCODES = np.array([f"A{i:03d}" for i in range(N)])


def stated_limits(*, others: bool = False) -> list[Limit]:
    """The groups of the town's joins, cell by cell."""
    return [
        (
            JoinedGroup(
                join.name,
                f"{join.name} {answer}",
                join.persons.cell_answer == answer,
                join.least[answer][join.households.cell_answer],
                np.where(join.most[answer] >= NO_MOST, -1, join.most[answer])[join.households.cell_answer],
            ),
            others,
        )
        for join in town_joins(others=others)
        for answer in np.flatnonzero(join.inside)
    ]


def _schema(values: dict[str, tuple[str, ...]]) -> Schema:
    return Schema(tuple(Attribute(name, each) for name, each in values.items()))


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """The folder of the two files, as the release writes them."""
    (tmp_path / "staging").mkdir()
    folder = tmp_path / "public"
    persons, homes = drawn_town(N, 2)
    write_joined_microdata(
        JoinedRecords(folder / "persons.parquet", _schema(PERSON_VALUES), persons),
        [
            AssignedHouseholds(
                JoinedRecords(folder / "homes.parquet", _schema(HOUSEHOLD_VALUES), homes),
                "household",
                assigned_spans(town_joins(), persons, homes, 0),
            )
        ],
        tmp_path / "staging",
        "block",
        GEOCODES,
    )
    return folder


def problems(public: Path, limits: list[Limit] | None = None) -> list[str]:
    findings = Findings()
    check_households(
        Files(public),
        Level("block", pa.array(GEOCODES.tolist()), np.full(N, -1)),
        RecordFile(public / "persons.parquet", Cells(PERSON_VALUES, {}), ("household",), None),
        RecordFile(public / "homes.parquet", Cells(HOUSEHOLD_VALUES, {}), ("household", "members"), None),
        "household",
        stated_limits() if limits is None else limits,
        findings,
    )
    assert findings.n_checks >= 7
    return findings.problems


def changed(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    frame = pd.read_parquet(path).astype({"geocode": str})
    if "members" not in frame:
        frame["household"] = frame["household"].astype("Int64")
    change(frame).to_parquet(path, index=False)


def test_what_the_release_writes_is_right(public: Path) -> None:
    assert problems(public) == []
    assert problems(public, stated_limits(others=True)[:0]) != []  # without a join nobody lives in households


def test_two_persons_exchanged_are_found_by_the_joins_alone(public: Path) -> None:
    """A child and the only householder: members agree, compositions do not."""
    people = pd.read_parquet(public / "persons.parquet")
    child = int(np.flatnonzero(people["household"].notna() & people["age"].isin(["baby", "teen"]))[0])
    block = people["geocode"] == people["geocode"][child]
    others = block & (people["role"] == "holder") & (people["household"] != people["household"][child])
    holder = int(np.flatnonzero(others)[0])

    def exchange(frame: pd.DataFrame) -> pd.DataFrame:
        numbers = frame["household"].copy()
        frame.loc[child, "household"], frame.loc[holder, "household"] = numbers[holder], numbers[child]
        return frame

    changed(public / "persons.parquet", exchange)
    found = problems(public)
    assert found
    assert all("the join 'holder'" in problem or "the join 'child'" in problem for problem in found)
    assert any("1 too many" in problem for problem in found)


def _first_home(frame: pd.DataFrame, value: int | None) -> pd.DataFrame:
    frame.loc[frame["household"].first_valid_index(), "household"] = value
    return frame


def _first_dorm(frame: pd.DataFrame) -> pd.DataFrame:
    frame.loc[int(np.flatnonzero(frame["quarters"] == "dorm")[0]), "household"] = 1
    return frame


FAULTS: dict[str, tuple[str, Callable[[pd.DataFrame], pd.DataFrame], str]] = {
    "absent": ("persons", lambda f: _first_home(f, 10**9), "household 1000000000: there is no such household"),
    "zero": ("persons", lambda f: _first_home(f, 0), "household 0: there is no such household"),
    "elsewhere": (
        "persons",
        lambda f: _first_home(f, int(f["household"].max())),
        "the household is in another block, block 'A029'",
    ),
    "homeless": ("persons", lambda f: _first_home(f, None), "such persons live in a household"),
    "dorm": ("persons", _first_dorm, "no join says that such persons live in households"),
    "text": ("persons", lambda f: f.assign(household="1"), "column 'household' holds"),
    "no column": ("persons", lambda f: f.drop(columns="household"), "it lacks 'household'"),
    "renumbered": ("homes", lambda f: f.assign(household=f["household"][::-1].to_numpy()), "it is that of the row"),
    "members": (
        "homes",
        lambda f: f.assign(members=f["members"] + (f.index == 3)),
        "household 4 in block 'A000' states",
    ),
    "negative": ("homes", lambda f: f.assign(members=f["members"] - 50), "whole numbers are required"),
    "size": ("homes", lambda f: f.assign(size="1"), "the join 'size'"),
    "shorter": ("homes", lambda f: f.iloc[:-1], "there is no such household"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_kind_of_fault_is_named(public: Path, fault: str) -> None:
    file, change, said = FAULTS[fault]
    changed(public / f"{file}.parquet", change)
    try:
        found = problems(public)
    except FormError as error:
        found = [str(error)]
    assert any(said in problem for problem in found), found


def test_where_others_count_too_nobody_needs_a_household(public: Path) -> None:
    def nobody(frame: pd.DataFrame) -> pd.DataFrame:
        frame.loc[0, "household"] = None
        return frame

    changed(public / "persons.parquet", nobody)
    missing = "such persons live in a household"
    assert any(missing in problem for problem in problems(public))
    assert not any(missing in problem for problem in problems(public, stated_limits(others=True)))
