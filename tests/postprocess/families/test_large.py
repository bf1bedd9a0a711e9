"""Large families: begun near the solution, the exact method finds the same as from any other beginning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.stops import after_each_stop

from postprocess.families import active_set, equalities, stack
from postprocess.families.active_set import Exact, solve_exactly
from postprocess.families.family import Family, GroupRange, violation
from postprocess.families.large import _on_simplices, guesses
from postprocess.families.precisions import Dense
from postprocess.families.reference_solvers import solve_with_cvxpy
from postprocess.families.solve import solve_families


def random_family(
    seed: int,
    children: int,
    cells: int,
    *,
    kinds: int = 1,
    held: bool = False,
    zeros: bool = False,
    ranges: bool = False,
) -> Family:
    """A sparse family, measured by every cell, by groups of ten cells and by its total."""
    rng = np.random.default_rng(seed)
    truth = rng.poisson(rng.gamma(0.1, 10.0, cells) * rng.gamma(1.0, 0.3, (children, 1))).astype(np.float64)
    truth[0] += truth.sum(axis=0) == 0
    possible = np.ones_like(truth, dtype=bool)
    if zeros:
        possible = (rng.random(truth.shape) < 0.8) | (truth > 0)
    groups = np.kron(np.eye(-(-cells // 10)), np.ones((1, 10)))[:, :cells]
    parts, linear = [], np.zeros_like(truth)
    kind = np.arange(children) % kinds
    for number in range(kinds):
        precision = np.zeros((cells, cells))
        for matrix, variance in ((np.eye(cells), 40.0 + number), (groups, 4.0), (np.ones((1, cells)), 1.0)):
            members = kind == number
            noisy = truth[members] @ matrix.T + rng.normal(0, variance**0.5, (members.sum(), len(matrix)))
            precision += matrix.T @ matrix / variance
            linear[members] += noisy @ matrix / variance
        parts.append(precision)
    parent = truth.sum(axis=0)
    group = np.arange(cells) % 2
    sums = np.stack([truth[:, group == g].sum(axis=1) for g in (0, 1)], axis=1)
    about = truth[:, : cells // 2].sum(axis=1)
    half = (np.arange(cells) >= cells // 2).astype(np.int64)
    limits = GroupRange(half, np.stack([about - 1, 0 * about], axis=1), np.stack([about + 1, 0 * about + 1e9], axis=1))
    upper = np.where(possible, parent, 0.0)
    if held:
        upper = np.minimum(upper, sums[:, group])
    return Family(
        name=f"family {seed}",
        precision=Dense(np.array(parts)),
        linear=linear,
        upper=upper,
        parent=parent,
        held_group=group if held else None,
        held=sums if held else None,
        ranges=(limits,) if ranges else (),
        kind=kind if kinds > 1 else None,
    )


def as_large(family: Family) -> np.ndarray:
    """The solution if every family counts as large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack, "ALONE", 0)
        patch.setattr(stack, "LARGE_NUMBERS", 0)
        (solution,) = solve_families([family], "batched")
    return solution.x


def assert_optimal(family: Family, x: np.ndarray) -> None:
    """Without held sums and ranges: a cell's gradients are alike where it is positive, and nowhere less (KKT)."""
    assert violation(family, x) < 1e-5
    scale = np.diagonal(family.matrices, axis1=1, axis2=2)[family.kinds]
    persons = (family.times(x) - family.linear) / scale.max()
    free = x > 1e-7
    least = np.where(free, persons, np.inf).min(axis=0)
    assert np.abs(np.where(free, persons - least, 0.0)).max() < 1e-5
    assert np.where(family.upper > 0, persons - least, 0.0).min() > -1e-5


@settings(max_examples=5, deadline=None)
@given(
    seed=st.integers(0, 10**6), kinds=st.integers(1, 2), held=st.booleans(), zeros=st.booleans(), ranges=st.booleans()
)
def test_the_solution_is_the_same(seed: int, kinds: int, held: bool, zeros: bool, ranges: bool) -> None:
    family = random_family(seed, 5, 60, kinds=kinds, held=held, zeros=zeros, ranges=ranges)
    x = as_large(family)
    (small,) = solve_families([family], "batched")
    assert np.abs(x - small.x).max() < 1e-7
    assert np.abs(x - solve_with_cvxpy(family).x).max() < 1e-3
    if not ranges and not held:
        assert_optimal(family, x)


def test_the_exact_method_begins_near_its_end() -> None:
    """From all cells free it takes more rounds, the first with all cells of all children in its matrices."""
    family = random_family(1, 8, 200)
    (whole,) = solve_exactly([family])
    (near,) = solve_exactly([family], [list(guesses(family))[-1]])
    assert isinstance(whole, Exact)
    assert isinstance(near, Exact)
    assert near.rounds < whole.rounds
    assert near.rounds <= 2
    assert np.abs(near.x - whole.x).max() < 1e-8


