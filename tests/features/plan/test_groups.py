"""The worst group: how large groups are is what an earlier release published, and no division serves it better."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.command import printed

from features.plan.division import Objective
from features.plan.release_plan import plan_release
from features.plan.targets import worst_group_aims
from geography.errors import SpinewiseError
from pipeline.release.layout import RunDirectory

GROUPS = "tract: grown * sex; block: quarters"


def test_the_worst_group_is_served_best(town: Path, town_spec: Path) -> None:
    """Sizes are those of the published files; the found division is better than the spec's, and any at random."""
    best = json.loads(printed("plan", town_spec, "--worst-group", GROUPS, "--like", town, "--rho", "2", "--json"))[
        "best"
    ]
    people = pd.read_parquet(RunDirectory(town).main.histogram("block"))
    grown = people["age"].astype(str).map({"child": "young", "adult": "grown", "old": "grown"})
    n_tracts = len(pd.read_parquet(RunDirectory(town).main.table("total", "tract")))
    means = people.groupby(grown + " * " + people["sex"].astype(str))["count"].sum() / n_tracts
    told = {aim["group"]: aim["mean"] for aim in best["aims"] if aim["level"] == "tract"}
    assert told == pytest.approx({group: means[group] for group in told})
    # Women and men are alike to the noise, so that of each age the smaller group stands for both.
    assert set(told) == {means[[f"{age} * f", f"{age} * m"]].idxmin() for age in ("young", "grown")}
    worst = {
        one["division"]: max(
            error / aim["mean"] for error, aim in zip(one["errors"].values(), best["aims"], strict=True)
        )
        for one in best["compared"]
    }
    assert worst["found"] < min(worst["the spec's own"], worst["equal"])

    expectation = plan_release(town_spec, None, 1).universes[0].expectation
    objective = Objective(expectation, worst_group_aims(GROUPS, expectation, town), "largest")
    shares = [float(level["share"]) * float(part) for level in best["levels"] for part in level["queries"].values()]
    found = objective.value(objective.terms(np.array(shares))[0])
    assert found / np.sqrt(2) == pytest.approx(worst["found"], rel=1e-3)
    for other in np.random.default_rng(1).dirichlet(np.full(len(shares), 3.0), 40):
        assert objective.value(objective.terms(other)[0]) > found * 0.999


def test_it_is_shown_with_the_error_in_parts_of_the_group(town: Path, town_spec: Path) -> None:
    shown = printed("plan", town_spec, "--worst-group", "tract: sex", "--like", town, "--rho", "2")
    assert "worst group" in shown
    assert "in an area" in shown
    assert "rho that meets the targets" not in shown


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        ("tract sex", "found 'tract sex'; allowed is"),
        ("village: sex", "no level 'village'"),
        ("tract: colour", "'colour' in the query"),
        ("; ", "nothing is given"),
        ("county: total", "has nobody in these groups, or their numbers are exact"),
    ],
)
def test_groups_that_are_none(town: Path, town_spec: Path, groups: str, told: str) -> None:
    arguments: Sequence[object] = ("--worst-group", groups, "--like", town, "--rho", "2")
    with pytest.raises(SpinewiseError, match=told):
        printed("plan", town_spec, *arguments)
