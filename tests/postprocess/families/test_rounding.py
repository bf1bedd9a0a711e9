"""Rounding keeps the sums, stays within one person, and is the nearest: compared with brute force."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postprocess.errors import SolverError
from postprocess.families.family import Family
from postprocess.families.precisions import Dense
from postprocess.families.rounding import GroupLevel, round_family, round_together, snap, tie_breaks


def family_of(x: np.ndarray, parent: np.ndarray | None) -> Family:
    cells = x.shape[1]
    return Family(
        name="tract 1",
        precision=Dense(np.eye(cells)[None]),
        linear=x,
        upper=np.full(x.shape, 50.0),
        parent=None if parent is None else parent.astype(float),
        held_group=None,
        held=None,
    )


def random_solution(seed: int, children: int, cells: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A real matrix with whole column and row sums, and these sums."""
    rng = np.random.default_rng(seed)
    whole = rng.integers(0, 5, (children, cells)).astype(float)
    for _ in range(30):
        rows = rng.choice(children, 2, replace=False)
        columns = rng.choice(cells, 2, replace=False)
        most = min(whole[rows[0], columns[0]], whole[rows[1], columns[1]])
        amount = rng.random() * most
        whole[rows[0], columns[0]] -= amount
        whole[rows[1], columns[1]] -= amount
        whole[rows[0], columns[1]] += amount
        whole[rows[1], columns[0]] += amount
    return whole, np.rint(whole.sum(axis=0)), np.rint(whole.sum(axis=1)).astype(np.int64)


def best_by_brute_force(x: np.ndarray, allowed: Callable[[np.ndarray], bool]) -> float:
    """The smallest sum of squared distances over all choices of floor and ceiling that are allowed."""
    floors = np.floor(x + 1e-9)
    best = np.inf
    for increments in itertools.product((0, 1), repeat=x.size):
        whole = floors + np.array(increments).reshape(x.shape)
        if (np.abs(whole - x) < 1).all() and allowed(whole):
            best = min(best, ((whole - x) ** 2).sum())
    return best


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), held=st.booleans())
def test_nearest_by_brute_force(seed: int, held: bool) -> None:
    x, columns, rows = random_solution(seed, 3, 4)
    family = family_of(x, columns)
    everything = np.zeros(4, dtype=np.int64)
    chain = [GroupLevel(everything, rows[:, None], rows[:, None])] if held else []
    whole = round_family(family, x, chain, tie_breaks(1, [np.arange(3)[:, None], np.arange(4)[None, :]]))
    best = best_by_brute_force(x, lambda w: (w.sum(0) == columns).all() and (not held or (w.sum(1) == rows).all()))
    assert (whole.sum(axis=0) == columns).all()
    assert (whole >= 0).all()
    assert ((whole - x) ** 2).sum() <= best + 1e-2


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_nested_groups_are_held_within_one(seed: int) -> None:
    x, columns, rows = random_solution(seed, 5, 6)
    group = np.array([0, 0, 1, 1, 2, 2])
    chain = [
        GroupLevel(np.zeros(6, dtype=np.int64), rows[:, None], rows[:, None]),
        GroupLevel(group, np.zeros((5, 3), dtype=np.int64), np.full((5, 3), 1000)),
    ]
    whole = round_family(family_of(x, columns), x, chain, np.zeros((5, 6), dtype=np.int64))
    assert (whole.sum(axis=0) == columns).all()
    assert (whole.sum(axis=1) == rows).all()
    assert np.abs(whole - x).max() < 1 + 1e-3
    for g in range(3):
        assert np.abs(whole[:, group == g].sum(1) - x[:, group == g].sum(1)).max() < 1 + 1e-3


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), fixed=st.booleans())
def test_areas_without_a_parent_are_nearest_by_brute_force(seed: int, fixed: bool) -> None:
    """Together as by themselves, in nested groups with bounds."""
    rng = np.random.default_rng(seed)
    x = rng.gamma(1.0, 2.0, (6, 5))
    if fixed:
        x *= (np.rint(x.sum(axis=1)) / x.sum(axis=1))[:, None]
    sums, group = np.zeros(5, dtype=np.int64), np.array([0, 0, 1, 1, 2])
    totals = np.rint(x.sum(axis=1)).astype(np.int64)[:, None]
    low, free = np.zeros((6, 3), dtype=np.int64), np.full((6, 3), 1000)
    chain = [GroupLevel(sums, totals if fixed else 0 * totals, totals), GroupLevel(group, low, free)]
    ties = tie_breaks(seed, [np.arange(6)[:, None], np.arange(5)[None, :]])
    family = family_of(x, None)
    together, sure = round_together(family, x, chain, ties)
    assert sure.mean() > 0.5
    for i in range(6):
        own = [GroupLevel(one.group, one.lower[i : i + 1], one.upper[i : i + 1]) for one in chain]
        given = family.of_children(np.array([i])), x[i : i + 1], own, ties[i : i + 1]
        whole = round_family(*given)
        assert not sure[i] or np.array_equal(whole[0], together[i])

        def allowed(w: np.ndarray, i: int = i) -> bool:
            near = all(abs((w - x[i : i + 1])[:, group == g].sum()) < 1 for g in range(3))
            return near and abs(w.sum() - x[i].sum()) < 1 and chain[0].lower[i] <= w.sum() <= chain[0].upper[i]

        assert ((whole - x[i]) ** 2).sum() <= best_by_brute_force(x[i : i + 1], allowed) + 1e-2


