"""The example of persons and households that agree, as it is: real records, every zone, every household."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
from releases.command import spinewise

from pipeline.checker.release import check_release

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.slow
def test_the_example_runs_as_it_is(shared_data: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    run = spinewise("run", EXAMPLES / "one_population.toml", "--out", tmp_path / "out", "--no-prefect", "--i-know")
    assert run.returncode == 0, run.stderr
    public = tmp_path / "out" / "one_population" / "public"
    assert check_release(public.parent) == []
    persons = pd.read_parquet(public / "microdata.parquet")
    households = pd.read_parquet(public / "companions" / "households" / "microdata.parquet")
    assert {"household", "geocode", "size"} <= set(households.columns)
    outside = persons.household.isna()
    assert (outside == (persons.residence == "quarters")).all()
    members = persons[~outside].merge(households, on="household", suffixes=("", "_of_household"), validate="m:1")
    assert len(members) == (~outside).sum()
    assert (members.geocode.astype(str) == members.geocode_of_household.astype(str)).all()
    sizes = members.groupby("household").size().reindex(households.household).to_numpy()
    assert (sizes == households.members).all()
    stated = households["size"].astype(str)
    closed = stated != "7+"
    assert (stated[closed].astype(int) == sizes[closed]).all()
    assert ((sizes[~closed] >= 7) & (sizes[~closed] <= 12)).all()
    heads = members[members.age_band.astype(str) == members.householder_age.astype(str)]
    assert heads.household.nunique() == len(households)
    assert households.geocode.nunique() <= 157
    records = pd.read_parquet(shared_data / "semcog_synthetic_persons.parquet")
    for level in ("taz", "maz"):
        averages = pd.read_parquet(public / "household_sizes" / "households" / f"{level}.parquet").set_index("geocode")
        assert averages["average"].isna().tolist() == (averages["households"] == 0).tolist()
        places = records[level].astype(str)
        in_households = places[records["hh_type"] == 1].value_counts().reindex(averages.index)
        true = in_households / places[records["relate"] == 0].value_counts().reindex(averages.index)
        known = averages["average"].notna() & true.notna()
        held = (averages["average:low90"] <= true) & (true <= averages["average:high90"])
        assert known.sum() > 40
        assert held[known].mean() >= 0.88
    table = pd.read_parquet(public / "household_tables" / "age_by_size" / "maz.parquet").set_index("geocode")
    counted = pd.crosstab(
        members["geocode"].astype(str), members["age_band"].astype(str) + " * " + members["size"].astype(str)
    )
    assert (counted.reindex(index=table.index, columns=table.columns, fill_value=0) == table).all(axis=None)
