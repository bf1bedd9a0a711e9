"""The example of persons and households that agree, as it is: real records, every zone, every household."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
from releases.command import spinewise
from scipy import stats

from auditor.check.release import check_release

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def _fewest(intervals: int) -> int:
    """How many of independent intervals hold the truth, if 86 % do, but for one case in 100,000.

    Over six keys 88 % hold it in TAZ and 92 % in MAZ (docs/howto/households.md). Of 46 TAZ a binomial
    number does, with the standard deviation sqrt(46 * 0.88 * 0.12) = 2.2: a limit of 88 % fails with every other noise.
    86 % leaves room for zones of one district, whose errors are not quite independent; its limits are 28 of 46 TAZ and
    113 of 155 MAZ. Intervals of a third of the width hold the truth in 42 % of cases: 65 of 155.
    """
    return int(stats.binom.ppf(1e-5, intervals, 0.86))


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
        error = (averages["average"] - true)[known].astype(float)
        below, above = (
            (averages[f"average:{end}"] - averages["average"])[known].astype(float) for end in ("low90", "high90")
        )
        held = int(((below <= -error) & (-error <= above)).sum())
        assert known.sum() > 40
        assert held >= _fewest(int(known.sum()))
        if level == "maz":
            narrow = int(((below / 3 <= -error) & (-error <= above / 3)).sum())
            assert narrow < _fewest(int(known.sum()))
    table = pd.read_parquet(public / "household_tables" / "age_by_size" / "maz.parquet").set_index("geocode")
    counted = pd.crosstab(
        members["geocode"].astype(str), members["age_band"].astype(str) + " * " + members["size"].astype(str)
    )
    assert (counted.reindex(index=table.index, columns=table.columns, fill_value=0) == table).all(axis=None)
