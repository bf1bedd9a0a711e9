"""The synthetic households are whole: members, householders, children, and a population that looks like one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features.example.example import settle, write_example
from features.registry import part_of
from pipeline.spec.release_spec import load_spec

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


def test_it_looks_like_a_population() -> None:
    found = settle(np.full(5_000, 200), 3)
    sizes = np.bincount(found.size, minlength=7) / len(found.size)
    assert sizes == pytest.approx([0.282, 0.345, 0.151, 0.125, 0.058, 0.023, 0.016], abs=0.01)
    assert np.bincount(found.age) / len(found.age) == pytest.approx([0.22, 0.26, 0.34, 0.18], abs=0.05)
    assert 0.005 < found.residence.mean() < 0.04
    assert 0.2 < found.children.mean() < 0.35


def test_the_files_and_the_spec_fit_each_other(tmp_path: Path) -> None:
    spec = load_spec(write_example(tmp_path / "demo", people=10_000, seed=4, households=True))
    assert [join.name for join in part_of("joins", "keys").stated_joins(spec).joins] == [
        "households size",
        "households householder",
        "households children",
    ]
    persons, households = (pd.read_parquet(tmp_path / "demo" / f"{name}.parquet") for name in ("persons", "households"))
    assert len(persons) == 10_000
    assert set(persons.columns) == {"block", "residence", "age", "sex"}
    assert set(households.columns) == {"block", "size", "head", "children"}
