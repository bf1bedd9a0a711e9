"""The checker finds persons whom no households can have, and one moved to another household, in every geounit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from releases.homes import SPEC, write_homes
from releases.made_case import made_case
from releases.small import run

from auditor.check.households import Homes, _check_group
from auditor.check.release import check_release, examine
from auditor.reading.cells import Cells, JoinedGroup
from auditor.reading.counts import Counts
from auditor.reading.findings import Check
from auditor.reading.spec import public_spec
from features.registry import part_of
from pipeline.spec.release_spec import parse_spec

LEVELS = {"county": 1, "tract": 3, "block": 5}
PERSON = ["age", "residence"]
HOME = ["size", "head", "children"]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release of a town with so large a budget that it is the truth, which keeps the joins."""
    spec = write_homes(
        tmp_path_factory.mktemp("spec"),
        ('rho = "2"\nkey', 'rho = "100000"\nkey'),
        ('{ rho = "2" }', '{ rho = "100000" }'),
    )
    return run(spec, tmp_path_factory.mktemp("out"), i_know=True)


@pytest.fixture
def copy(released: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(released, tmp_path / "homes"))


def kept(copy: Path) -> list[str]:
    """Of the problems that the checker reports, those of joins."""
    return [problem for problem in check_release(copy) if "join" in problem]


def change(folder: Path, columns: list[str], how: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """Change the cells of blocks, and with them the histograms of all levels."""
    path = folder / "histograms" / "block.parquet"
    frame = pd.read_parquet(path).astype(dict.fromkeys(["geocode", *columns], str))
    frame = how(frame)
    for level, length in LEVELS.items():
        counts = frame.assign(geocode=frame["geocode"].str[:length]).groupby(["geocode", *columns], as_index=False)
        counts["count"].sum().to_parquet(folder / "histograms" / f"{level}.parquet", index=False)


def first(frame: pd.DataFrame, **values: str) -> Any:
    """The row of the first cell with these values and a count."""
    fits = frame["count"] > 0
    for name, value in values.items():
        fits &= frame[name] == value
    return frame.index[fits][0]


def test_a_release_that_is_the_truth_keeps_the_joins(released: Path) -> None:
    found = examine(released)
    assert found.problems == []
    joins = 3 * (1 + 3 + 1)  # levels, and groups of the three joins
    assert sum("counts that break the join" in check._kind for check in found._checks) == joins


def test_a_person_too_many_breaks_the_size_in_the_block_and_all_above(copy: Path) -> None:
    def add(frame: pd.DataFrame) -> pd.DataFrame:
        frame.loc[first(frame, residence="household", age="adult"), "count"] += 1000
        return frame

    change(copy / "public", PERSON, add)
    problems = kept(copy)
    for level in LEVELS:
        (problem,) = (p for p in problems if p.startswith(f"public/histograms/{level}.parquet"))
        assert "'household'" in problem
        assert "too many (the join 'homes size')" in problem
        assert f"by the households in public/companions/homes/histograms/{level}.parquet" in problem


def test_households_changed_break_the_joins_of_persons(copy: Path) -> None:
    def age(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(head="old", children="no")

    persons = pd.read_parquet(copy / "public" / "histograms/county.parquet").astype({"geocode": str, "age": str})
    old = persons[(persons["age"] == "old") & (persons["residence"].astype(str) == "household")]
    homes = pd.read_parquet(copy / "public" / "companions/homes/histograms/county.parquet").astype({"geocode": str})
    change(copy / "public/companions/homes", HOME, age)
    problems = [p for p in kept(copy) if p.startswith("public/histograms/county")]
    childless = [p for p in problems if "homes children" in p]
    assert any("allowed 0 to 0" in p for p in childless)
    problems = [p for p in problems if p not in childless]
    broken = []
    for county, group in homes.groupby("geocode"):
        found, heads = int(old.loc[old["geocode"] == county, "count"].sum()), int(group["count"].sum())
        if found < heads:
            broken.append(f"county '{county}', 'household * old': found {found:,}, allowed {heads:,} or more by")
    assert broken
    assert len(problems) == len(broken)
    for sentence in broken:
        assert any(sentence in problem for problem in problems)


def test_joins_that_households_limit_from_below_only(copy: Path) -> None:
    path = copy / "public" / "manifest.json"
    manifest = json.loads(path.read_text())
    for join in manifest["spec"]["join"]:
        join["others"] = True
    path.write_text(json.dumps(manifest))

    def both(frame: pd.DataFrame) -> pd.DataFrame:
        rows = frame.index[(frame["residence"] == "household") & (frame["count"] > 3)]
        frame.loc[rows[0], "count"] += 1000
        frame.loc[rows[-1], "count"] = 0
        return frame

    change(copy / "public", PERSON, both)
    problems = kept(copy)
    assert problems
    assert not any("too many" in problem for problem in problems)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ({"companion": "units"}, "a join is with 'units', which is no companion"),
        ({"size": "head"}, "cannot be understood: 'adult' of 'head' is no size of a household"),
        ({"where": [["residence", ["home"]]]}, "a join of its spec cannot be understood"),
    ],
)
def test_a_join_that_cannot_be_understood_is_a_problem(copy: Path, damage: dict[str, Any], says: str) -> None:
    path = copy / "public" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["spec"]["join"][0] |= damage
    path.write_text(json.dumps(manifest))
    assert any(says in problem for problem in check_release(copy)), check_release(copy)


