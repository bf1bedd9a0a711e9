"""The active set method, ADMM, SCS by itself and the cvxpy statement give the same solution."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postprocess.families import reference_solvers, stack
from postprocess.families.active_set import Exact, Guess, solve_exactly
from postprocess.families.family import Family, GroupRange, Solution, objective, violation
from postprocess.families.precisions import Dense
from postprocess.families.reference_solvers import solve_again, solve_with_cvxpy
from postprocess.families.solve import finished, solve_batched, solve_by_admm


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
        precision=Dense(precision),
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
        precision=Dense(
            family.matrices
            * np.linspace(1.0, 1.3, 5)[None, :, None] ** 0.5
            * np.linspace(1.0, 1.3, 5)[None, None, :] ** 0.5
        ),
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


@settings(max_examples=40, deadline=None)
@given(family=families)
def test_admm_from_nothing_equals_cvxpy(family: Family) -> None:
    """What the rounds cannot solve is found by the iterations, from any start."""
    found = solve_by_admm(family, Guess.none_active(family))
    if found is None:  # cvxpy is asked then
        return
    assert np.abs(found[0].x - solve_with_cvxpy(family).x).max() < 1e-3


def test_admm_finds_most_solutions() -> None:
    families = [random_family(seed, children=4, cells=6, shared=seed % 2 == 0, ranges=True) for seed in range(40)]
    assert sum(solve_by_admm(family, Guess.none_active(family)) is not None for family in families) >= 36


def test_some_children_share_their_precision() -> None:
    family = random_family(3, children=6, cells=7, shared=False, held=True, ranges=True)
    kind = np.array([0, 2, 1, 0, 2, 2])
    some = replace(family, precision=Dense(family.matrices[:3]), kind=kind)
    each = replace(family, precision=Dense(family.matrices[:3][kind]))
    x = np.random.default_rng(1).normal(size=family.linear.shape)
    np.testing.assert_allclose(some.times(x), each.times(x), rtol=1e-12)
    first, second = solve_batched([some])[0], solve_batched([each])[0]
    assert first is not None
    assert second is not None
    np.testing.assert_allclose(first.x, second.x, atol=1e-9)
    assert np.abs(first.x - solve_with_cvxpy(some).x).max() < 1e-3


def _concentrated(seed: int) -> Family:
    """All of a cell's people are in one child: the parent's sum, its bound and the others' zeros say the same."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((5, 30))
    truth[rng.integers(0, 5, 30), np.arange(30)] = rng.integers(1, 9, 30)
    return Family(
        name=f"parent {seed}",
        precision=Dense(np.eye(30)[None] + 0.3),
        linear=3.0 * truth + rng.normal(0, 6.0, truth.shape),
        upper=np.broadcast_to(truth.sum(axis=0), truth.shape),
        parent=truth.sum(axis=0),
        held_group=np.zeros(30, dtype=np.int64),
        held=truth.sum(axis=1, keepdims=True),
    )


def test_bounds_that_others_imply_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    families = [_concentrated(seed) for seed in range(60)]
    found = solve_exactly(families)
    assert all(isinstance(one, Exact) for one in found)
    rounds = np.mean([one.rounds for one in found if isinstance(one, Exact)])
    assert rounds < 10
    monkeypatch.setattr(stack, "_not_implied", lambda family: family.upper)
    kept = [one for one in solve_exactly(families) if isinstance(one, Exact)]
    assert len(kept) < len(families) or np.mean([one.rounds for one in kept]) > 1.5 * rounds


def degenerate_family() -> Family:
    """Every unknown of the solution is at a limit, so that multipliers are not unique."""
    held = np.array([[0.0], [2.0], [1.0], [2.0], [1.0], [2.0]])
    return Family(
        name="block group 1 (its block children)",
        precision=Dense(np.array([[[0.15881847, 0.157214403453], [0.157214403453, 0.15881847]]])),
        linear=np.array(
            [
                [-0.394044505917, -0.35861210526],
                [0.468403313571, 0.526769101296],
                [0.293734760265, 0.38831115915],
                [0.450107425827, 0.458953614606],
                [0.165234736188, 0.161502502143],
                [0.294941780637, 0.287096148219],
            ]
        ),
        upper=np.repeat(held, 2, axis=1),
        parent=np.array([6.0, 2.0]),
        held_group=np.zeros(2, dtype=np.int64),
        held=held,
    )


