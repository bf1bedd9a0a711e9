"""Margins in figures equal those by brute force, whatever the parts the tables come in."""

from __future__ import annotations

import math

import numpy as np
import pytest
from releases.drawn import drawn_table, parts_of

from features.report.table_numbers import MarginSummary
from pipeline.release.area_sizes import TENFOLD
from pipeline.release.reliability import UNKNOWN, classes_of, tenths
from pipeline.release.tables import ReleasedTable


@pytest.mark.parametrize(
    ("count", "margin", "noisy"),
    [(300, 100, True), (300, 99, False), (100, 34, True), (99, 90, False), (0, 500, False)],
)
def test_noise_is_large_beside_numbers_that_are_far_from_zero(count: int, margin: int, noisy: bool) -> None:
    """Half intervals of a third of a mean of 100 or more; the mean is that of all numbers, in any parts."""
    counts = np.array([[count - 50 if count else 0, count + 50 if count else 0]] * 6)
    ends = counts - float(margin), counts + float(margin)
    whole = ReleasedTable("t", "level", "q", np.arange(6).astype(str), ("a", "b"), counts, *ends)
    summary = MarginSummary()
    for part in parts_of(whole, 4):
        summary.add(part)
    assert summary.mean == count
    assert summary.is_noisy is noisy


@pytest.mark.parametrize("step", [7, 1000])
def test_margins_by_brute_force(step: int) -> None:
    whole = drawn_table(400, 5, seed=2)
    assert whole.margins is not None
    summary = MarginSummary()
    for part in parts_of(whole, step):
        summary.add(part)
    margins = tenths(whole.margins)
    sizes = whole.counts.sum(axis=1)
    for found in [*summary.by_size(), summary.all()]:
        low = 0 if found.size < 0 else TENFOLD[found.size]
        high = math.inf if found.size < 0 or found.size + 1 == len(TENFOLD) else TENFOLD[found.size + 1]
        rows = (sizes >= low) & (sizes < high)
        known = np.sort(margins[rows][margins[rows] != UNKNOWN]) / 10
        assert (found.areas, found.numbers) == (rows.sum(), len(known))
        for quantile, value in ((0.1, found.low), (0.5, found.median), (0.9, found.high)):
            if len(known):
                exact = known[math.ceil(quantile * len(known) - 1e-9) - 1]
                assert value is not None
                assert exact * 0.99 - 1e-9 <= value <= exact + 1e-9
        some = whole.counts[rows] > 0
        classes = np.bincount(classes_of(whole.counts[rows], margins[rows])[some], minlength=3)
        assert found.shares == tuple(classes.tolist())
