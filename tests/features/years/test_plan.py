"""What designs of a series would give, against what its releases state and the second program's enumeration."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
from oracles.histories import farthest
from releases.command import spinewise
from releases.series_town import YEARS, write_series_town

from features.years.plan import series_plan
from geography.errors import InputError
from pipeline.release.measurements import read_measurement
from pipeline.storage.readable import unchecked


class Made(Protocol):
    """See `conftest.MadeSeries`."""

    given: Path
    spec: Path

    def release(self, year: str) -> Path: ...


def test_errors_are_those_that_releases_state(town_series: Made) -> None:
    """Of the spec's own design the mean variance over the periods; of independent ones three times a release's."""
    plan = series_plan(town_series.spec, [1, 3])
    assert [one.spells for one in plan.designs] == [None, 1, 2, 3]
    own, independent = plan.designs[2], plan.designs[0]
    terms = json.loads((town_series.release("2033") / "public" / "manifest.json").read_text("utf-8"))["spec"]["series"]
    matrix = np.zeros((3, 3), dtype=np.int64)
    for t, row in enumerate(terms["terms"]["design"]):
        matrix[t, : t + 1] = row
    inverse = np.linalg.inv((matrix.T @ matrix).astype(float))
    for level, share in (("county", 0.25), ("tract", 0.25), ("block", 0.5)):
        for query in ("total", "born * sex"):
            name = f"{query.replace(' * ', '.')}.parquet"
            files = [town_series.release(year) / "public" / "measurements" / level / name for year in YEARS]
            variances = [read_measurement(unchecked(path)).variance for path in files]
            period, change = own.errors[level, query]
            assert period**2 == pytest.approx(np.mean(variances), rel=1e-9)
            scale = variances[0] / inverse[0, 0]
            steps = [inverse[t, t] + inverse[t + 1, t + 1] - 2 * inverse[t, t + 1] for t in range(2)]
            assert change**2 == pytest.approx(scale * np.mean(steps), rel=1e-9)
            alone = independent.errors[level, query]
            assert alone[0] ** 2 == pytest.approx(3 / (2 * share * 0.5), rel=1e-2)  # T 2 / (2 rho), rho = 2 shared
            assert alone[1] == pytest.approx(2**0.5 * alone[0])
    reaches = farthest(matrix.T @ matrix, "change-one")
    assert {k: loss.part for k, loss in own.losses.items()} == {
        k: Fraction(reaches[k - 1], reaches[1]) for k in (1, 2, 3)
    }
    assert plan.covariances == (2 + 4 + 12) * (3 * 4) ** 2


def test_the_command_prints_designs_beside_each_other(town_series: Made) -> None:
    shown = spinewise("series", "plan", town_series.spec).stdout
    assert "series padron: 3 periods, 2031 to 2033, change-one, rho = 2 for all of them; nothing is spent" in shown
    assert "independent" in shown
    assert "spells = 2 (the spec)" in shown
    assert "a history of all periods keeps 2,592 covariances" in shown


def test_what_cannot_be_planned_is_refused(tmp_path: Path, town_spec: Path) -> None:
    spec = write_series_town(tmp_path)
    with pytest.raises(InputError, match="--spells: found 4; allowed are 1 to 3"):
        series_plan(spec, [4])
    with pytest.raises(InputError, match=r"has no \[series\]"):
        series_plan(town_spec)
    assert spinewise("series", "plan", town_spec).returncode == 2
    daily = write_series_town(
        tmp_path / "daily",
        ("from = 2031\nto = 2033", 'from = "2031-01-01"\nto = "2031-12-31"\nstep = "day"'),
        ("spells = 2\n", ""),
    )
    plan = series_plan(daily)
    assert [one.spells for one in plan.designs] == [None]
    assert "more than 20 periods cannot be mixed" in plan.lines()[-1]
