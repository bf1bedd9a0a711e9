"""A register over years: its people are the same persons, who move, die and are born; and a series runs on it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

from features.example.years import BORN, LEVELS, write_years
from geography.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.spec.release_spec import load_spec

YEARS = (2031, 2032, 2033, 2034)


@pytest.fixture(scope="module")
def register(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_years(tmp_path_factory.mktemp("years") / "in", len(YEARS), people=20_000, seed=3).parent


def test_people_are_born_die_and_move(register: Path) -> None:
    years = [pd.read_parquet(register / f"persons-{year}.parquet").set_index("person") for year in YEARS]
    assert len(years[0]) == 20_000
    for before, after in pairwise(years):
        assert before.index.is_unique
        both = before.index.intersection(after.index)
        gone, new = len(before) - len(both), len(after) - len(both)
        assert 0.003 < gone / len(before) < 0.03
        assert 0.005 < new / len(before) < 0.02
        assert (before.loc[both, ["born", "sex"]] == after.loc[both, ["born", "sex"]]).all(axis=None)
        moved = (before.loc[both, "block_group"] != after.loc[both, "block_group"]).mean()
        assert 0.03 < moved < 0.12
        assert set(after.loc[after.index.difference(both), "born"]) == {BORN[-1]}
    assert (years[0]["born"].value_counts(normalize=True) > 0.05).all()


def test_the_spec_is_of_a_series(register: Path) -> None:
    spec = load_spec(register / "release.toml")
    (universe,) = spec.universes()
    assert universe.series is not None
    assert (universe.series.periods, universe.series.terms.spells) == (tuple(map(str, YEARS)), 2)
    spine = read_spine(spec.geography)
    assert [level.name for level in spine.levels] == list(LEVELS)
    assert [len(level) for level in spine.levels] == [1, 5, 250, 800]
    years = [pd.read_parquet(register / f"persons-{year}.parquet") for year in YEARS]
    assert set().union(*(set(one["block_group"]) for one in years)) <= set(spine.leaf_level.geocodes.tolist())


def test_equal_seeds_give_equal_bytes_and_nothing_is_replaced(register: Path, tmp_path: Path) -> None:
    again = write_years(tmp_path / "again", len(YEARS), people=20_000, seed=3).parent
    for path in sorted(register.iterdir()):
        assert path.read_bytes() == (again / path.name).read_bytes()
    with pytest.raises(InputError, match="already; give one that is new or empty"):
        write_years(again, 2)
    with pytest.raises(InputError, match="--years: found 0; 1 to 100 are allowed"):
        write_years(tmp_path / "none", 0)
    one = write_years(tmp_path / "one", 1, people=100)
    assert load_spec(one).universes()[0].series is not None
