"""Noisy counts ordered and cut: ranks hold together, and groups are listed as often as the answer says."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pipeline.privacy.budget import Mechanism, NoiseSpec
from pipeline.privacy.noise.sampler import sampler_for, tails
from pipeline.questions.intervals import half_width
from pipeline.questions.tables import listed, most_common, rank_ends
from postprocess.statistics import COVERAGE

NOISE = NoiseSpec("discrete_gaussian", Fraction(25))


def noise(n: int, seed: int) -> np.ndarray:
    return sampler_for(NOISE).draw(bytes([seed]) * 32, 0, n)


def test_the_largest_come_first_and_equal_ones_as_they_stand() -> None:
    keys = [(area, value) for area in ("A", "B") for value in "xyz"]
    rows = list(most_common(keys, [5, 9, 9, 100, 0, -3], NoiseSpec("discrete_laplace", Fraction(1)), 2))
    assert [row[:2] + row[4:6] for row in rows] == [
        ["A", "1", "y", "9"], ["A", "2", "z", "9"], ["B", "1", "x", "100"], ["B", "2", "y", "0"],
    ]  # fmt: skip
    assert rows[2][2:4] == ["1", "1"]
    assert rows[3][2:4] == ["2", "3"]


def test_all_intervals_of_ranks_hold_together_in_nine_of_ten() -> None:
    """Counts a standard deviation apart; with intervals that hold one by one only, fewer do: the power arm."""
    true = np.arange(12) * 5
    half, single = half_width(NOISE, COVERAGE ** (1 / 12)), half_width(NOISE, 0.5)
    ranks = [1 + int((true > count).sum()) for count in true]
    drawn = [true + noise(12, seed) for seed in range(250)]

    def together(width: int) -> float:
        held = [
            all(
                low <= rank <= high
                for rank, (low, high) in zip(ranks, rank_ends(list(map(int, one)), width), strict=True)
            )
            for one in drawn
        ]
        return float(np.mean(held))

    assert together(half) >= 0.9
    assert together(single // 2) < 0.9


def test_counts_that_were_picked_are_held() -> None:
    """Of twenty equal counts the largest noisy one is too large; intervals of one count each would miss it."""
    keys = [(str(value),) for value in range(20)]
    held = []
    for seed in range(250):
        ((*_, count, low, high),) = most_common(keys, (500 + noise(20, seed)).tolist(), NOISE, 1)
        held.append((int(low) <= 500 <= int(high), abs(int(count) - 500) <= half_width(NOISE)))
    joint, single = np.mean(held, axis=0)
    assert joint >= 0.9
    assert single < 0.5


def test_groups_are_listed_as_often_as_is_said() -> None:
    half = half_width(NOISE)
    for true, least, most in ((100 + half, 0.93, 1.0), (100 - half - 1, 0.0, 0.07)):
        counts = (true + noise(4000, 1)).tolist()
        found = list(listed(([str(count)] for count in counts), counts, 100))
        assert least <= len(found) / 4000 <= most
    counts = (100 + noise(4000, 2)).tolist()
    assert 0.4 < len(list(listed(([str(count)] for count in counts), counts, 100))) / 4000 < 0.6


@pytest.mark.parametrize("mechanism", ["discrete_gaussian", "discrete_laplace"])
@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(2), Fraction(20), Fraction(500)])
def test_the_half_width_is_the_least_that_covers(mechanism: Mechanism, scale: Fraction) -> None:
    noise = NoiseSpec(mechanism, scale)
    table, half = tails(noise, 64), half_width(noise)
    one = 1 << table.bits
    assert 2 * table.upper[half + 1] <= one / 10 * (1 + 1e-9)
    assert half == 0 or 2 * table.lower[half] > one / 10 * (1 - 1e-9)
