"""Errors by size of area in a plan: sizes are what an earlier release published, errors those of the noise."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.command import printed

from pipeline.errors import InputError
from pipeline.reading.reader import open_reader
from pipeline.release.layout import RunDirectory


def planned(spec: Path, *options: object) -> dict[str, Any]:
    found = json.loads(printed("plan", spec, *options, "--json"))
    assert isinstance(found, dict)
    return found


def class_of(people: int) -> str:
    limits = ((0, "empty"), (49, "1 to 49"), (499, "50 to 499"), (999, "500 to 999"))
    return next(name for most, name in limits if people <= most)


def test_sizes_are_those_of_the_earlier_release(town: Path, town_spec: Path) -> None:
    rows = [row for row in planned(town_spec, "--like", town)["by_size"] if not row["universe"]]
    for level in ("tract", "block"):
        people = pd.read_parquet(RunDirectory(town).main.table("total", level))["total"]
        counted = people.map(class_of).value_counts().to_dict()
        assert {
            row["size"]: row["areas"] for row in rows if (row["table"], row["level"]) == ("total", level)
        } == counted
        for row in rows:
            if (row["table"], row["level"]) == ("total", level) and row["relative"] is not None:
                own = people[people.map(class_of) == row["size"]]
                assert row["relative"] == pytest.approx(100 * row["per_number"] * len(own) / own.sum())


def test_over_all_sizes_they_are_the_errors_of_the_level(town: Path, town_spec: Path) -> None:
    data = planned(town_spec, "--like", town)
    for universe in data["universes"]:
        whole = {(row["level"], frozenset(row["query"].split(" * "))): row for row in universe["expected"]}
        release = open_reader(town)
        release = release.companion(universe["universe"]) if universe["universe"] else release
        queries = {table.name: frozenset(table.query.name.split(" * ")) for table in release.universe.tables}
        own = [row for row in data["by_size"] if row["universe"] == universe["universe"]]
        assert own
        for table, level in {(row["table"], row["level"]) for row in own}:
            rows = [row for row in own if (row["table"], row["level"]) == (table, level)]
            areas = sum(row["areas"] for row in rows)
            expected = whole[level, queries[table]]
            assert areas == expected["geounits"]
            assert sum(row["areas"] * row["per_number"] for row in rows) / areas == pytest.approx(
                expected["per_number"]
            )
            squared = sum(row["areas"] * row["rmse"] ** 2 for row in rows) / areas
            assert math.sqrt(squared) == pytest.approx(expected["rmse"])
    # Areas without anybody have fewer numbers that are not certain: the classes differ.
    empty, large = (
        next(row for row in data["by_size"] if (row["table"], row["level"], row["size"]) == ("detail", "block", size))
        for size in ("empty", "50 to 499")
    )
    assert empty["per_number"] < large["per_number"]


def test_a_release_of_other_areas_is_refused(
    town_spec: Path, named_town: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any, the plan says what is missing."""
    assert "by_size" not in planned(town_spec)
    assert "name an earlier release of the same areas with --like" in " ".join(
        printed("plan", town_spec, "--details").split()
    )
    nowhere = lambda expectation, _, level: np.full(len(expectation.spine.level(level)), -1)  # noqa: E731
    monkeypatch.setattr("features.plan.sizes._people", nowhere)
    with pytest.raises(InputError, match="has none of the areas"):
        printed("plan", town_spec, "--like", named_town, "--json")
