"""Means of an amount from published sums and counts, by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from features.amounts.means import means_of
from pipeline.model.schema import AmountAttribute
from pipeline.release.tables import ReleasedTable


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
