"""Average household sizes and their intervals, compared with another derivation, and never a number that is none."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from postprocess.statistics import NORMAL_QUANTILE, Averages, Counted, average_sizes

RNG = np.random.default_rng(16)
N = 4_000


def _drawn() -> tuple[Counted, Counted]:
    """Households from none to thousands, with 1 to 9 members on average, and intervals of any width around both."""
    households = np.concatenate([np.arange(40), RNG.integers(0, 5_000, N - 40)])
    persons = (households * RNG.uniform(1, 9, N)).astype(np.int64)
    counted = []
    for counts in (persons, households):
        below, above = RNG.integers(0, 60, (2, N))
        counted.append(Counted(counts, np.maximum(counts - below, 0).astype(float), (counts + above).astype(float)))
    return counted[0], counted[1]


def _ends(persons: Counted, households: Counted) -> tuple[Averages, NDArray[np.float64], NDArray[np.float64]]:
    found = average_sizes(persons, households, 1, 12)
    assert found.lows is not None
    assert found.highs is not None
    return found, found.lows, found.highs


def test_intervals_cover_independent_errors_of_known_size() -> None:
    """And those of a tenth less would not: the test can tell."""
    truth = np.array([600.0, 250.0])
    spread = np.array([9.0, 5.0])
    drawn = np.rint(truth + RNG.normal(0, spread, (40_000, 2))).astype(np.int64)

    def covered(factor: float) -> float:
        counted = [
            Counted(drawn[:, i], drawn[:, i] - reach, drawn[:, i] + reach)
            for i, reach in enumerate(factor * NORMAL_QUANTILE * one for one in spread)
        ]
        _, low, high = _ends(counted[0], counted[1])
        return float(((low <= truth[0] / truth[1]) & (truth[0] / truth[1] <= high)).mean())

    assert abs(covered(1.0) - 0.9) < 0.006
    assert covered(0.9) < 0.88


def test_exact_counts_give_an_exact_average_and_unknown_ones_no_interval() -> None:
    counts = np.array([7, 50, 0]), np.array([3, 20, 0])
    exact = [Counted(each, each.astype(float), each.astype(float)) for each in counts]
    found, low, high = _ends(exact[0], exact[1])
    assert low[:2] == pytest.approx(found.values[:2], rel=1e-15)
    assert high[:2] == pytest.approx(found.values[:2], rel=1e-15)
    unknown = Counted(counts[1], np.full(3, np.nan), np.full(3, np.nan))
    found, low, high = _ends(exact[0], unknown)
    assert found.values[:2].tolist() == [7 / 3, 2.5]
    assert np.isnan(low).all()
    assert np.isnan(high).all()
    assert average_sizes(Counted(counts[0]), exact[1], 1, 12).lows is None


def test_averages_of_whole_counts_are_covered_as_the_counts_are() -> None:
    """Counts whose intervals of whole numbers hold 90 %: put into the formula as they are, they cover less."""
    truth, reach = np.array([640, 250]), np.array([4, 2])
    spread = (reach + 0.5) / NORMAL_QUANTILE
    drawn = truth + np.rint(RNG.normal(0, spread, (40_000, 2))).astype(np.int64)
    ends = [
        (drawn[:, i], (drawn[:, i] - reach[i]).astype(float), (drawn[:, i] + reach[i]).astype(float)) for i in (0, 1)
    ]

    def covered(persons: Counted, households: Counted) -> float:
        _, low, high = _ends(persons, households)
        return float(((low <= truth[0] / truth[1]) & (truth[0] / truth[1] <= high)).mean())

    assert all(
        abs(((low <= t) & (t <= high)).mean() - 0.9) < 0.006 for t, (_, low, high) in zip(truth, ends, strict=True)
    )
    assert abs(covered(Counted.of_whole(*ends[0]), Counted.of_whole(*ends[1])) - 0.9) < 0.008
    assert covered(Counted(*ends[0]), Counted(*ends[1])) < 0.87


def test_means_of_losses_have_ends_where_no_difference_begins_to_be_excluded() -> None:
    """By search, of sums of either sign: P - t H has the other ends of H where t is below 0."""
    _, households = _drawn()
    assert households.lows is not None
    assert households.highs is not None
    sums = (households.counts * RNG.uniform(-9, 9, N)).astype(np.int64)
    below, above = RNG.integers(0, 90, (2, N))
    found = average_sizes(Counted(sums, sums - below.astype(float), sums + above.astype(float)), households, -12, 12)
    assert found.lows is not None
    assert found.highs is not None
    t = np.linspace(-12, 12, 240_001)
    across = 0
    for row in range(1, 120):
        p, h = int(sums[row]), int(households.counts[row])
        fewer, more = h - households.lows[row], households.highs[row] - h
        toward_low = np.hypot(below[row], t * np.where(t > 0, more, fewer))
        toward_high = np.hypot(above[row], t * np.where(t > 0, fewer, more))
        inside = np.where(p - t * h > 0, p - t * h <= toward_low, t * h - p <= toward_high)
        assert found.lows[row] == pytest.approx(t[inside][0], abs=2e-4)
        assert found.highs[row] == pytest.approx(t[inside][-1], abs=2e-4)
        across += int(found.lows[row] < 0 < found.highs[row])
    assert 5 < across < 115
