"""A plan's figures are those of the noise; it shows itself."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest
from releases.command import needs

import spinewise as sw

pytestmark = needs("plan")
Changed = Callable[..., sw.Spec]


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