TABLE = """
[[join]]
companion = "homes"
persons = "residence"
households = "head * size"
[join.table.household]
"1 * adult" = 1
"1 * old" = [1, 2]
"2 * adult" = [2]
"2 * old" = 2
"3 * adult" = 3
"3 * old" = 3
"4+ * adult" = [4, 8]
"4+ * old" = 0
"""


def test_both_readings_of_a_spec_say_the_same() -> None:
    """The program's reading, answer by answer, and the checker's, cell by cell."""
    exact = '\n[[join]]\ncompanion = "homes"\nwhere = { residence = "household" }\n'
    exact += 'householder = { age = "head" }\nexactly = true\n'
    # The sixth join contradicts the others, so two specs are read.
    for text in (SPEC, SPEC[: SPEC.index("[[join]]")] + TABLE, SPEC[: SPEC.index("[[join]]")] + exact):
        spec = parse_spec(text)
        public = public_spec(json.loads(json.dumps(spec.public_dict())))
        persons, _ = (universe.cells for universe in public.universes)
        assert isinstance(persons, Cells)
        for own, entry in zip(part_of("joins", "keys").stated_joins(spec).joins, public.joins, strict=True):
            groups = entry.limits
            assert len(groups) == own.inside.sum()
            for group in groups:
                (answer,) = np.unique(own.persons.cell_answer[group.persons])
                assert own.inside[answer]
                assert np.array_equal(group.persons, own.persons.cell_answer == answer)
                kind = own.households.cell_answer
                assert np.array_equal(group.least, own.least[answer][kind])
                most = own.most[answer][kind]
                assert np.array_equal(np.where(group.most < 0, 1 << 40, group.most), most)
                assert group.join == own.name


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_case(tmp_path_factory, "one_town") / "out" / "one-town"


def test_a_joined_release_as_it_was_made_is_right(joined: Path) -> None:
    found = examine(joined)
    assert found.problems == []
    assert found.n_checks > 50
    people = pd.read_parquet(joined / "public" / "microdata.parquet")
    homes = pd.read_parquet(joined / "public" / "companions" / "homes" / "microdata.parquet")
    assert people["household"].isna().tolist() == (people["quarters"] == "dorm").tolist()
    sizes = [str(members) if members < 5 else "5+" for members in homes["members"].tolist()]
    assert sizes == homes["size"].astype(str).tolist()
    assert homes["members"].max() <= 7
    holders = people[people["role"] == "holder"].set_index("household")["age"].astype(str)
    assert holders.sort_index().tolist() == homes["holder_age"].astype(str).tolist()
    children = set(people.loc[people["age"].isin(["baby", "teen"]), "household"])
    assert (homes["household"].isin(children) == (homes["kids"] == "some")).all()


