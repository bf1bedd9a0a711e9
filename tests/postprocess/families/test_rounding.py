"""Rounding keeps the sums, stays within one person, and is the nearest that does, by integer programming; and swaps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from postprocess.arrays import FloatArray, IntArray
from postprocess.errors import SolverError
from postprocess.families import rounding
from postprocess.families.family import Family
from postprocess.families.precisions import Dense
from postprocess.families.rounding import GroupLevel, round_family, round_together, snap, swapped, tie_breaks

UNLIMITED = 1 << 52


def family_of(x: FloatArray, parent: FloatArray | None, precision: FloatArray | None = None) -> Family:
    matrix = np.eye(x.shape[1]) if precision is None else precision
    upper = np.full(x.shape, 50.0) if parent is None else np.broadcast_to(np.maximum(parent, 50.0), x.shape)
    return Family("tract 1", Dense(matrix[None]), x @ matrix, upper, parent)


def random_solution(seed: int, children: int, cells: int) -> tuple[FloatArray, FloatArray, IntArray]:
    """A real matrix with whole column and row sums, and these sums."""
    rng = np.random.default_rng(seed)
    whole = rng.integers(0, 5, (children, cells)).astype(float)
    for _ in range(30):
        rows, columns = rng.choice(children, 2, replace=False), rng.choice(cells, 2, replace=False)
        amount = rng.random() * min(whole[rows[0], columns[0]], whole[rows[1], columns[1]])
        whole[rows, columns] -= amount
        whole[rows, columns[::-1]] += amount
    return whole, np.rint(whole.sum(axis=0)), np.rint(whole.sum(axis=1)).astype(np.int64)


def level(group: Sequence[int], children: int, sums: IntArray | None = None) -> GroupLevel:
    """Groups of cells whose sums are given, `(children, groups)`, or free."""
    groups = np.array(group)
    nothing = np.zeros((children, groups.max() + 1), dtype=np.int64)
    return GroupLevel(groups, nothing if sums is None else sums, nothing + UNLIMITED if sums is None else sums)


def ties_of(x: FloatArray, seed: int = 1) -> IntArray:
    return tie_breaks(seed, [np.arange(len(x))[:, None], np.arange(x.shape[1])[None, :]])


def least_distance(x: FloatArray, parent: FloatArray | None, chain: Sequence[GroupLevel]) -> float:
    """The least sum of squared distances of whole numbers within one person that keep all sums, each within one too."""
    floors = np.floor(x + 1e-9)
    gain = ((floors + 1 - x) ** 2 - (floors - x) ** 2).ravel()
    index = np.arange(x.size).reshape(x.shape)
    limits = [LinearConstraint(np.zeros((1, x.size)), 0, 0)]
    if parent is not None:
        limits += [
            LinearConstraint(np.isin(index.ravel(), index[:, cell])[None].astype(float), total, total)
            for cell, total in enumerate(parent - floors.sum(axis=0))
        ]
    for one in chain:
        for child, answer in itertools.product(range(len(x)), range(one.lower.shape[1])):
            members = index[child, one.group == answer]
            whole, exact = floors.ravel()[members].sum(), x.ravel()[members].sum()
            low = max(one.lower[child, answer], np.floor(exact + 1e-9)) - whole
            high = min(one.upper[child, answer], np.ceil(exact - 1e-9)) - whole
            limits.append(LinearConstraint(np.isin(index.ravel(), members)[None].astype(float), low, high))
    most = np.where(np.abs(x - np.rint(x)) < 1e-6, 0.0, 1.0).ravel()  # what is whole stays
    found = milp(gain, integrality=np.ones(x.size), bounds=Bounds(0, most), constraints=limits)
    assert found.success
    return float(((floors - x) ** 2).sum() + found.fun)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), held=st.booleans(), nested=st.booleans())
def test_it_is_the_nearest(seed: int, held: bool, nested: bool) -> None:
    x, columns, rows = random_solution(seed, 4, 6)
    chain = [level([0] * 6, 4, rows[:, None] if held else None)]
    if nested:
        chain.append(level([0, 0, 1, 1, 2, 2], 4))
    whole = round_family(family_of(x, columns), x, chain, ties_of(x))
    assert (whole.sum(axis=0) == columns).all()
    assert not held or (whole.sum(axis=1) == rows).all()
    assert (whole >= 0).all()
    assert np.abs(whole - x).max() < 1 + 1e-3
    assert ((whole - x) ** 2).sum() <= least_distance(x, columns, chain) + 1e-2


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), fixed=st.booleans())
def test_areas_without_a_parent_are_nearest_together_as_by_themselves(seed: int, fixed: bool) -> None:
    rng = np.random.default_rng(seed)
    x = rng.gamma(1.0, 2.0, (6, 5))
    if fixed:
        x *= (np.rint(x.sum(axis=1)) / x.sum(axis=1))[:, None]
    totals = np.rint(x.sum(axis=1)).astype(np.int64)[:, None]
    chain = [
        GroupLevel(np.zeros(5, dtype=np.int64), totals if fixed else 0 * totals, totals),
        level([0, 0, 1, 1, 2], 6),
    ]
    family, ties = family_of(x, None), ties_of(x, seed)
    together, found = round_together(family, x, chain, ties)
    assert found.mean() > 0.5
    for i in range(6):
        own = [GroupLevel(one.group, one.lower[i : i + 1], one.upper[i : i + 1]) for one in chain]
        alone = round_family(family.of_children(np.array([i])), x[i : i + 1], own, ties[i : i + 1])
        assert not found[i] or np.array_equal(alone[0], together[i])
        assert ((alone - x[i]) ** 2).sum() <= least_distance(x[i : i + 1], None, own) + 1e-2


def test_of_cells_that_cost_the_same_the_first_goes_up_and_what_cannot_be_held_is_not_found() -> None:
    x, ones = np.array([[0.5, 0.5, 2.0], [0.4, 0.6, 2.0], [0.4, 0.6, 2.0]]), np.ones((3, 3), dtype=np.int64)
    whole, found = round_together(family_of(x, None), x, [level([0, 0, 0], 3, np.array([[3], [3], [5]]))], ones)
    assert found.tolist() == [True, True, False]
    assert whole[:2].tolist() == [[1, 0, 2], [0, 1, 2]]


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_whole_numbers_are_the_cheapest_of_all_that_there_are(seed: int) -> None:
    """Tiny areas and families, by counting all choices of cells that go up, or down where the solution is whole.

    Two chains that nest, and one that does not, whose sums have no limits.
    """
    x, columns, rows = random_solution(seed, 2, 4)
    parent = columns if seed % 2 else None
    ties, chains = ties_of(x, seed), ([[0, 0, 0, 0]], [[0, 0, 0, 0], [0, 1, 1, 0]], [[0, 0, 1, 1], [0, 1, 1, 0]])
    floors, fractions = snap(x)
    cost = np.where(fractions == 0, 1 << 30, rounding._cost(fractions, ties))
    for groups in chains:
        nests = len(set(groups[0])) == 1
        chain = [
            level(group, 2, rows[:, None] if nests and not number else None) for number, group in enumerate(groups)
        ]
        whole = round_family(family_of(x, parent), x, chain, ties)
        steps = [(0, 1) if part else (0,) if nests else (-1, 0, 1) for part in fractions.ravel()]
        choices = floors + np.array(list(itertools.product(*steps))).reshape(-1, *x.shape)
        allowed = (choices >= 0).all(axis=(1, 2))
        if parent is not None:
            allowed &= (choices.sum(axis=1) == columns).all(axis=1)
        for partition in chain if nests else ():
            low, high = rounding._allowed(x, partition)
            sums = choices @ partition.matrix
            allowed &= ((sums >= low) & (sums <= high)).all(axis=(1, 2))
        costs = np.where(choices < floors, 1 << 30, cost * (choices - floors)).sum(axis=(1, 2))
        assert (allowed & (choices == whole).all(axis=(1, 2))).sum() == 1
        own, least = costs[(choices == whole).all(axis=(1, 2))][0], costs[allowed].min()
        # A programme of integers ends where it is within a ten thousandth.
        assert own - least <= (0 if nests else 1e-4 * abs(least))


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6))
def test_a_flow_is_the_cheapest_of_all_that_there_are(seed: int) -> None:
    """A few arcs among four nodes, some of which have to carry something; none where nothing is allowed."""
    rng = np.random.default_rng(seed)
    tail, head = (np.array(part) for part in zip(*itertools.permutations(range(4), 2), strict=True))
    some = rng.permutation(len(tail))[:6]
    tail, head, low = tail[some], head[some], rng.integers(0, 2, 6)
    high, cost = low + rng.integers(0, 3, 6), rng.integers(-3, 9, 6)
    first = rng.integers(0, 3, 4)
    supply = first - rng.permutation(first)
    flows = itertools.product(*[range(int(a), int(b) + 1) for a, b in zip(low, high, strict=True)])
    allowed = [one for one in flows if (np.bincount(tail, one, 4) - np.bincount(head, one, 4) == supply).all()]
    arcs = [rounding.Arcs(*(one[part] for one in (tail, head, low, high, cost))) for part in (slice(2), slice(2, 6))]
    found = rounding.cheapest_flow(supply, arcs)
    assert (found is None) == (not allowed)
    if found is not None:
        flow = np.concatenate(found)
        assert tuple(flow) in allowed
        assert cost @ flow == min(cost @ np.array(one) for one in allowed)


def test_crossing_groups_are_kept_and_what_cannot_be_kept_stops_the_run() -> None:
    x, columns, rows = random_solution(3, 3, 4)
    family, none = family_of(x, columns), np.zeros((3, 4), dtype=np.int64)
    whole = round_family(family, x, [level([0, 0, 1, 1], 3), level([0, 1, 0, 1], 3)], none)
    assert (whole.sum(axis=0) == columns).all()
    assert np.abs(whole - x).max() <= 1 + 1e-3
    with pytest.raises(SolverError, match="tract 1: no whole numbers next to the solution keep its constraints"):
        round_family(family, x, [level([0] * 4, 3, rows[:, None] + 40)], none)


def test_noise_in_the_last_bits_does_not_matter_and_ties_are_even() -> None:
    for shift in (-1e-9, 0.0, 1e-9):
        floors, fractions = snap(np.array([[3.0000004, 1.9999997, 0.5, 1 / 3]]) + shift)
        assert floors.tolist() == [[3, 2, 0, 0]]
        assert fractions.tolist() == [[0, 0, 1 << 15, 21845]]
    places = np.zeros((200, 200))
    ties = ties_of(places)
    assert 0 <= ties.min() < ties.max() < 1 << 14
    assert abs(ties.mean() / (1 << 13) - 1) < 0.02
    assert not np.array_equal(ties, ties_of(places, 2))


#: Households by size whose members are measured well.
SIZES = np.arange(1.0, 8.0)


def households(seed: int, children: int) -> tuple[Family, FloatArray, list[GroupLevel]]:
    """A solution with the parent's sums; its totals, and those of small and large ones, are within one."""
    x = np.random.default_rng(seed).gamma(1.0, 3.0, (children, len(SIZES)))
    parent = np.rint(x.sum(axis=0)) + 1
    x *= parent / x.sum(axis=0)
    family = replace(
        family_of(x, parent, np.eye(7) + np.outer(SIZES, SIZES) / 2.0), upper=np.tile(parent, (children, 1))
    )
    return family, x, [level([0] * 7, children), level([0, 0, 0, 1, 1, 1, 1], children)]


