"""Intervals of quantiles: windows tell each record once, and the ends hold as often as they should."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from pipeline.privacy.budget import MOVED, Framework, Neighbours
from pipeline.privacy.noise.exponential import Exponential
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.questions.quantiles import Rank, losses
from pipeline.questions.windows import bought, boundaries, columns_of, counts_in_windows, interval, n_windows

QUANTILES = [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10)]


@pytest.mark.parametrize("candidates", [2, 3, 9, 200, 601])
def test_each_record_is_in_one_window(candidates: int) -> None:
    """The counts are a partition of the records, by brute force, wherever the number is."""
    rng = np.random.default_rng(candidates)
    histogram = rng.integers(0, 5, (12, candidates))
    steps = np.concatenate([[0, candidates - 1], rng.integers(0, candidates, 10)])
    found = counts_in_windows(histogram, steps)
    assert found.shape == (12, n_windows(candidates)) == (12, len(columns_of(candidates)))
    assert (found.sum(axis=1) == histogram.sum(axis=1)).all()
    for row, step, counts in zip(histogram, steps, found, strict=True):
        edges = boundaries(int(step), candidates)
        window = [sum(edge < one for edge in edges) for one in range(candidates)]
        assert counts.tolist() == np.bincount(window, weights=row, minlength=len(counts)).astype(int).tolist()


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("framework", ["zcdp", "pure"])
def test_a_record_moves_as_many_counts_as_are_charged(framework: Framework, neighbours: Neighbours) -> None:
    """All neighbours of small histograms of two groups, around all steps; a count is moved by one."""
    steps, worst = 5, 0
    rng = np.random.default_rng(1)
    for _ in range(20):
        before = rng.integers(0, 3, (2, steps))
        places = list(product(range(2), range(steps)))
        around = rng.integers(0, steps, 2)
        for left, right in product([None, *places], [None, *places]):
            if neighbours == "add-remove" and left is not None and right is not None:
                continue
            after = before.copy()
            if left is not None:
                after[left] -= 1
            if right is not None:
                after[right] += 1
            moved = np.abs(counts_in_windows(after, around) - counts_in_windows(before, around))
            worst = max(worst, int(moved.sum() if framework == "pure" else (moved**2).sum()))
    assert worst == MOVED[neighbours]
    (_, windows) = bought(Rank(Fraction(1, 2), steps, 0), framework, neighbours, Fraction(1), 1)
    assert windows.reach == 1


def test_without_noise_the_interval_is_the_quantile() -> None:
    rng = np.random.default_rng(3)
    for quantile in QUANTILES:
        values = rng.integers(0, 60, 500)
        histogram = np.bincount(values, minlength=60)[None]
        true = int(np.searchsorted(np.cumsum(histogram[0]), float(quantile) * 500))
        counts = counts_in_windows(histogram, np.array([true]))[0].tolist()
        low, high = interval(true, counts, 60, quantile, 1e-12)
        assert true - 2 <= low <= true <= high <= true + 2


def test_windows_beyond_the_grid_say_nothing() -> None:
    """Whatever noise they have: nobody is there."""
    counts = [50] * n_windows(200)
    for step in (0, 5, 199):
        edges = boundaries(step, 200)
        beyond = [edge < 0 for edge in edges] + [edges[-1] >= 199]
        beyond = [first or last for first, last in zip(beyond, [False, *(edge >= 199 for edge in edges)], strict=True)]
        moved = [1_000_000 if one else count for one, count in zip(beyond, counts, strict=True)]
        assert any(beyond)
        assert interval(step, counts, 200, Fraction(1, 2), 9.0) == interval(step, moved, 200, Fraction(1, 2), 9.0)


def coverage(histogram: np.ndarray, quantile: Fraction, *, framework: Framework = "zcdp", factor: float = 1) -> float:
    """How often the interval has the true quantile, of 300 draws with the program's own noise.

    Args:
        histogram: records by step.
        quantile: the fraction.
        framework: of the noise.
        factor: by which the variance that the interval is computed with is wrong.
    """
    n, budget = len(histogram), Fraction(1, 100) if framework == "zcdp" else Fraction(1, 4)
    upto = np.cumsum(histogram)
    true = int(np.searchsorted(upto, -(-quantile.numerator * int(upto[-1]) // quantile.denominator)))
    choice, windows = bought(Rank(quantile, n, 0), framework, "change-one", budget, 1)
    row = losses(histogram[None].astype(np.int64), choice)
    steps = Exponential(choice.scale).draw(bytes(32), np.repeat(row, 300, axis=0))
    counts = counts_in_windows(np.repeat(histogram[None], 300, axis=0), steps)
    noisy = counts + sampler_for(windows.noise).draw(b"w" * 32, 0, counts.size).reshape(counts.shape)
    variance = factor * windows.noise.variance
    ends = [interval(int(v), row.tolist(), n, quantile, variance) for v, row in zip(steps, noisy, strict=True)]
    return float(np.mean([low <= true <= high for low, high in ends]))


def spread(seed: int, n: int, steps: int = 1000) -> np.ndarray:
    """Records of which few share a step."""
    values = np.random.default_rng(seed).normal(steps / 2, steps / 6, n)
    return np.bincount(np.clip(values, 0, steps - 1).astype(int), minlength=steps)


@pytest.mark.parametrize("quantile", QUANTILES)
@pytest.mark.parametrize("framework", ["zcdp", "pure"])
def test_nine_in_ten_intervals_hold_for_records_that_lie_evenly(framework: Framework, quantile: Fraction) -> None:
    found = [coverage(spread(seed, 800), quantile, framework=framework) for seed in range(2)]
    assert 0.87 <= np.mean(found) <= 0.95


def test_intervals_of_another_variance_do_not() -> None:
    """The power of the test above."""
    narrow, wide = (
        np.mean([coverage(spread(seed, 800), Fraction(1, 2), factor=factor) for seed in range(2)])
        for factor in (0.2, 4.0)
    )
    assert narrow < 0.87
    assert wide > 0.95


@pytest.mark.parametrize("quantile", QUANTILES)
def test_how_many_hold_where_records_lie_unevenly(quantile: Fraction) -> None:
    """Few records hold as often; a gap at the quantile, or one amount for all, less: the page says how much."""
    few = np.bincount(np.random.default_rng(3).integers(0, 600, 20), minlength=600)
    assert coverage(few, quantile) >= 0.87
    gap = np.zeros(600, dtype=np.int64)
    gap[:200], gap[400:] = 3, 3
    same = np.bincount([250] * 300, minlength=600)
    assert min(coverage(gap, quantile), coverage(same, quantile)) >= 0.55
