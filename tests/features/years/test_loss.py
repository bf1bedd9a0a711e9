"""What a history of moves costs, against an independent program that goes through all pairs of histories."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles.histories import all_pairs, distances, farthest, n_spells
from oracles.series_numbers import square_root

from features.years.design import (
    MOST_CASES,
    bound,
    history_bound,
    independent,
    largest,
    n_cases,
    reach,
    triangular,
    worst_pairs,
)
from pipeline.privacy.budget import NEIGHBOURS, Neighbours

SPELLS = (1, 2, 3, 4, 5)


def random_gram(periods: int, seed: int) -> NDArray[np.int64]:
    """Of a lower triangular matrix of whole numbers; of even seeds most off the diagonal are below 0."""
    rng = np.random.default_rng(seed)
    matrix = np.tril(rng.integers(-40, 1 if seed % 2 == 0 else 25, (periods, periods)))
    matrix[np.arange(periods), np.arange(periods)] = rng.integers(40, 64, periods)
    return np.asarray(matrix.T @ matrix)


def test_the_oracle_goes_through_all_histories() -> None:

    assert len(all_pairs(1)) == 5
    assert len(all_pairs(2)) == 52
    assert n_spells(np.array([[0, 0, 1], [-1, 2, -1], [0, -1, 0], [-1, -1, -1]])).tolist() == [2, 1, 2, 0]
    exchanged = np.array([[[0, 1], [1, 0]]])
    assert distances(exchanged, np.array([[3, -1], [-1, 2]])).tolist() == [2 * (3 + 2 + 2)]


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize(("periods", "seed"), [(1, 0), (2, 1), (2, 2), (3, 3), (3, 4), (4, 5), (4, 6), (4, 7)])
def test_reach_is_that_of_all_pairs(periods: int, seed: int, neighbours: Neighbours) -> None:
    """For each number of spells; the bound is never below, and is the reach with one period or independent noise."""
    gram = random_gram(periods, seed)
    expected = farthest(gram, neighbours)
    for spells, most in enumerate(expected, 1):
        found = reach(gram, spells, neighbours)
        assert (found.value, found.exact) == (most, True)
        assert bound(gram, spells, neighbours) >= most
    assert reach(gram, periods + 3, neighbours).value == expected[-1]


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("seed", [8, 9])
def test_reach_is_that_of_all_pairs_of_five_periods(seed: int, neighbours: Neighbours) -> None:
    gram = random_gram(5, seed)
    assert [reach(gram, spells, neighbours).value for spells in SPELLS] == farthest(gram, neighbours)


def test_forgetting_shared_answers_understates() -> None:
    """The trap: without pairs that share an answer the square root's cost is less than it is, by a quarter."""
    gram = triangular(square_root(4), 1, "change-one").gram
    sound, trap = farthest(gram, "change-one"), farthest(gram, "change-one", sharing=False)
    assert [reach(gram, spells, "change-one").value for spells in (1, 2, 3, 4)] == sound
    assert trap[0] == 2 * reach(gram, 1, "add-remove").value
    assert all(more > less for more, less in zip(sound, trap, strict=True))
    assert sound[1] / trap[1] > 1.25


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_independent_noise_costs_the_sum_whatever_the_spells(neighbours: Neighbours) -> None:
    gram = independent(6, 1, neighbours).gram
    moved = {"change-one": 2, "add-remove": 1}[neighbours]
    for spells in (1, 2):
        assert reach(gram, spells, neighbours).value == 6 * moved
        assert bound(gram, spells, neighbours) == 6 * moved


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_worst_pairs_are_pairs(neighbours: Neighbours) -> None:
    """Their moments give their distances, the first is the reach, and numbers on the diagonal are at most 2."""
    gram = random_gram(5, 11)
    worst = worst_pairs(gram, 2, neighbours, 7)
    assert worst.values[0] == largest(gram, 2, neighbours)
    assert (np.diff(worst.values) <= 0).all()
    assert np.array_equal(np.einsum("st,nst->n", gram, worst.moments), worst.values)
    assert np.diagonal(worst.moments, axis1=1, axis2=2).max() <= {"change-one": 2, "add-remove": 1}[neighbours]


def test_number_of_cases() -> None:
    """By counting: the sets of at most two intervals of three periods, paired, with all ways to share answers."""
    sets = {1: 6, 2: 5}  # (a,b) with a<b of four places; two that do not overlap
    ways = {2: 2, 3: 5, 4: 15, 1: 1}
    expected = (6 * 1 + 6 * 7 // 2 * 2) + (5 * 2 + 5 * 6 * ways[3] + 5 * 6 // 2 * ways[4])
    assert n_cases(3, 2, "change-one") == expected
    assert n_cases(3, 2, "add-remove") == sets[1] + sets[2] * ways[2]
    assert n_cases(10, 2, "change-one") < MOST_CASES < n_cases(30, 2, "change-one")


@pytest.mark.parametrize("seed", [12, 14, 16])
def test_bound_by_floats_is_the_exact_one(seed: int) -> None:
    """For G without positive numbers off the diagonal; and the spells that it names reach it."""
    rng = np.random.default_rng(seed)
    gram = -rng.integers(0, 5, (7, 7))
    gram = gram + gram.T
    np.fill_diagonal(gram, 0)
    gram += np.diag(-gram.sum(axis=1) + rng.integers(0, 9, 7))
    for neighbours in NEIGHBOURS:
        for spells in (1, 2, 4):
            value, spans, theta = history_bound(gram.astype(float), spells, neighbours)
            assert value == pytest.approx(float(bound(gram, spells, neighbours)))
            assert len(spans) <= spells
            own = sum(gram[a:b, a:b].sum() for a, b in spans)
            less = sum(gram.sum(axis=1)[a:b].sum() for a, b in spans)
            if neighbours == "change-one":
                assert value == pytest.approx(4 * (own - theta * less) + 2 * theta**2 * gram.sum())
            else:
                assert value == own


def test_a_long_series_has_a_bound() -> None:
    """Forty periods: not all pairs are gone through, and the bound is at least what some of them cost."""
    design = triangular(square_root(40), 2, "change-one")
    found = design.reach
    assert not found.exact
    matrix = design.matrix.astype(float)
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(300):
        first, second = sorted(rng.integers(1, 40, 2))
        moved = np.zeros((2, 40))
        moved[0, :first], moved[1, first:] = 1, 1
        other = np.zeros((2, 40))
        other[1, :second], other[0, second:] = 1, 1
        worst = max(worst, float((np.square((moved - other) @ matrix.T)).sum()))
    assert worst <= float(found.value) < 2 * worst


@pytest.mark.parametrize(("gram", "spells"), [([[1, 2]], 1), ([[1, 2], [3, 1]], 1), ([[1.0]], 1), ([[1]], 0)])
def test_what_is_no_gram_matrix_is_refused(gram: list[list[int]], spells: int) -> None:
    with pytest.raises(ValueError, match=r"Gram|spells"):
        reach(np.array(gram), spells, "change-one")
