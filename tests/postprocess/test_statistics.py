"""Intervals, ranks, differences and targets: against definitions, by hand, and where the truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from postprocess.differences import DifferenceSums, largest, outside
from postprocess.largest_group import Target, TargetSums, fits
from postprocess.statistics import (
    NORMAL_QUANTILE,
    Counted,
    Moments,
    difference_interval,
    half_widths,
    median_interval,
    median_weights,
    quantile_class,
    quantile_of,
    rank_limits,
    ratio_interval,
    share_interval,
    typical_half_width,
)


def test_half_widths() -> None:
    """0 where exact, NaN where unknown, else whole persons, at least one, and the nearest of them."""
    standard = np.array([0.0, 1e-6, 1.0, 10.0, 10.1, np.nan, 1e-3])
    np.testing.assert_array_equal(half_widths(standard), [0, 0, 2, 16, 17, np.nan, 1])


def test_a_typical_half_width_is_of_numbers_with_an_error() -> None:
    assert typical_half_width(np.array([0.0, 4.0, np.nan, 100.0, 36.0])) == pytest.approx(6 * norm.ppf(0.95))
    assert typical_half_width(np.array([0.0, np.nan])) is None


def test_covers_nine_in_ten_of_whole_errors() -> None:
    """Errors of whole persons, whatever their size, are inside in 90 % of cases or about that."""
    for standard in (2.0, 5.0, 20.0, 100.0):
        width = half_widths(np.array([standard]))[0]
        inside = norm.cdf((width + 0.5) / standard) - norm.cdf(-(width + 0.5) / standard)
        assert 0.89 <= inside <= 0.96, standard


@pytest.mark.parametrize(("x", "y"), [(40.0, 100.0), (5.0, 8.0), (-3.0, 20.0), (2.0, 5.0)])
def test_fieller_covers_also_where_the_denominator_is_small(x: float, y: float) -> None:
    """Where it has no end it covers; the usual interval, by the derivative, does not keep 90 % there."""
    n = 100_000
    found_x, found_y = np.random.default_rng(1).multivariate_normal([x, y], [[9.0, 6.0], [6.0, 16.0]], n).T
    moments = Moments(np.full(n, 9.0), np.full(n, 16.0), np.full(n, 6.0))
    square = 1.6448536**2
    # By the definition: which ratios the test does not exclude.
    inside = (found_x - x / y * found_y) ** 2 <= square * (9 - 2 * x / y * 6 + (x / y) ** 2 * 16)
    assert abs(inside.mean() - 0.9) < 0.004
    low, high = ratio_interval(found_x, found_y, moments)
    bounded = np.isfinite(low)
    covered = (low <= x / y) & (x / y <= high)
    assert np.array_equal(covered[bounded], inside[bounded])
    assert covered[~bounded].all()
    wrong = Moments(moments.left, moments.right, 0 * moments.both)
    low, high = ratio_interval(found_x, found_y, wrong)
    assert abs(((low <= x / y) & (x / y <= high)).mean() - 0.9) > 0.004  # the covariance matters


def test_shares_stay_within_their_limits_and_nothing_known_is_everything_possible() -> None:
    unknown = Moments(np.array([np.nan, 1.0]), np.array([np.nan, 1.0]), np.array([np.nan, 1.0]))
    share, low, high = share_interval(np.array([1.0, 0.0]), np.array([4.0, 0.0]), unknown)
    assert share[0] == 25.0
    assert np.isnan([low[0], high[0], share[1]]).all()
    assert (low[1], high[1]) == (0.0, 100.0)
    exact = Moments(np.zeros(1), np.zeros(1), np.zeros(1))
    assert [float(one[0]) for one in share_interval(np.array([1.0]), np.array([4.0]), exact)] == [25.0, 25.0, 25.0]


@pytest.mark.parametrize("near", [0, 1, 4, 30])
def test_the_median_is_covered(near: int) -> None:
    """Half of all is `near` people short of the third value; a third of the noise's standard error is not enough."""
    truth = np.array([40, 60, 50 + near, 60, 40, 50])
    truth[0] += truth[3:].sum() - truth[:3].sum() + near
    true_median = int((np.cumsum(truth) >= truth.sum() / 2).argmax())
    noise = np.random.default_rng(near).normal(0, 5.0, (40_000, len(truth)))
    counts, weights = np.rint(truth + noise).astype(np.int64), median_weights(len(truth))
    variances = np.broadcast_to((weights**2).sum(axis=1) * (25.0 + 1 / 12), counts.shape)
    _, low, high = median_interval(counts, variances)
    covered = ((low <= true_median) & (true_median <= high)).mean()
    assert covered >= 0.9 - 0.006
    if near in (0, 1):
        _, low, high = median_interval(counts, variances / 9)
        assert ((low <= true_median) & (true_median <= high)).mean() < 0.85


