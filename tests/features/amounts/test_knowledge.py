"""Intervals of sums that a wrong number of records moves."""

from __future__ import annotations

import numpy as np

from features.amounts.knowledge import Clipped


def test_ends_are_wider_by_what_a_wrong_number_of_records_does_where_the_clip_binds() -> None:
    """Sums of 10 records of -3 to 5 each: near the least, far from both ends, near the most."""
    sums = np.array([[-30, 10, 48]])
    tens = np.full((1, 3), 10)
    records = Clipped(tens, tens - 4.0, tens + 2.0, -3, 5)
    free = (np.array([[False, True, True]]), np.array([[True, True, False]]))
    low, high = records.widened(sums, (sums - 8.0, sums + 5.0), free)
    # Two records more make the least 6 less; four fewer make it 12 more, and the most 20 less.
    assert low.tolist() == [[-30 - 10, 10 - 8, 48 - np.ceil(np.hypot(8, 20))]]
    assert high.tolist() == [[-30 + np.hypot(5, 12), 10 + 5, 48 + np.ceil(np.hypot(5, 10))]]
