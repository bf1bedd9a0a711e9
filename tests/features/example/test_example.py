"""The example, its households and its register over years: whole, fitting together, the same bytes each time."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from features.example.example import LEVELS, settle, write_example
from features.example.population import SCHEMA
from features.example.years import BORN, write_years
from features.example.years import LEVELS as LEVELS_OF_YEARS
from geography.build import spine_from_prefixes
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import roll_up, tabulate
from pipeline.spec.release_spec import load_spec


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_example(tmp_path_factory.mktemp("example") / "state", people=200_000, seed=11)


def test_spine(example: Path) -> None:
    """5 counties of very different size, 250 tracts, 800 block groups, 25,000 blocks; codes nest by prefixes."""
    table = pq.read_table(example.parent / "blocks.parquet")
    spine = spine_from_prefixes(table["block"].to_numpy().astype(np.str_), LEVELS)
    assert [len(level) for level in spine.levels] == [1, 5, 250, 800, 25_000]
    assert spine.to_table().equals(table)
    assert set(spine.levels[0].geocodes) == {"99"}
    assert all(code.isdecimal() for code in spine.levels[3].geocodes)
    blocks_of_county = np.diff(spine.leaf_offsets(1))
    assert blocks_of_county.max() > 5 * blocks_of_county.min()


def test_spec_and_records_fit(example: Path) -> None:
    """The spec reads the records without a word, and says what the records are."""
    spec = load_spec(example)
    (universe,) = spec.universes()
    assert universe.schema.attributes == SCHEMA.attributes
    assert universe.input is not None
    assert spec.geography.file == example.parent / "blocks.parquet"
    assert spec.geography.prefix_lengths == LEVELS
    table = pq.read_table(spec.geography.file, columns=[spec.geography.column])
    spine = spine_from_prefixes(table.column(0).to_numpy().astype(np.str_), spec.geography.prefix_lengths)
    counts = tabulate(universe.input, universe.schema, spine)
    assert counts.sum() == pq.read_metadata(universe.input.file).num_rows == 200_000
    assert roll_up(spine, counts)[0].nnz == 16, "every group is there"


def test_same_bytes(tmp_path: Path) -> None:
    """The same seed writes the same bytes, another seed other records and another spine."""

    def written(name: str, seed: int) -> dict[str, bytes]:
        folder = write_example(tmp_path / name, people=5000, seed=seed).parent
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    one, again, other = written("one", 1), written("again", 1), written("other", 2)
    assert one == again
    assert one["persons.parquet"] != other["persons.parquet"]
    assert one["blocks.parquet"] != other["blocks.parquet"]
    assert one["release.toml"] == other["release.toml"]


PEOPLE = np.random.default_rng(1).poisson(40, 3_000) * (np.random.default_rng(2).random(3_000) < 0.8)


def test_everybody_lives_somewhere_and_households_have_their_members() -> None:
    found = settle(PEOPLE, 5)
    assert (np.bincount(found.leaf, minlength=len(PEOPLE)) == PEOPLE).all()
    members = found.residence == 0
    leaf_of_members = found.leaf[members]
    # Members stand in the order of households.
    per_leaf = np.bincount(leaf_of_members, minlength=len(PEOPLE))
    least = np.bincount(found.household_leaf, found.size + 1, minlength=len(PEOPLE))
    opened = np.bincount(found.household_leaf, found.size == 6, minlength=len(PEOPLE))
    assert (per_leaf >= least).all()
    assert (per_leaf <= least + 2 * opened).all()
    for age in (1, 2, 3):
        heads = np.bincount(found.household_leaf[found.head == age], minlength=len(PEOPLE))
        assert (np.bincount(leaf_of_members[found.age[members] == age], minlength=len(PEOPLE)) >= heads).all()
    assert not (found.head == 0).any()
    families = np.bincount(found.household_leaf, found.children, minlength=len(PEOPLE))
    children = np.bincount(leaf_of_members[found.age[members] == 0], minlength=len(PEOPLE))
    assert ((children > 0) == (families > 0)).all()
    assert not found.children[found.size == 0].any()


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
    assert [level.name for level in spine.levels] == list(LEVELS_OF_YEARS)
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