def test_a_solution_at_a_corner_is_found() -> None:
    (solution,) = solve_batched([degenerate_family()])
    assert solution is not None
    np.testing.assert_allclose(solution.x, [[0, 0], [1, 1], [0, 1], [2, 0], [1, 0], [2, 0]], atol=1e-9)


def test_counts_of_hundreds_of_millions_keep_their_digits() -> None:
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 10**8, (4, 12)).astype(float)
    truth[rng.random(truth.shape) < 0.4] = 0.0
    family = Family(
        name="nation",
        precision=Dense(np.eye(12)[None] * 0.06 + 5.0),
        linear=truth @ (np.eye(12) * 0.06 + 5.0) + rng.normal(0, 3.0, truth.shape),
        upper=np.broadcast_to(truth.sum(axis=0), truth.shape),
        parent=truth.sum(axis=0),
        held_group=np.zeros(12, dtype=np.int64),
        held=truth.sum(axis=1, keepdims=True),
    )
    (solution,) = solve_batched([family])
    assert solution is not None
    assert violation(family, solution.x) < 1e-6
    assert np.abs(solution.x - solve_with_cvxpy(family).x).max() < 1e-3


def test_another_solvers_solution_is_finished() -> None:
    family = random_family(11, children=4, cells=6, shared=True, held=True, ranges=True)
    (exact,) = solve_exactly([family])
    assert isinstance(exact, Exact)
    rough = Solution(np.maximum(exact.x + np.random.default_rng(1).normal(0, 1e-7, exact.x.shape), 0), "other", 3, 0, 0)
    np.testing.assert_allclose(finished(family, rough).x, exact.x, atol=1e-10)
    far = replace(rough, x=exact.x + 1.0)
    assert finished(family, far) is far, "what is not the same solution is not put in its place"


@settings(deadline=None, max_examples=40)
@given(families)
def test_solved_again_without_cvxpy_is_the_same(family: Family) -> None:
    again, reference = solve_again(family), solve_with_cvxpy(family, once=True)
    assert np.abs(again.x - reference.x).max() < 1e-4
    assert objective(family, again.x) <= objective(family, reference.x) + 1e-3


@pytest.mark.parametrize("ranges", [False, True])
def test_solved_again_at_the_top_of_a_spine(ranges: bool) -> None:
    family = random_family(3, children=1, cells=7, shared=True, parent=False, ranges=ranges)
    (exact,) = solve_batched([family])
    again = solve_again(family)
    assert exact is not None
    assert again.solver == "SCS"
    assert np.abs(exact.x - again.x).max() < 1e-4


def test_cvxpy_is_asked_where_scs_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    family = random_family(5, children=4, cells=6, shared=True)
    first = ("SCS", {"max_iters": 1})
    monkeypatch.setattr(reference_solvers, "SOLVERS", (first, *reference_solvers.SOLVERS[1:]))
    assert solve_again(family).solver == "cvxpy/CLARABEL"


def test_cvxpy_is_not_loaded_for_it() -> None:
    """To import it takes longer than a small release does."""
    code = (
        "import sys; import numpy as np; from postprocess.families.family import Family;"
        "from postprocess.families.precisions import Dense;"
        "from postprocess.families.reference_solvers import solve_again; x = np.arange(6.0).reshape(2, 3);"
        "family = Family('', Dense(np.eye(3)[None]), x, np.full((2, 3), 9.0), x.sum(axis=0), None, None);"
        "print(solve_again(family).solver, 'cvxpy' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["SCS", "False"]
