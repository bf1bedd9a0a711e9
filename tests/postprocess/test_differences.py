"""Differences are added up as by hand, and the largest of them are those that sorting all of them finds."""

from __future__ import annotations

import numpy as np
import pytest

from postprocess.differences import DifferenceSums, largest, outside


def test_sums_of_parts_are_those_of_all_numbers() -> None:
    rng = np.random.default_rng(5)
    first, second = rng.integers(0, 1000, (2, 60, 3))
    second[::4] = first[::4]
    sums, rest = DifferenceSums(3), DifferenceSums(3)
    sums.add(first[:20], second[:20])
    rest.add(first[20:], second[20:])
    sums.merge(rest)
    pairs = [(int(a), int(b)) for a, b in zip(first[:, 1], second[:, 1], strict=True)]
    assert sums.signed[1] == sum(a - b for a, b in pairs)
    assert sums.absolute[1] == sum(abs(a - b) for a, b in pairs)
    assert sums.squared[1] == sum((a - b) ** 2 for a, b in pairs)
    assert sums.numbers.tolist() == [60, 60, 60]
    assert sums.equal == sum(int(a) == int(b) for a, b in zip(first.flat, second.flat, strict=True))
    assert sums.largest == max(abs(int(a) - int(b)) for a, b in zip(first.flat, second.flat, strict=True))
    assert sums.mean(sums.signed) == pytest.approx(np.mean(first - second))
    assert DifferenceSums(3).mean(np.zeros(3)) == 0


def test_a_difference_between_large_numbers_is_exact() -> None:
    sums = DifferenceSums(1)
    sums.add(np.array([[2**53 - 1]]), np.array([[2**53 - 2]]))
    assert (sums.signed.tolist(), sums.largest, sums.equal) == ([1.0], 1.0, 0)


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
