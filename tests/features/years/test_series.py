"""The periods of a series, and what a plan of it foretells, against what its releases state and an enumeration."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import pytest
from oracles.histories import farthest
from releases.command import printed
from releases.series_town import YEARS, MadeSeries, write_series_town

from features.years.plan import series_plan
from features.years.series import Series, Step
from geography.errors import InputError
from pipeline.release.measurements import read_measurement
from pipeline.storage.readable import unchecked

#: Step -> the ends of a year's first and last period, and pandas' name of it.
_ENDS: dict[Step, tuple[str, str, str]] = {
    "year": ("", "", "Y"),
    "quarter": ("-Q1", "-Q4", "Q"),
    "month": ("-01", "-12", "M"),
    "day": ("-01-01", "-12-31", "D"),
}


@pytest.mark.parametrize(("step", "year"), list(product(_ENDS, ("1999", "2000", "2031", "2100"))))
def test_periods_and_their_days_are_those_of_pandas(step: Step, year: str) -> None:
    first, last, frequency = _ENDS[step]
    series = Series("x", year + first, year + last, step)
    others = pd.period_range(f"{year}-01-01", f"{year}-12-31", freq=frequency)
    assert len(series.periods) == len(others)
    for number, (period, other) in enumerate(zip(series.periods, others, strict=True)):
        assert pd.Period(period.replace("-Q", "Q"), freq=frequency) == other
        assert series.number(period) == number
        assert series.days(period) == (str(other.start_time.date()), str(other.end_time.date()))


def test_what_is_no_period_or_series_is_refused() -> None:
    for period, message in (
        ("2034", "has 2031 to 2033; what comes after is another series"),
        ("2030", "has 2031 to 2033"),
        ("31", "found '31'; a year of series 'padron' is written as 2031"),
    ):
        with pytest.raises(InputError, match=message):
            Series("padron", "2031", "2033").number(period)
    for name, first, last, step, message in (
        ("", "2031", "2032", "year", "found no name"),
        ("one", "2032", "2031", "year", "found 2031 as its last period, before 2032"),
        ("one", "2031-13", "2032-01", "month", "found '2031-13'; a month of series 'one' is written as 2031-01"),
        ("one", "2031-02-29", "2031-03-01", "day", "found '2031-02-29', which is no day"),
        ("one", "2031", "2032", "week", "found 'week'; allowed are year, quarter, month, day"),
    ):
        with pytest.raises(InputError, match=message):
            Series(name, first, last, cast("Step", step))


def test_errors_are_those_that_releases_state(town_series: MadeSeries) -> None:
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
    shown = printed("series", "plan", town_series.spec)
    assert "spells = 2 (the spec)" in shown
    assert "a history of all periods keeps 2,592 covariances" in shown


def test_what_cannot_be_planned_is_refused(tmp_path: Path, town_spec: Path) -> None:
    spec = write_series_town(tmp_path)
    with pytest.raises(InputError, match="--spells: found 4; allowed are 1 to 3"):
        series_plan(spec, [4])
    with pytest.raises(InputError, match=r"has no \[series\]"):
        printed("series", "plan", town_spec)
    days = ("from = 2031\nto = 2033", 'from = "2031-01-01"\nto = "2031-12-31"\nstep = "day"')
    plan = series_plan(write_series_town(tmp_path / "daily", days, ("spells = 2\n", "")))
    assert [one.spells for one in plan.designs] == [None]
    assert "more than 20 periods cannot be mixed" in plan.lines()[-1]