def value(family: Family, x: FloatArray, whole: IntArray) -> float:
    away = whole - x
    return float(0.5 * np.einsum("ci,ij,cj", away, family.matrices[0], away))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("levels", [1, 2])
def test_swaps_keep_every_sum_and_leave_none_that_would_lower_the_objective(seed: int, levels: int) -> None:
    family, x, chain = households(seed, 6)
    rounded = round_family(family, x, chain[:levels], ties_of(x))
    better = swapped(family, x, rounded, chain[:levels])
    least = value(family, x, better)
    assert least < value(family, x, rounded) + (1e-9 if levels > 1 else 0.0)
    assert (better.sum(axis=0) == rounded.sum(axis=0)).all()
    for one in chain[:levels]:
        for group in range(one.lower.shape[1]):
            assert (better[:, one.group == group].sum(axis=1) == rounded[:, one.group == group].sum(axis=1)).all()
    assert (np.abs(better - x) < 1).all()
    if levels == 1:
        members = [np.sqrt((((whole - x) @ SIZES) ** 2).mean()) for whole in (better, rounded)]
        assert members[0] < 0.5 * members[1]
    for (a, b), (i, j) in itertools.product(itertools.permutations(range(6), 2), itertools.permutations(range(7), 2)):
        if levels == 1 or chain[1].group[i] == chain[1].group[j]:
            other = better.copy()
            other[[a, b], [i, j]] -= 1
            other[[a, b], [j, i]] += 1
            if (np.abs(other - x) < 1).all():
                assert value(family, x, other) >= least - 1e-6


def test_a_swap_that_gains_only_the_last_bits_is_none() -> None:
    """Where two kinds have the same fractions, a swap and the one that undoes it both seemed to gain 5.6e-17."""
    parts = rounding._in_parts(np.array([-5.6e-17, 5.6e-17, np.inf, -1e-3]))
    assert parts.tolist() == [0.0, 0.0, 0.0, -1049.0]
