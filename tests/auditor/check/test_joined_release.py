"""A whole release of joined universes: the checker passes it, and finds one person moved to another household."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from releases.one_town import write_one_town
from releases.small import run

from auditor.check.release import check_release, examine


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


def _in_another_household(town: Town) -> list[str]:
    town.people.loc[town.people.index[town.people["household"] == town.first][0], "household"] = town.last
    return [f"{town.named(town.first)} states", f"{town.named(town.last)} states", "1 too many (the join 'homes size')"]


def _wrong_size(town: Town) -> list[str]:
    """A household of one says that it is one of four, without a word of its members."""
    alone = int(town.homes.index[town.homes["size"].astype(str) == "1"][0])
    town.homes["size"] = town.homes["size"].astype(str)
    town.homes.loc[alone, "size"] = "4"
    return [f"{town.named(alone)}, members in 'home': found 1, required 4, 3 too few (the join 'homes size')"]


def _two_householders(town: Town) -> list[str]:
    """One of two households of a block has both householders, the other another member instead."""
    several = town.homes[town.homes["members"] > 1]
    block = several["geocode"].value_counts().idxmax()
    one, other = (int(number) for number in several.index[several["geocode"] == block][:2])
    (holder,), member = town.members(one, "holder"), town.members(other, "other")[0]
    town.people.loc[[holder, member], "household"] = [other, one]
    return [f"{town.named(other)}, members in 'home * holder", "found 2, required 1, 1 too many (the join 'homes house"]


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


@pytest.mark.parametrize(
    "damage", [_in_another_household, _wrong_size, _two_householders, _without_its_household, _no_household]
)
def test_a_broken_key_of_households_is_named_with_household_and_block(
    released: Path, tmp_path: Path, damage: Callable[[Town], list[str]]
) -> None:
    town = Town(Path(shutil.copytree(released, tmp_path / "town")))
    due = damage(town)
    town.write()
    problems = check_release(tmp_path / "town")
    for sentence in due:
        assert any(sentence in problem for problem in problems), (sentence, problems)


def test_a_join_without_a_key_is_reported(released: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(released, tmp_path / "town"))
    path = copy / "public" / "manifest.json"
    for key in ("others", "companion"):
        manifest = json.loads((released / "public" / "manifest.json").read_text("utf-8"))
        del manifest["spec"]["join"][1][key]
        path.write_text(json.dumps(manifest), "utf-8")
        assert any(f"'{key}' is missing" in problem for problem in check_release(copy))