class Town:
    """The two files of a release, to be changed."""

    def __init__(self, root: Path) -> None:
        public = root / "public"
        self.paths = public / "microdata.parquet", public / "companions" / "homes" / "microdata.parquet"
        people, homes = (pd.read_parquet(path) for path in self.paths)
        labels = [name for name in people.columns if name != "household"]
        self.people = people.assign(**{name: people[name].astype(str) for name in labels})
        self.people["household"] = people["household"].astype("Int64")
        self.homes = homes.assign(geocode=homes["geocode"].astype(str)).set_index("household", drop=False)
        block = self.homes["geocode"].value_counts().idxmax()
        self.first, self.last = (int(number) for number in self.homes.index[self.homes["geocode"] == block][[0, -1]])
        far = self.homes.index[self.homes["geocode"] != block]
        self.far = int(far[-1])

    def named(self, household: int) -> str:
        return f"household {household:,} in block {self.homes['geocode'][household]!r}"

    def members(self, household: int, role: str) -> list[int]:
        inside = (self.people["household"] == household) & (self.people["role"] == role)
        return [int(row) for row in self.people.index[inside]]

    def write(self) -> None:
        self.people.to_parquet(self.paths[0], index=False)
        self.homes.to_parquet(self.paths[1], index=False)


def _wrong_size(town: Town) -> list[str]:
    """A household of one says that it is one of four, without a word of its members."""
    alone = int(town.homes.index[town.homes["size"].astype(str) == "1"][0])
    town.homes["size"] = town.homes["size"].astype(str)
    town.homes.loc[alone, "size"] = "4"
    return [f"{town.named(alone)}, members in 'home': found 1, allowed 4 to 4, 3 too few (the join 'homes size')"]


def _two_householders(town: Town) -> list[str]:
    """One of two households of a block has both householders, the other another member instead."""
    several = town.homes[town.homes["members"] > 1]
    block = several["geocode"].value_counts().idxmax()
    one, other = (int(number) for number in several.index[several["geocode"] == block][:2])
    (holder,), member = town.members(one, "holder"), town.members(other, "other")[0]
    town.people.loc[[holder, member], "household"] = [other, one]
    return [
        f"{town.named(other)}, members in 'home * holder",
        "found 2, allowed 1 to 1, 1 too many (the join 'homes house",
    ]


def _without_its_household(town: Town) -> list[str]:
    """A person of one block is said to live in a household of another."""
    row = town.members(town.first, "holder")[0]
    town.people.loc[row, "household"] = town.far
    here, there = (f"block {town.homes['geocode'][home]!r}" for home in (town.first, town.far))
    return [f"row {row + 1:,} in {here}, household {town.far}: the household is in another block, {there}"]


def _no_household(town: Town) -> list[str]:
    row = town.members(town.last, "holder")[0]
    town.people.loc[row, "household"] = pd.NA
    here = f"block {town.homes['geocode'][town.last]!r}"
    return [f"row {row + 1:,} in {here}, household nothing: by the joins such persons live in a household"]


@pytest.mark.parametrize("damage", [_wrong_size, _two_householders, _without_its_household, _no_household])
def test_a_broken_key_of_households_is_named_with_household_and_block(
    joined: Path, tmp_path: Path, damage: Callable[[Town], list[str]]
) -> None:
    town = Town(Path(shutil.copytree(joined, tmp_path / "town")))
    due = damage(town)
    town.write()
    problems = check_release(tmp_path / "town")
    for sentence in due:
        assert any(sentence in problem for problem in problems), (sentence, problems)


def test_a_member_of_a_household_that_can_have_none_is_named() -> None:
    """Of two adults' households with one child each, one has room for children and the other for none."""
    level = SimpleNamespace(name="block", label=lambda leaf: f"block {leaf}")
    one_each, no_room = np.array([1, 1]), np.array([3, 0])
    homes = Homes(cast("Any", level), np.array([0, 0]), np.array([0, 1]), one_each)
    group = JoinedGroup("homes children", "child", np.array([True]), np.array([0, 0]), no_room)
    check = Check("microdata.parquet", "members")
    _check_group(check, group, homes, Counts(1, np.array([0, 1]), one_each))
    assert check.sentences == [
        "microdata.parquet: household 2 in block 0, members in 'child': found 1, allowed 0 to 0, 1 too many (the join "
        "'homes children')"
    ]
