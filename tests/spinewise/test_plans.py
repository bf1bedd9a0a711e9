"""A plan's figures are those of the noise; it shows itself."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd
import pytest
from releases.command import needs

import spinewise as sw

pytestmark = needs("plan")
Changed = Callable[..., sw.Spec]


def test_the_errors_of_one_measurement(changed: Changed, blocks: pd.DataFrame) -> None:
    """One query at the leaves alone: sigma^2 = 2 / (2 rho), two values moving; a county is the sum of its leaves."""
    spec = changed(
        privacy={"rho": "1/8"}, strategy={"queries": {"detailed": "1"}, "levels": {"county": "0", "block": "1"}}
    )
    plan = sw.plan(spec, blocks)
    errors = plan.errors.set_index(["level", "query"]).to_dict("index")
    sigma = math.sqrt(8)
    leaf, top = errors["block", "detailed"], errors["county", "detailed"]
    assert leaf["sigma"] == pytest.approx(sigma, rel=1e-9)
    assert leaf["margin90"] == pytest.approx(1.6449 * leaf["sigma"], rel=1e-4)
    assert leaf["per_number"] == pytest.approx(leaf["sigma"] * math.sqrt(2 / math.pi), rel=1e-6)
    assert leaf["per_geounit"] == pytest.approx(4 * leaf["per_number"], rel=1e-9)
    mean_of_counties = (math.sqrt(2) + math.sqrt(3)) / 2  # of 2 and 3 blocks
    assert top["per_number"] == pytest.approx(mean_of_counties * leaf["per_number"], rel=1e-6)
    assert math.isnan(top["sigma"])
    assert leaf["share"] == "1"


def test_it_shows_itself_and_reads_no_records(changed: Changed, blocks: pd.DataFrame) -> None:
    spec = changed(input={"form": "microdata", "geocode": "block", "file": "no-such-file.csv"})
    plan = sw.plan(spec, blocks)
    assert repr(plan).startswith("Plan of village: county 2, block 5")
    page = plan._repr_html_()
    assert page.count("<tr") == 1 + len(plan.errors)
    assert "NaN" not in page
    assert f"{plan.errors['per_number'][0]:,.2f}" in page
    with pytest.raises(sw.InputError, match="workers: found 0"):
        sw.plan(spec, blocks, workers=0)
