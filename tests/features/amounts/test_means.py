"""Means of an amount from published sums and counts, by hand; and where sums below 0 have none."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from releases.wages import BALANCES, write_wages

from features.amounts.means import means_of
from pipeline.model.schema import AmountAttribute
from pipeline.release.tables import ReleasedTable
from pipeline.runs.open_public import open_listed
from pipeline.spec.release_spec import ReleaseSpec, load_spec


def test_a_mean_of_an_amount_is_made_from_ends_half_a_step_further_out() -> None:
    """30 units of 2 euros by 5 records: reaches of 6.5 and 7.5 units, of 1.5 and 2.5 records."""
    sums, counts = (
        ReleasedTable(
            "total",
            "block",
            "total",
            np.array(["b"]),
            ("total",),
            np.array([[n]]),
            np.array([[float(low)]]),
            np.array([[float(high)]]),
        )
        for n, low, high in ((30, 24, 37), (5, 4, 7))
    )
    found = means_of("wages", AmountAttribute.of("wages", Fraction(0), Fraction(200), Fraction(2)), sums, counts).means
    assert found is not None
    assert found.lows is not None
    assert found.highs is not None
    low, high = float(found.lows[0, 0]) / 2, float(found.highs[0, 0]) / 2
    assert (30 - 5 * low) ** 2 == pytest.approx(6.5**2 + (2.5 * low) ** 2, rel=1e-12)
    assert (30 - 5 * high) ** 2 == pytest.approx(7.5**2 + (1.5 * high) ** 2, rel=1e-12)
    assert low < 6 < high


_SUMS = (
    *BALANCES,
    (
        'queries = { total = "1/4", sex = "1/4", detailed = "1/2" }\nlevels = {',
        'queries = { total = "1/2", sex = "1/2" }\nlevels = {',
    ),
    ("publish = {", "tables = { total = 'total', sex = 'sex', detailed = 'detailed' }\npublish = {"),
)


def test_sums_below_0_are_left_out_with_the_numbers_of_records_that_their_intervals_need(tmp_path: Path) -> None:
    """The release measures no detail, the amount does; the spec that is left can be read again."""
    spec = load_spec(write_wages(tmp_path, *_SUMS))
    side = open_listed(spec, spec.universes())
    every = ("county", "tract", "block")
    assert [{table.name: table.levels for table in one.tables} for one in side.universes] == 2 * [
        {"total": every, "sex": every}
    ]
    told = [line for line in side.remarks if line.startswith("companions.wages.tables.detailed: ")]
    assert [line.partition("at level ")[2].partition(",")[0] for line in told] == [f"'{level}'" for level in every]
    again = ReleaseSpec.from_public_dict(side.spec.public_dict())
    assert [[table.name for table in one.tables] for one in again.universes()] == 2 * [["total", "sex"]]
    for changes in (_SUMS[len(BALANCES) :], (*_SUMS, ("replicates = 4", "margins = false"))):
        spec = load_spec(write_wages(tmp_path, *changes))  # not below 0, or without intervals
        side = open_listed(spec, spec.universes())
        assert [table.name for table in side.universes[1].tables] == ["total", "sex", "detailed"]