def test_medians_by_hand() -> None:
    counts = np.array([[4, 1, 5], [5, 0, 5], [0, 0, 0], [0, 3, 0]])
    exact = np.zeros(counts.shape)
    median, low, high = median_interval(counts, exact)
    assert median.tolist() == [1, 0, -1, 1]
    assert low.tolist()[:2] == high.tolist()[:2] == [1, 0]
    unknown = np.full(counts.shape, np.nan)
    assert median_interval(counts, unknown)[1].tolist() == [0] * 4
    assert median_interval(counts, unknown)[2].tolist() == [2] * 4


def ranked(truth: np.ndarray, rng: np.random.Generator, stated: float) -> float:
    """How often all true ranks, the best and the worst of a tie's, are within their limits; the noise has 5 persons."""
    best = np.array([1 + (truth > one).sum() for one in truth])
    worst = np.array([(truth >= one).sum() for one in truth])
    held = 0
    for _ in range(2000):
        counts = np.rint(truth + rng.normal(0, 5, len(truth))).astype(np.int64)
        _, low, high = rank_limits(counts, np.full(len(truth), stated))
        held += bool(((low <= best) & (worst <= high)).all())
    return held / 2000


@pytest.mark.parametrize("spread", [0, 2, 12])
def test_all_ranks_are_within_their_limits_at_once(spread: int) -> None:
    rng = np.random.default_rng(spread)
    truth = 200 + spread * np.arange(12)
    assert ranked(truth, rng, 25.0 + 1 / 12) >= 0.9 - 0.014
    if spread == 2:
        assert ranked(truth, rng, 2.0) < 0.8


def test_ranks_by_hand() -> None:
    counts, variances = np.array([10, 500, 30, 500, 31]), np.array([0.0, 0.0, 1.0, 0.0, 1.0])
    rank, low, high = rank_limits(counts, variances)
    assert rank.tolist() == [5, 1, 4, 1, 3]
    assert low.tolist() == [5, 1, 3, 1, 3]
    assert high.tolist() == [5, 2, 4, 2, 4]
    rank, low, high = rank_limits(counts, np.full(5, np.nan))
    assert (low.tolist(), high.tolist()) == ([1] * 5, [5] * 5)


@pytest.mark.parametrize("scale", [1.0, 1e9])
def test_fieller_does_not_cancel(scale: float) -> None:
    """Of a ratio that is known to nine digits the interval is as exact, and multiplied with whatever unit."""
    x, y, variances = np.array([1e9]), np.array([3e9]), Moments(np.ones(1), np.ones(1), np.zeros(1))
    scaled = Moments(*(one * scale**2 for one in (variances.left, variances.right, variances.both)))
    low, high = ratio_interval(scale * x, scale * y, scaled)
    # To first order, as the errors are small: the delta method.
    half = NORMAL_QUANTILE * np.sqrt(1 + 1 / 9) / 3e9
    assert (high - low)[0] / 2 == pytest.approx(half, rel=1e-6)


def test_quantiles_are_the_least_that_so_many_do_not_exceed() -> None:
    rng = np.random.default_rng(5)
    for n in (*range(1, 41), 997, 1000):
        values = rng.integers(0, 30, n)
        numbers = np.bincount(values)
        for percent in (1, 10, 50, 90, 99, 100):
            expected = min(v for v in values.tolist() if 100 * (values <= v).sum() >= percent * n)
            assert quantile_class(numbers, percent) == expected
            assert quantile_of(np.append(values.astype(float), np.nan), percent) == expected
    assert quantile_class(np.zeros(3, dtype=np.int64), 50) is None
    assert quantile_of(np.full(2, np.nan), 50) is None


def test_sums_of_parts_are_those_of_all_numbers() -> None:
    rng = np.random.default_rng(5)
    first, second = rng.integers(0, 1000, (2, 60, 3))
    second[::4] = first[::4]
    sums = DifferenceSums(3)
    sums.add(first[:20], second[:20])
    sums.add(first[20:], second[20:])
    pairs = [(int(a), int(b)) for a, b in zip(first[:, 1], second[:, 1], strict=True)]
    assert sums.signed[1] == sum(a - b for a, b in pairs)
    assert sums.absolute[1] == sum(abs(a - b) for a, b in pairs)
    assert sums.squared[1] == sum((a - b) ** 2 for a, b in pairs)
    assert sums.numbers.tolist() == [60, 60, 60]
    assert sums.equal == sum(int(a) == int(b) for a, b in zip(first.flat, second.flat, strict=True))
    assert sums.largest == max(abs(int(a) - int(b)) for a, b in zip(first.flat, second.flat, strict=True))
    assert sums.mean(sums.signed) == pytest.approx(np.mean(first - second))
    assert DifferenceSums(3).mean(np.zeros(3)) == 0


