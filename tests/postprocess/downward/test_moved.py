"""Intervals of numbers that non-negativity moves, and which are moved: where the truth is known."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from postprocess.arrays import FloatArray
from postprocess.downward import moved
from postprocess.downward.moved import HELD, LEAST_COMPARED, TOLD, Distances, MovedErrors, SmallNumbers, Squares, taken
from postprocess.downward.simulated_margins import LARGE
from postprocess.marginal import Marginal
from postprocess.problem import MeasuredAnswers
from postprocess.statistics import NORMAL_QUANTILE

AREAS, ANSWERS, CELLS, NOISE = 1500, 10, 16, 4.0
DETAIL = Marginal("detail", (np.arange(ANSWERS), np.arange(CELLS)))
GROUP = Marginal("group", (np.arange(ANSWERS), np.zeros(CELLS, dtype=np.int64)))
MEASURED = MeasuredAnswers(DETAIL, np.zeros((0, DETAIL.size), dtype=np.int64), NOISE**2)


def released(noisy: np.ndarray) -> np.ndarray:
    """The nearest non-negative numbers with the same total in each row, rounded: least squares by bisection."""
    low, high = -np.full((len(noisy), 1), 1e4), np.full((len(noisy), 1), 1e4)
    for _ in range(60):
        middle = (low + high) / 2
        less = np.maximum(noisy + middle, 0).sum(axis=1, keepdims=True) < noisy.sum(axis=1, keepdims=True)
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return np.rint(np.maximum(noisy + middle, 0)).astype(np.int64)


class Towns(NamedTuple):
    """Areas of ten groups of sixteen cells, in few of which somebody is; the detail is measured, and the total held."""

    truth: np.ndarray
    counts: np.ndarray
    estimates: np.ndarray
    standard: np.ndarray
    taken: np.ndarray


@cache
def towns() -> Towns:
    rng = np.random.default_rng([1, 1])
    of_groups = rng.gamma(0.7, 120 / np.arange(1, ANSWERS + 1), (AREAS, ANSWERS))
    shares = rng.dirichlet(np.full(CELLS, 0.05), (AREAS, ANSWERS))
    cells = rng.poisson(of_groups[:, :, None] * shares).reshape(AREAS, -1)
    noisy = cells + np.random.default_rng([1, 2]).normal(0, NOISE, cells.shape)
    release = sp.csr_array(released(noisy))
    counts, standard = GROUP.answer_csr(release), np.full((AREAS, ANSWERS), NOISE * np.sqrt(CELLS))
    return Towns(GROUP.answer(cells), counts, GROUP.answer(noisy), standard, taken(GROUP, [MEASURED], release))


def held(g: np.ndarray) -> dict[str, tuple[float, float]]:
    """By true and by released size: the share that is held, and the mean width, of numbers that are learned from."""
    truth, counts, estimates, standard, _ = towns()
    low, high = MovedErrors.of(Distances.of(counts, estimates, standard, g)).ends(counts, estimates, standard, g)
    inside, known = (low <= truth) & (truth <= high), ~np.isnan(low)
    found = {}
    for name, by in (("true", truth), ("released", counts)):
        for least, most in ((50, 99), (100, 10**9)):
            some = known & (by >= least) & (by <= most)
            found[f"{name} {least}"] = float(inside[some].mean()), float((high - low)[some].mean())
    return found


def test_steins_lemma_gives_what_non_negativity_takes() -> None:
    """E (u - t) h(r - u) = -E g S^2 h'(r - u), of h that is bounded, so that few large distances do not decide."""
    error, distance = (
        each / towns().standard for each in (towns().estimates - towns().truth, towns().counts - towns().estimates)
    )
    shares = []
    for least, most in ((0, 0), (1, 19), (20, 99), (100, 10**9)):
        some = (least <= towns().truth) & (towns().truth <= most)
        product = np.mean((error * np.clip(distance, -2, 2))[some])
        shares.append(float(np.mean((towns().taken * (np.abs(distance) < 2))[some])))
        assert -product == pytest.approx(shares[-1], abs=0.05)
    assert shares[0] > shares[-1] + 0.15


def test_intervals_hold_the_truth_nine_times_in_ten_and_are_shorter() -> None:
    """Classes of 650 to 1,100 numbers; if all is said to be taken they hold half, if nothing is they are as long."""
    found = held(towns().taken)
    assert all(0.86 < share < 0.94 for share, _ in found.values()), found
    around = 2 * NORMAL_QUANTILE * NOISE * np.sqrt(CELLS)
    assert all(width < 0.8 * around for _, width in found.values()), found
    all_taken = held(np.full(towns().counts.shape, 0.95))
    assert all(share < 0.6 for share, _ in all_taken.values()), all_taken
    nothing_taken = held(np.full(towns().counts.shape, 0.05))
    assert all(width > 0.97 * around for _, width in nothing_taken.values()), nothing_taken


