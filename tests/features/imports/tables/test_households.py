"""Persons in households: one table or two, keys that do not fit, and households joined with persons by their size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.imported import open_problems

from features.imports.tables.importer import import_table
from features.imports.tables.statement import Statement
from features.registry import part_of
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import tabulate
from pipeline.spec.release_spec import ReleaseSpec, load_spec

STATED: dict[str, Any] = {
    "geography": "county,town",
    "records": True,
    "key": "hh_id",
    "attributes": "age=ages broad,sex,works",
}


def people(n: int = 600) -> pd.DataFrame:
    """Persons in households in towns in counties; codes with leading zeros, an age, a missing value."""
    rng = np.random.default_rng(3)
    household = np.sort(rng.integers(0, n // 3, n))
    town = rng.integers(0, 12, n // 3)[household]
    tenure = rng.choice(["own", "rent"], n // 3)
    return pd.DataFrame(
        {
            "county": [f"{t // 4 + 1:02d}" for t in town],
            "town": [f"{t // 4 + 1:02d}{t % 4:02d}" for t in town],
            "hh_id": [f"H{h:05d}" for h in household],
            "age": rng.integers(0, 100, n),
            "sex": rng.choice(["f", "m"], n),
            "works": np.where(rng.random(n) < 0.1, np.array(None), rng.choice(["yes", "no"], n)),
            "tenure": tenure[household],
        }
    )


def imported(folder: Path, table: pd.DataFrame, name: str = "all", **more: Any) -> ReleaseSpec:
    table.to_csv(folder / f"{name}.csv", index=False)
    stated = STATED | {"expect_records": len(table), "expect_areas": 12} | more
    spec = import_table(Statement(str(folder / f"{name}.csv"), **stated), folder / name).spec
    assert open_problems(None, spec) == []
    return load_spec(spec)


def counts_of(spec: ReleaseSpec, universe: int = 0) -> np.ndarray:
    one = spec.universes()[universe]
    return tabulate(one.require_input(), one.schema, read_spine(spec.geography)).toarray()


def test_one_table(tmp_path: Path) -> None:
    """Two histograms; every record is counted, in its cell."""
    frame = people()
    spec = imported(tmp_path, frame, household_attributes="tenure")
    assert {name: len(values) for name, values in spec.schema_section.attributes.items()} == {
        "age": 7, "sex": 2, "works": 3,
    }  # fmt: skip
    persons, homes = counts_of(spec), counts_of(spec, 1)
    expected = frame.assign(works=frame["works"].fillna("missing"))
    expected["age"] = pd.cut(expected["age"], [0, 5, 18, 25, 45, 65, 85, 131], right=False, labels=False)
    cells = expected["age"] * 6 + expected["sex"].map({"f": 0, "m": 1}) * 3
    cells += expected["works"].map({value: i for i, value in enumerate(spec.schema_section.attributes["works"])})
    found = np.zeros_like(persons)
    np.add.at(found, (expected["town"].map(sorted(frame["town"].unique()).index), cells), 1)
    assert np.array_equal(persons, found)
    own = frame[frame["tenure"] == "own"]["hh_id"].nunique()
    assert homes.sum(axis=0).tolist() == [own, frame["hh_id"].nunique() - own]


def test_two_tables_with_a_key(tmp_path: Path) -> None:
    """Persons get the area of their household; the two histograms are those of the one table."""
    frame = people()
    homes = frame.drop_duplicates("hh_id")[["hh_id", "county", "town", "tenure"]]
    homes.to_csv(tmp_path / "homes.csv", index=False)
    one = imported(tmp_path, frame, "one", household_attributes="tenure")
    two = imported(
        tmp_path, frame[["hh_id", "age", "sex", "works"]], "two", households=str(tmp_path / "homes.csv"),
        household_attributes="tenure",
    )  # fmt: skip
    for universe in (0, 1):
        assert np.array_equal(counts_of(two, universe), counts_of(one, universe))
    for name in ("persons", "households"):
        assert (tmp_path / "two" / f"{name}.parquet").stat().st_mode & 0o777 == 0o600


def test_households_get_their_size_and_are_joined(tmp_path: Path) -> None:
    """Where nothing is stated of them; not where a person has none."""
    frame = people(n=900)
    spec = imported(tmp_path, frame)
    (join,) = part_of("joins", "keys").stated_joins(spec).joins
    labels = join.households.answer_labels()
    assert (join.persons.name, join.households.name, join.others, labels[-1]) == ("total", "size", False, "7+")
    assert join.most.tolist() == [[*(int(label) for label in labels[:-1]), 20]]
    persons, homes = counts_of(spec), counts_of(spec, 1)
    assert (persons.sum(axis=1) >= homes @ join.least[0]).all()
    assert (persons.sum(axis=1) <= homes @ join.most[0]).all()
    frame.loc[3, "hh_id"] = "none"
    apart = imported(tmp_path, frame, "apart", missing="none")
    assert not part_of("joins", "keys").stated_joins(apart).joins
    assert counts_of(apart, 1).sum() == frame["hh_id"].nunique() - 1


def test_keys_that_do_not_fit(tmp_path: Path) -> None:
    """A person without household, a household twice, and one in two places are refused by name and line."""
    frame = people(60)
    homes = frame.drop_duplicates("hh_id")[["hh_id", "county", "town", "tenure"]]
    homes.iloc[1:].to_csv(tmp_path / "fewer.csv", index=False)
    pd.concat([homes, homes.iloc[:1]]).to_csv(tmp_path / "twice.csv", index=False)
    for file, says in (
        ("fewer.csv", r"line 2, column 'hh_id': found 'H0000\d'; .* of households that are not in"),
        ("twice.csv", r"line 2 and line \d+: household 'H0000\d' stands in two rows; each has one"),
    ):
        with pytest.raises(InputError, match=says):
            imported(
                tmp_path, frame[["hh_id", "age", "sex", "works"]], "p", households=str(tmp_path / file),
                household_attributes="tenure",
            )  # fmt: skip
    frame.loc[1, "hh_id"] = str(frame.loc[0, "hh_id"])
    frame.loc[1, "town"], frame.loc[0, "town"] = "0101", "0102"
    frame.loc[:1, "county"] = "01"
    with pytest.raises(InputError, match=r"line 2 and line 3: household 'H\d+' .* has '0102' and '0101' as the area"):
        imported(tmp_path, frame, "apart", expect_areas=frame["town"].nunique())
    assert not (tmp_path / "apart").exists()