def test_outside_counts_intervals_that_miss_and_leaves_out_numbers_without_one() -> None:
    low, high = np.array([1.0, 1.0, 1.0, np.nan]), np.array([3.0, 3.0, 3.0, np.nan])
    assert outside(np.array([1, 4, 0, 9]), low, high) == (2, 3)


@pytest.mark.parametrize("n", [1, 5, 40])
def test_the_largest_are_those_of_a_full_sort(n: int) -> None:
    """With many ties, which go by place, and numbers that are 0, which are never listed."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        sizes = rng.integers(0, 4, (6, 4))
        first = rng.integers(0, 3, (6, 4)).astype(np.float64) * (sizes > 0)
        places = [(row, column) for row in range(6) for column in range(4) if sizes[row, column]]
        assert largest(sizes, n) == sorted(places, key=lambda place: -sizes[place])[:n]
        assert largest(sizes, n, first) == sorted(places, key=lambda place: (-first[place], -sizes[place]))[:n]
    assert largest(np.zeros((2, 3), dtype=np.int64), n) == []


def target_of(people: list[int], fit: list[bool]) -> Target:
    sums = TargetSums()
    sums.add(np.array(people), np.array(fit))
    found = sums.target()
    assert found is not None
    return found


def test_every_area_is_counted_as_by_hand() -> None:
    rng = np.random.default_rng(2)
    truth = rng.poisson(rng.uniform(0, 700, (300, 1)) * [0.5, 0.3, 0.2])
    published = np.maximum(truth + rng.integers(-25, 26, truth.shape), 0)
    fit = []
    for own, true in zip(published.tolist(), truth.tolist(), strict=True):
        group = true.index(max(true))
        there = abs(own[group] / max(1, sum(own)) - true[group] / max(1, sum(true))) <= 0.05 + 1e-12
        fit.append(there)
    assert fits(published, truth).tolist() == fit
    assert 0.2 < np.mean(fit) < 0.95
    people = truth.sum(axis=1)
    found = target_of(people.tolist(), fit)
    large = people >= 500
    assert (found.areas, found.fit) == (large.sum(), np.array(fit)[large].sum())
    assert (found.all_areas, found.all_fit) == ((people > 0).sum(), np.array(fit)[people > 0].sum())
    assert found.share == pytest.approx(np.array(fit)[large].mean())


@pytest.mark.parametrize(
    ("people", "fit", "met", "reliable"),
    [
        ([10, 460, 460, 510], [False, True, True, True], True, 50),
        ([10, 460, 460, 510], [False, True, False, True], True, 500),
        ([10, 5000], [True, False], False, None),
        ([10, 60], [True, True], None, 0),
        ([499, 500], [False, True], True, 500),
        ([600] * 20, [False] + [True] * 19, True, 0),
        ([600] * 20, [False] * 2 + [True] * 18, False, None),
    ],
)
def test_reliability(people: list[int], fit: list[bool], met: bool | None, reliable: int | None) -> None:
    found = target_of(people, fit)
    assert (found.met, found.reliable_from) == (met, reliable)


def test_quantities_without_steps_reach_half_a_step_further_but_not_beyond_a_limit() -> None:
    counted = Counted.of_whole(np.array([5, 5, 5]), np.array([3.0, 5.0, 5.0]), np.array([7.0, 7.0, 5.0]))
    assert counted.lows is not None
    assert counted.highs is not None
    assert (counted.lows.tolist(), counted.highs.tolist()) == ([2.5, 5, 5], [7.5, 7.5, 5])


def test_a_difference_reaches_as_far_as_the_nearer_ends_of_both_intervals() -> None:
    """10 in 7 to 12, less 4 in 3 to 8: 3 and 4 below, 2 and 1 above; where the errors are the same, 1 and 1."""
    values, low, high = np.array([[[10.0] * 2, [4.0] * 2], [[7.0] * 2, [3.0] * 2], [[12.0] * 2, [8.0] * 2]])
    found = difference_interval(values, low, high, np.array([0.0, 1.0]))
    due = np.array([[6.0, 6.0], [6 - 5, 6 - 1], [6 + math.sqrt(5), 6 + 1]])
    np.testing.assert_allclose(np.array(found), due)