def test_a_model_in_which_nothing_is_moved_holds_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moved, "SCALES", np.zeros(1))
    found = held(towns().taken)
    assert found["true 100"][0] < 0.8
    assert found["released 100"][0] < 0.85


def test_the_middle_holds_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of numbers that are as the model has them: b of scale 2, and g of 1/2."""
    rng = np.random.default_rng(3)
    n = 20_000
    truth = rng.integers(500, 900, n)
    taken_away, left, bias = rng.normal(0, np.sqrt([[50], [50], [400]]), (3, n))
    counts, standard = np.rint(truth + bias + left).astype(np.int64), np.full(n, 10.0)
    known = counts, truth + left + taken_away, standard, np.full(n, 0.5)
    low, high = MovedErrors.of(Distances.of(*known)).ends(*known)
    assert np.mean((low <= truth) & (truth <= high)) == pytest.approx(HELD, abs=0.012)
    monkeypatch.setattr(moved, "HELD", 0.8)
    low, high = MovedErrors.of(Distances.of(*known)).ends(*known)
    assert np.mean((low <= truth) & (truth <= high)) < 0.83


def test_what_is_taken_by_hand() -> None:
    """Two groups of three cells; of the first two cells are positive, of the second one of the three that are."""
    detail = Marginal("detail", (np.arange(2), np.arange(3)))
    group = Marginal("group", (np.arange(2), np.zeros(3, dtype=np.int64)))
    total = Marginal("total", (np.zeros(2, dtype=np.int64), np.zeros(3, dtype=np.int64)))
    released = sp.csr_array(np.array([[5, 2, 0, 0, 0, 9], [0, 0, 0, 0, 0, 0]]))
    values = np.zeros((0, 1), dtype=np.int64)
    of_detail = MeasuredAnswers(detail, values, 4.0)
    np.testing.assert_allclose(taken(group, [of_detail], released)[0], [1 / 3 * 1 / 3, 2 / 3 * 2 / 3])
    np.testing.assert_array_equal(taken(group, [of_detail], released)[1], [1.0, 1.0])
    # The group measured too: precisions 1/12 and 1/2 of all, 1/8 and 1/2, 1/4 and 1/2 of what is positive.
    found = taken(group, [of_detail, MeasuredAnswers(group, values, 2.0)], released)[0]
    np.testing.assert_allclose(found, [(1 - 14 / 15) * 1 / 3, (1 - 7 / 9) * 2 / 3])
    # The total is nearly exact: what others leave over is not seen in it.
    found = taken(group, [of_detail, MeasuredAnswers(total, values, 1e-9)], released)[0]
    np.testing.assert_allclose(found, [1 / 3, 2 / 3], rtol=1e-6)


def test_too_few_numbers_have_no_such_intervals() -> None:
    """Those of a class that is too small are joined with the next; alone they have none."""
    estimates = np.random.default_rng(1).normal(400, 10, 49)
    known = np.full(49, 400), estimates, np.full(49, 10.0), np.full(49, 0.5)
    assert np.isnan(MovedErrors.of(Distances.of(*known)).ends(*known)[0]).all()
    more = [np.append(each, one) for each, one in zip(known, (150, 150.0, 10.0, 0.5), strict=True)]
    found = MovedErrors.of(Distances.of(*more)).ends(*more)
    assert np.isfinite(found).all()
    apart = [*more[:3], np.append(known[3], 0.9)]
    assert np.isnan(MovedErrors.of(Distances.of(*apart)).ends(*apart)[0]).all()


def test_an_interval_that_begins_at_the_released_number_is_as_much_shorter_at_its_other_end() -> None:
    """Moved far: e is hidden by b, so that the middle is around u, which is far above r; and the same below."""
    rng = np.random.default_rng(4)
    n = 4000
    bias = rng.choice([-100.0, 100.0], n) * rng.uniform(1, 3, n)
    truth = np.full(n, 900)
    estimates, counts = truth + rng.normal(0, 10, n), np.rint(truth + bias).astype(np.int64)
    known = counts, estimates, np.full(n, 10.0), np.full(n, 0.05)
    low, high = MovedErrors.of(Distances.of(*known)).ends(*known)
    assert np.mean((low <= truth) & (truth <= high)) == pytest.approx(HELD, abs=0.015)
    up, down = bias > 0, bias < 0
    assert (high == counts + 1)[up].all()
    assert (low == counts - 1)[down].all()
    beyond = np.concatenate([(estimates - low)[up], (high - estimates)[down]])
    assert beyond.mean() == pytest.approx(12.9, abs=0.4)  # 91 % of a normal one are above -1.34; rounded inwards


NUMBERS, DEVIATION = 4000, 10.0
Z90 = 1.6448536


def squares_of(truth: float, kept: float, shift: int, half: float, n: int = NUMBERS) -> Squares:
    """Of n numbers, of which a projection keeps a share of the error of their estimates, and which are shifted."""
    standard = np.full((n, 1), DEVIATION)
    estimates = truth + np.random.default_rng(1).normal(0, standard)
    released = np.rint(truth + kept * (estimates - truth)).astype(np.int64) + shift
    between = (LEAST_COMPARED, LARGE) if truth < LARGE * DEVIATION else (LARGE, np.inf)
    return Squares.of(released, estimates, standard, np.full(released.shape, half), between)


@pytest.mark.parametrize("kept", [0.0, 0.3, 1.0])
def test_pythagoras_tells_a_moved_release(kept: float) -> None:
    """A projection of noisy numbers is not moved, whatever it shrinks; with a shift of one standard error it is."""
    found = squares_of(1000.0, kept, 0, Z90 * DEVIATION * kept)
    assert found.n == NUMBERS
    assert found.distances / NUMBERS == pytest.approx((1 - kept) ** 2, abs=0.05)
    assert found.errors / NUMBERS == pytest.approx(kept**2)
    assert not found.are_of_moved
    assert squares_of(1000.0, kept, 12, Z90 * DEVIATION * kept).are_of_moved


def judged(squares: Squares, *, large_moved: bool = True) -> SmallNumbers:
    return SmallNumbers.of(squares, large_moved=large_moved)


def test_small_numbers_are_judged_by_their_own_distances() -> None:
    """Whatever large ones are: a shift of 0.4 standard errors, which large numbers may have, is informative of many."""
    true, half = squares_of(20.0, 0.3, 0, Z90 * DEVIATION * 0.3), Z90 * DEVIATION * 0.3
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
ESTIMATES, STANDARD = np.array([5.0, 12.0, 32.0, -40.0, 12.0]), np.full(5, 10.0)
AROUND = (np.array([0.0, 0.0, 4.0, 0.0, 0.0]), np.array([21.0, 28.0, 48.0, 6.0, 28.0]))


@pytest.mark.parametrize(
    ("small", "low", "high"),
    [
        (SmallNumbers(moved=False, informative=True, longer=True), [3, 3, 3, 3, 3], [30, 30, 30, 30, 30]),
        (SmallNumbers(moved=True, informative=True, longer=False), [0, 0, 3, 0, 0], [30, 30, 48, 30, 30]),
        (SmallNumbers(moved=True, informative=True, longer=True), [0, 0, 3, 0, 0], [21, 28, 48, 6, 28]),
    ],
)
def test_ends_of_small_numbers(small: SmallNumbers, low: list[int], high: list[int]) -> None:
    """Not moved: as simulated; moved; and longer, too."""
    found = small.ends(SIMULATED, AROUND, ESTIMATES, STANDARD)
    np.testing.assert_array_equal(found, (low, high))


def test_no_further_than_around_estimates_still_holds_nine_of_ten_that_are_moved() -> None:
    """Truths of 15 with noise of 10, simulated intervals far too long: the bound misses 5 % at the upper end."""
    rng = np.random.default_rng(3)
    truth = np.full((20_000, 1), 15)
    estimates = truth + rng.normal(0, DEVIATION, truth.shape)
    standard = np.full(truth.shape, DEVIATION)
    released = np.maximum(np.rint(estimates), 0).astype(np.int64)
    least: FloatArray = np.minimum(np.maximum(np.ceil(estimates - Z90 * DEVIATION), 0), released)
    most: FloatArray = np.maximum(np.floor(estimates + Z90 * DEVIATION), released + 1)
    zeros: FloatArray = np.zeros(truth.shape)
    simulated, around = (zeros, zeros + 100.0), (least, most)
    shares = []
    for longer in (False, True):
        small = SmallNumbers(moved=True, informative=True, longer=longer)
        low, high = small.ends(simulated, around, estimates, standard)
        shares.append((np.mean((low <= truth) & (truth <= high)), np.mean(high - low)))
    assert shares[0][0] > 0.99
    assert 0.94 < shares[1][0] < 0.96
    assert shares[1][1] < 0.55 * shares[0][1]