def test_where_cells_that_cost_the_same_go_different_ways_it_is_not_sure() -> None:
    x = np.array([[0.5, 0.5, 2.0], [0.4, 0.6, 2.0]])
    chain = [GroupLevel(np.zeros(3, dtype=np.int64), np.full((2, 1), 3), np.full((2, 1), 3))]
    whole, sure = round_together(family_of(x, None), x, chain, np.ones((2, 3), dtype=np.int64))
    assert sure.tolist() == [False, True]
    assert whole[1].tolist() == [0, 1, 2]


def test_crossing_groups_are_kept_by_integer_programming() -> None:
    x, columns, _ = random_solution(3, 3, 4)
    first, second = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    low = np.zeros((3, 2), dtype=np.int64)
    chain = [GroupLevel(first, low, low + 100), GroupLevel(second, low, low + 100)]
    whole = round_family(family_of(x, columns), x, chain, np.zeros((3, 4), dtype=np.int64))
    assert (whole.sum(axis=0) == columns).all()
    assert np.abs(whole - x).max() <= 1 + 1e-3


def test_what_cannot_be_kept_stops_the_run() -> None:
    x, columns, rows = random_solution(3, 3, 4)
    chain = [GroupLevel(np.zeros(4, dtype=np.int64), rows[:, None] + 40, rows[:, None] + 40)]
    with pytest.raises(SolverError, match="tract 1: no whole numbers next to the solution keep its constraints"):
        round_family(family_of(x, columns), x, chain, np.zeros((3, 4), dtype=np.int64))


def test_whole_numbers_stay_and_noise_in_the_last_bits_does_not_matter() -> None:
    x = np.array([[3.0000004, 1.9999997, 0.5, 1 / 3]])
    for shift in (-1e-9, 0.0, 1e-9):
        floors, fractions = snap(x + shift)
        assert floors.tolist() == [[3, 2, 0, 0]]
        assert fractions.tolist() == [[0, 0, 1 << 15, 21845]]


def test_ties_depend_on_seed_and_place_and_are_even() -> None:
    ties = tie_breaks(1, [np.arange(200)[:, None], np.arange(200)[None, :]])
    assert ties.min() >= 0
    assert ties.max() < 1 << 14
    assert abs(ties.mean() / (1 << 13) - 1) < 0.02
    assert not np.array_equal(ties, tie_breaks(2, [np.arange(200)[:, None], np.arange(200)[None, :]]))
