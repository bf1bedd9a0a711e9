"""The batched solver, the exact active-set finish and the cvxpy statement give the same solution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postprocess.active_set import Exact, Guess, solve_exactly
from postprocess.batched import solve_batched
from postprocess.family import Family, GroupRange, objective, violation
from postprocess.least_squares import solve_with_cvxpy


def random_family(
    seed: int,
    *,
    children: int,
    cells: int,
    shared: bool,
    parent: bool = True,
    held: bool = False,
    ranges: bool = False,
    zeros: bool = False,
) -> Family:
    """A feasible family around a whole-number truth, with strongly varying precisions."""
    rng = np.random.default_rng(seed)
    n = 1 if shared else children
    root = rng.normal(size=(n, cells, cells)) * rng.choice([0.05, 0.3, 1.0], size=(n, cells, 1))
    precision = np.swapaxes(root, 1, 2) @ root + np.eye(cells) * 0.05
    truth = rng.poisson(rng.gamma(0.5, 4.0, (children, cells)))
    upper = np.broadcast_to(truth.sum(axis=0), truth.shape).astype(float)
    if zeros:
        upper = np.where(rng.random(truth.shape) < 0.2, 0.0, upper)
        truth = np.where(upper == 0, 0, truth)
    centre = truth + rng.normal(0, 3.0, truth.shape)
    linear = np.matmul(precision, centre[:, :, None])[:, :, 0]
    group = np.sort(rng.integers(0, 2, cells))
    held_values = np.stack([truth[:, group == g].sum(axis=1) for g in range(2)], axis=1).astype(float)
    extra = np.arange(cells) % 3
    sums = np.stack([truth[:, extra == g].sum(axis=1) for g in range(3)], axis=1).astype(float)
    return Family(
        name=f"parent {seed}",
        precision=precision,
        linear=linear,
        upper=np.minimum(upper, truth.sum(axis=0)) if parent else np.full(upper.shape, 1e6),
        parent=truth.sum(axis=0).astype(float) if parent else None,
        held_group=group if held else None,
        held=held_values if held else None,
        ranges=(GroupRange(extra, np.maximum(sums - 1, 0), sums + 2),) if ranges else (),
    )


families = st.builds(
    random_family,
    seed=st.integers(0, 10**6),
    children=st.integers(2, 7),
    cells=st.integers(3, 9),
    shared=st.booleans(),
    held=st.booleans(),
    ranges=st.booleans(),
    zeros=st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(family=families)
def test_equals_cvxpy(family: Family) -> None:
    reference = solve_with_cvxpy(family)
    solution = solve_batched([family])[0]
    assert solution is not None
    assert violation(family, solution.x) < 1e-6
    assert np.abs(solution.x - reference.x).max() < 1e-3
    assert objective(family, solution.x) <= objective(family, reference.x) + 1e-4


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), cells=st.integers(2, 8), held=st.booleans(), ranges=st.booleans())
def test_top_of_the_spine_equals_cvxpy(seed: int, cells: int, held: bool, ranges: bool) -> None:
    family = random_family(seed, children=1, cells=cells, shared=True, parent=False, held=held, ranges=ranges)
    solution = solve_batched([family])[0]
    assert solution is not None
    assert np.abs(solution.x - solve_with_cvxpy(family).x).max() < 1e-3


def test_the_batch_does_not_matter() -> None:
    """A family's solution has the same bits alone and among others."""
    together = [
        random_family(seed, children=2 + seed % 9, cells=3 + seed % 13, shared=seed % 2 == 0, held=seed % 3 == 0)
        for seed in range(40)
    ]
    solutions = solve_batched(together)
    for family, solution in zip(together, solutions, strict=True):
        alone = solve_batched([family])[0]
        assert solution is not None
        assert alone is not None
        assert np.array_equal(alone.x, solution.x)
        assert alone.iterations == solution.iterations


@pytest.mark.parametrize("seed", range(5))
def test_optimality_conditions_by_perturbation(seed: int) -> None:
    """No feasible direction between two children's cells lowers the objective."""
    family = random_family(seed, children=4, cells=5, shared=False)
    solution = solve_batched([family])[0]
    assert solution is not None
    best = objective(family, solution.x)
    step = 1e-4
    for cell in range(family.n_cells):
        for giver in range(4):
            for taker in range(4):
                if giver == taker or solution.x[giver, cell] < step:
                    continue
                if solution.x[taker, cell] > family.upper[taker, cell] - step:
                    continue
                moved = solution.x.copy()
                moved[giver, cell] -= step
                moved[taker, cell] += step
                assert objective(family, moved) >= best - 1e-9


def test_a_wrong_guess_of_the_active_set_is_mended_or_refused() -> None:
    """From the worst guess (everything at zero) the result is the solution or nothing, never another point."""
    found = 0
    for seed in range(30):
        family = random_family(seed, children=3, cells=4, shared=True)
        zero = np.zeros_like(family.linear)
        (exact,) = solve_exactly([family], [Guess(zero, zero, np.zeros((3, 0)), np.zeros((3, 0)))])
        if isinstance(exact, Exact):
            found += 1
            assert np.abs(exact.x - solve_with_cvxpy(family).x).max() < 1e-3
    assert found > 5


def test_a_perturbed_objective_is_noticed() -> None:
    """The comparison can fail: another precision gives another solution."""
    family = random_family(7, children=3, cells=5, shared=True)
    changed = Family(
        name="changed",
        precision=family.precision
        * np.linspace(1.0, 1.3, 5)[None, :, None] ** 0.5
        * np.linspace(1.0, 1.3, 5)[None, None, :] ** 0.5,
        linear=family.linear,
        upper=family.upper,
        parent=family.parent,
        held_group=None,
        held=None,
    )
    first, second = solve_batched([family, changed])
    assert first is not None
    assert second is not None
    assert np.abs(first.x - second.x).max() > 1e-3