def test_where_the_factor_does_not_do_eigenvectors_do(monkeypatch: pytest.MonkeyPatch) -> None:
    family = random_family(2, 5, 60, held=True)
    expected = as_large(family)
    monkeypatch.setattr(equalities, "CORRECTIONS", 0)
    monkeypatch.setattr(equalities, "RIDGE", 10.0)
    assert np.abs(as_large(family) - expected).max() < 1e-7


@pytest.mark.parametrize("held", [False, True])
def test_single_precision_is_corrected_until_nothing_is_left(monkeypatch: pytest.MonkeyPatch, *, held: bool) -> None:
    """As good as double precision; uncorrected, a seeded fault, cells would be wrong."""
    family = random_family(3, 6, 300, held=held)
    positive = as_large(family) > 0
    double, single = stationary_point(family, positive, 0), stationary_point(family, positive, equalities.CORRECTIONS)
    assert np.abs(single - double).max() < 1e-9
    monkeypatch.setattr(equalities, "CORRECT", 1e9)
    monkeypatch.setattr(equalities, "GRADIENT", 1e9)
    assert np.abs(stationary_point(family, positive, equalities.CORRECTIONS) - double).max() > 1e-7


def test_counts_of_more_than_ten_million_are_solved_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Double precision does not tell a billionth of a person apart there, of most families on any processor."""
    families = []
    for seed in range(3, 9):
        family = random_family(seed, 6, 300)
        positive = as_large(family) > 0
        assert family.parent is not None
        times = 1e7 / family.parent.max()
        parent = np.rint(1.5 * times * family.parent)
        assert 1e7 < parent.max() < 2e7
        upper = np.where(family.upper > 0, parent, 0.0)
        families.append((replace(family, parent=parent, linear=1.5 * times * family.linear, upper=upper), positive))
    for large, positive in families:
        single, double = (stationary_point(large, positive, most) for most in (equalities.CORRECTIONS, 0))
        assert np.abs(single - double).max() < 1e-5
    monkeypatch.setattr(equalities, "APART", 0.0)
    unsolved = 0
    for large, positive in families:
        try:
            stationary_point(large, positive, equalities.CORRECTIONS)
        except AssertionError:
            unsolved += 1
    assert unsolved


def stationary_point(family: Family, positive: np.ndarray, corrections: int) -> np.ndarray:
    """That of a family as a large one, with some cells free; in double precision if there are no corrections."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack, "LARGE_CELLS", 0)
        patch.setattr(equalities, "CORRECTIONS", corrections)
        whole = stack.Stack.of([family], stack.Shape.of(family))
        rows = np.where(whole.held[whole.family], -1.0, 0.0)
        begun = equalities.Active(positive, np.zeros(positive.shape), rows), np.zeros_like(whole.parent), 0.0 * rows
        assert (equalities._corrected(whole, *begun, met=1e-5) is None) == (corrections == 0)
        return equalities.stationary(whole, *begun, met=1e-5, single=True).x


def test_what_single_precision_cannot_solve_is_solved_in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """After as many tries as there are; which precisions it cannot solve depends on the processor."""
    family = random_family(4, 5, 60)
    (small,) = solve_families([family], "batched")
    tried = []

    def unsolved(*_: Any) -> None:
        tried.append(True)

    monkeypatch.setattr(equalities, "_corrected", unsolved)
    assert np.abs(as_large(family) - small.x).max() < 1e-6
    assert len(tried) == active_set.TRIES


def test_a_cells_numbers_are_projected_on_a_simplex() -> None:
    """Compared with bisection of the shift."""
    rng = np.random.default_rng(0)
    values, parent = rng.normal(0, 5, (7, 40)), rng.integers(1, 20, 40).astype(np.float64)
    possible = rng.random(values.shape) < 0.7
    possible[0] = True
    low, high = np.full(40, -100.0), np.full(40, 100.0)
    for _ in range(100):
        middle = 0.5 * (low + high)
        more = (np.maximum(values - middle, 0) * possible).sum(axis=0) > parent
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    assert np.allclose(_on_simplices(values, parent, possible), np.maximum(values - low, 0) * possible)


@pytest.mark.slow
@pytest.mark.parametrize(("children", "cells"), [(2, 700), (20, 250)])
def test_up_to_5000_numbers_are_solved_as_cvxpy_does(children: int, cells: int) -> None:
    family = random_family(children, children, cells)
    x = as_large(family)
    assert np.abs(x - solve_with_cvxpy(family).x).max() < 1e-3
    assert_optimal(family, x)


@pytest.mark.parametrize(("children", "cells"), [(2, 2500), (4, 1250)])
def test_5000_numbers_satisfy_the_conditions_of_optimality(children: int, cells: int) -> None:
    family = random_family(children, children, cells)
    assert_optimal(family, as_large(family))


@pytest.mark.parametrize("kinds", [1, 3])
def test_whoever_goes_on_has_the_same_bytes(kinds: int) -> None:
    family = random_family(9, 4, 60, kinds=kinds, held=True)
    *_, last = guesses(family)
    for *_, again in after_each_stop(lambda: list(guesses(family))):
        assert again.x.tobytes() == last.x.tobytes()
        assert again.pull.tobytes() == last.pull.tobytes()
