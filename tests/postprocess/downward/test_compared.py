"""Pythagoras tells which numbers are moved, and small ones have the ends that follow: where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from postprocess.arrays import FloatArray
from postprocess.downward.compared import LEAST_COMPARED, TOLD, SmallNumbers, Squares
from postprocess.downward.simulated_margins import LARGE

N, NOISE = 4000, 10.0
Z90 = 1.6448536


def squares_of(truth: float, kept: float, shift: int, half: float, n: int = N) -> Squares:
    """Of n numbers, of which a projection keeps a share of the error of their estimates, and which are shifted."""
    standard = np.full((n, 1), NOISE)
    estimates = truth + np.random.default_rng(1).normal(0, standard)
    released = np.rint(truth + kept * (estimates - truth)).astype(np.int64) + shift
    between = (LEAST_COMPARED, LARGE) if truth < LARGE * NOISE else (LARGE, np.inf)
    return Squares.of(released, estimates, standard, np.full(released.shape, half), between)


@pytest.mark.parametrize("kept", [0.0, 0.3, 1.0])
def test_pythagoras_tells_a_moved_release(kept: float) -> None:
    """A projection of noisy numbers is not moved, whatever it shrinks; with a shift of one standard error it is."""
    found = squares_of(1000.0, kept, 0, Z90 * NOISE * kept)
    assert found.n == N
    assert found.distances / N == pytest.approx((1 - kept) ** 2, abs=0.05)
    assert found.errors / N == pytest.approx(kept**2)
    assert not found.are_of_moved
    assert squares_of(1000.0, kept, 12, Z90 * NOISE * kept).are_of_moved


def judged(squares: Squares, *, large_moved: bool = True) -> SmallNumbers:
    return SmallNumbers.of(squares, large_moved=large_moved, spread=False)


def test_small_numbers_are_judged_by_their_own_distances() -> None:
    """Whatever large ones are: a shift of 0.4 standard errors, which large numbers may have, is informative of many."""
    true, half = squares_of(20.0, 0.3, 0, Z90 * NOISE * 0.3), Z90 * NOISE * 0.3
    shifted = squares_of(20.0, 0.3, 7, half)
    for large_moved in (False, True):
        assert not judged(true, large_moved=large_moved).moved
        assert judged(shifted, large_moved=large_moved).moved
    assert not shifted.are_of_moved  # the fault: judged as large numbers are


def test_chance_alone_moves_no_small_numbers() -> None:
    """Squares of n normal distances are above n + 3 sqrt(2 n) in 0.3 %; above n, the fault, in half of all cases."""
    drawn = np.random.default_rng(2).chisquare(200, 2000)
    moved = [judged(Squares(float(each), 0.0, 200), large_moved=False).moved for each in drawn]
    assert 0 < np.mean(moved) < 0.01
    assert np.mean(drawn > 200) > 0.4


def test_of_few_small_numbers_nothing_is_told() -> None:
    """They are moved where the large ones are, whatever they show themselves."""
    for distances in (0.5, 5.0):
        few, enough = (Squares(distances * n, 0.0, n) for n in (TOLD - 1, TOLD))
        for large_moved in (False, True):
            assert judged(few, large_moved=large_moved).moved == large_moved
            assert not judged(few, large_moved=large_moved).informative
            assert judged(enough, large_moved=large_moved).moved == (distances > 1)
            assert judged(enough, large_moved=large_moved).informative


SIMULATED = (np.array([3.0, 3.0, 3.0, 3.0, 3.0]), np.array([30.0, 30.0, 30.0, 30.0, 30.0]))
COUNTS, ESTIMATES, STANDARD = np.array([5, 5, 5, 5, 21]), np.array([5.0, 12.0, 32.0, -40.0, 12.0]), np.full(5, 10.0)
AROUND = (np.array([0.0, 0.0, 4.0, 0.0, 0.0]), np.array([21.0, 28.0, 48.0, 6.0, 28.0]))


@pytest.mark.parametrize(
    ("small", "low", "high"),
    [
        (SmallNumbers(moved=False, informative=True, longer=True, spread=True), [3, 3, 3, 3, 0], [30, 30, 30, 30, 30]),
        (SmallNumbers(moved=True, informative=True, longer=False, spread=False), [0, 0, 3, 0, 0], [30, 30, 48, 30, 30]),
        (SmallNumbers(moved=True, informative=True, longer=True, spread=False), [0, 0, 3, 0, 0], [21, 28, 48, 6, 28]),
        (SmallNumbers(moved=True, informative=True, longer=True, spread=True), [0, 0, 3, 0, 0], [21, 28, 48, 6, 28]),
    ],
)
def test_ends_of_small_numbers(small: SmallNumbers, low: list[int], high: list[int]) -> None:
    """Not moved: only one above two standard errors reaches down; moved; longer, too; and spread, as it is already."""
    found = small.ends(COUNTS, SIMULATED, AROUND, ESTIMATES, STANDARD)
    np.testing.assert_array_equal(found, (low, high))


def test_no_further_than_around_estimates_still_holds_nine_of_ten_that_are_moved() -> None:
    """Truths of 15 with noise of 10, simulated intervals far too long: the bound misses 5 % at the upper end."""
    rng = np.random.default_rng(3)
    truth = np.full((20_000, 1), 15)
    estimates = truth + rng.normal(0, NOISE, truth.shape)
    standard = np.full(truth.shape, NOISE)
    released = np.maximum(np.rint(estimates), 0).astype(np.int64)
    least: FloatArray = np.minimum(np.maximum(np.ceil(estimates - Z90 * NOISE), 0), released)
    most: FloatArray = np.maximum(np.floor(estimates + Z90 * NOISE), released + 1)
    zeros: FloatArray = np.zeros(truth.shape)
    simulated, around = (zeros, zeros + 100.0), (least, most)
    shares = []
    for longer in (False, True):
        small = SmallNumbers(moved=True, informative=True, longer=longer, spread=False)
        low, high = small.ends(released, simulated, around, estimates, standard)
        shares.append((np.mean((low <= truth) & (truth <= high)), np.mean(high - low)))
    assert shares[0][0] > 0.99
    assert 0.94 < shares[1][0] < 0.96
    assert shares[1][1] < 0.55 * shares[0][1]
