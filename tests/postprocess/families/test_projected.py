"""Large families solved by projected conjugate gradients: the solution that matrices give, and cvxpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles.random_problems import ESTIMATORS, random_problem
from oracles.stops import after_each_stop

from postprocess.algebra import Basis
from postprocess.arrays import FloatArray
from postprocess.downward import assembly, batch
from postprocess.downward.level import downward_level
from postprocess.families import projected, solve
from postprocess.families.active_set import Exact
from postprocess.families.family import Family, GroupRange, violation
from postprocess.families.few_sums import FewSums
from postprocess.families.projected import solve_by_projection
from postprocess.families.reference_solvers import solve_with_cvxpy
from postprocess.families.solve import solve_batched, solve_families
from postprocess.linear.upward import basis_of, upward_pass
from postprocess.marginal import Marginal, detail_of

SHAPE = (12, 2, 6)


def random_family(
    seed: int, children: int, *, shape: tuple[int, ...] = SHAPE, kinds: int = 1, held: int = 0, zeros: bool = False
) -> Family:
    """A sparse family, measured by every cell, by pairs of values and by some sums; `held`: groups that are held."""
    rng = np.random.default_rng(seed)
    n_cells = int(np.prod(shape))
    truth = rng.poisson(rng.gamma(0.1, 10.0, n_cells) * rng.gamma(1.0, 0.3, (children, 1))).astype(np.float64)
    cells = np.flatnonzero(truth.sum(axis=0)) if children > 1 else np.arange(n_cells)
    whole = [np.arange(n) for n in shape]
    nothing = [np.zeros(n, dtype=np.int64) for n in shape]
    queries = [
        Marginal("total", tuple(nothing)),
        Marginal("ages", (whole[0] // 3, *nothing[1:])),
        Marginal("sex * age", (whole[0], whole[1], nothing[2])),
        Marginal("origin", (nothing[0], nothing[1], whole[2])),
        detail_of(shape),
    ]
    basis = Basis.of(shape, queries)
    linear, blocks = np.zeros((children, n_cells)), []
    kind = rng.integers(0, kinds, children)
    for number in range(kinds):
        measured = [(query, float(rng.choice([2.0, 9.0, 40.0]))) for query in queries]
        blocks.append(basis.precision(measured))
        for child in np.flatnonzero(kind == number):
            for query, variance in measured:
                noisy = query.answer(truth[child][None])[0] + rng.normal(0, variance**0.5, query.size)
                linear[child] += (noisy / variance)[query.cell_answer]
    few = FewSums.of(basis, basis.pattern_table(np.stack(blocks)))
    assert few is not None
    truth = truth[:, cells]
    parent = truth.sum(axis=0) if children > 1 else None
    upper = np.broadcast_to(np.inf if parent is None else parent, truth.shape).copy()
    if zeros:
        upper[(rng.random(truth.shape) < 0.3) & (truth == 0)] = 0.0
    group = sums = None
    if held:
        _, group = np.unique(cells % held, return_inverse=True)
        sums = np.stack([truth[:, group == g].sum(axis=1) for g in range(group.max() + 1)], axis=1)
        upper = np.minimum(upper, sums[:, group])
    return Family(
        name=f"family {seed}",
        precision=few.on(np.arange(kinds), cells),
        linear=linear[:, cells],
        upper=np.where(np.isinf(upper), batch.UNBOUNDED, upper),
        parent=parent,
        held_group=group,
        held=sums,
        kind=kind if kinds > 1 else None,
    )


def assert_optimal(family: Family, x: np.ndarray) -> None:
    """The conditions of optimality in all cells, to a hundred-thousandth of a person (KKT).

    The multipliers of the sums are those that fit the gradients of the positive cells best.
    """
    assert violation(family, x) < 1e-5
    matrices = family.with_matrices()
    gradient = matrices.times(x) - matrices.linear
    gradient /= np.diagonal(matrices.matrices, axis1=1, axis2=2).max()
    children, cells = x.shape
    columns = [] if family.parent is None else [np.tile(np.eye(cells), (children, 1))]
    if family.held_group is not None and family.held is not None:
        of_group = np.eye(family.held.shape[1])[family.held_group]
        columns.append(np.asarray(np.kron(np.eye(children), of_group), dtype=np.float64))
    free = (x > 1e-6).ravel()
    if columns:
        sums = np.hstack(columns)
        fit = np.linalg.lstsq(sums[free], gradient.ravel()[free], rcond=None)[0]
        gradient = (gradient.ravel() - sums @ fit).reshape(x.shape)
    assert np.abs(gradient.ravel()[free]).max(initial=0.0) < 1e-5
    if family.held is None:  # else the multipliers of a sum without a positive cell are not those of the fit
        assert gradient[(family.upper > 0) & ~free.reshape(x.shape)].min(initial=0.0) > -1e-5


KINDS = {
    "seed": st.integers(0, 10**6),
    "children": st.sampled_from([1, 2, 5]),
    "kinds": st.integers(1, 3),
    "held": st.sampled_from([0, 1, 3]),
    "zeros": st.booleans(),
}


@settings(max_examples=12, deadline=None)
@given(**KINDS)
def test_the_solution_is_that_of_matrices(seed: int, children: int, kinds: int, held: int, zeros: bool) -> None:
    family = random_family(seed, children, kinds=min(kinds, children), held=held, zeros=zeros)
    exact = solve_by_projection(family)
    assert isinstance(exact, Exact)
    (by_matrices,) = solve_batched([family.with_matrices()])
    assert by_matrices is not None
    assert np.abs(exact.x - by_matrices.x).max() < 1e-7
    assert_optimal(family, exact.x)


@pytest.mark.parametrize(("children", "held"), [(4, 2), (1, 1)])
def test_the_solution_is_cvxpys(children: int, held: int) -> None:
    family = random_family(5, children, kinds=min(2, children), held=held, zeros=True)
    exact = solve_by_projection(family)
    assert exact is not None
    assert np.abs(exact.x - solve_with_cvxpy(family.with_matrices()).x).max() < 1e-3


@pytest.mark.parametrize(("constant", "value"), [("SIGN", 1e9), ("GRADIENT", 1e-2)])
def test_seeded_faults_are_not_optimal(monkeypatch: pytest.MonkeyPatch, constant: str, value: float) -> None:
    """Cells that are not released, and rounds that end too early."""
    family = random_family(2, 5, shape=(20, 2, 8))
    monkeypatch.setattr(projected, constant, value)
    exact = solve_by_projection(family)
    assert exact is not None
    with pytest.raises(AssertionError):
        assert_optimal(family, exact.x)


def test_counts_of_ten_million_are_exact() -> None:
    family = random_family(3, 5, held=2)
    assert family.parent is not None
    assert family.held is not None
    times = 1e6
    large = replace(
        family,
        linear=family.linear * times,
        parent=family.parent * times,
        held=family.held * times,
        upper=family.upper * times,
    )
    small, exact = solve_by_projection(family), solve_by_projection(large)
    assert small is not None
    assert exact is not None
    assert np.abs(exact.x / times - small.x).max() < 1e-9
    assert violation(large, exact.x) < 1e-6


def test_what_is_not_found_so_is_found_by_matrices() -> None:
    """Limits that are reached, ranges, and rounds that do not end."""
    family = random_family(4, 4)
    limited = replace(family, upper=np.minimum(family.upper, np.maximum(np.ceil(family.upper * 0.7), 1.0)))
    assert family.parent is not None
    half = np.arange(family.n_cells) % 2
    none = np.zeros((family.n_children, 2))
    ranged = replace(family, ranges=(GroupRange(half, none, none + family.parent.sum()),))
    for one in (limited, ranged):
        assert solve_by_projection(one) is None
    (x,) = solve_families([ranged], "batched")
    (same,) = solve_families([family], "batched")
    assert np.abs(x.x - same.x).max() < 1e-7
    for constant in ("MOST_ROUNDS", "MOST_STEPS"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(projected, constant, 1)
            assert solve_by_projection(family) is None
            (x,) = solve_families([family], "batched")
        assert np.abs(x.x - same.x).max() < 1e-7


@pytest.mark.parametrize(("kinds", "held"), [(1, 0), (3, 1)])
def test_rounds_that_go_in_a_circle_begin_once_more_near_the_solution(
    monkeypatch: pytest.MonkeyPatch, kinds: int, held: int
) -> None:
    family = random_family(6, 5, kinds=kinds, held=held)
    exact, begun = solve_by_projection(family), []

    def circles(family: Family, near: FloatArray | None = None) -> Exact | None:
        begun.append(near is not None)
        return None if near is None else solve_by_projection(family, near)

    monkeypatch.setattr(solve, "solve_by_projection", circles)
    (again,) = solve_families([family], "batched")
    assert exact is not None
    assert begun == [False, True]
    assert again.iterations < exact.rounds
    assert np.abs(again.x - exact.x).max() < 1e-7


def test_whoever_goes_on_has_the_same_bytes_and_rounds() -> None:
    family = random_family(8, 5, kinds=2, held=1)
    exact = solve_by_projection(family)
    assert exact is not None
    for again in after_each_stop(lambda: solve_by_projection(family)):
        assert again is not None
        assert (again.x.tobytes(), again.rounds) == (exact.x.tobytes(), exact.rounds)


def test_the_mean_of_few_sums_is_that_of_their_matrices() -> None:
    family = random_family(7, 5, kinds=3)
    assert isinstance(family.precision, FewSums)
    weights = np.array([0.2, 0.5, 0.3])
    assert np.allclose(family.precision.mean(weights), np.tensordot(weights, family.matrices, 1), rtol=1e-12)


@settings(max_examples=6, deadline=None)
@example(seed=1, zeros=False, invariants=False, complete=True, of="full")
@given(seed=st.integers(0, 10**6), zeros=st.booleans(), invariants=st.booleans(), complete=st.booleans(), of=ESTIMATORS)
def test_a_release_has_the_same_numbers(seed: int, zeros: bool, invariants: bool, complete: bool, of: str) -> None:
    """Every level of small random problems, all families solved in this way where they can be."""
    problem, _ = random_problem(
        seed, shape=(4, 3, 3), zeros=zeros, invariants=invariants, complete=complete, estimator=of, mean=1.0
    )
    basis = basis_of(problem)
    estimates = upward_pass(problem, basis)
    solved: list[str] = []

    def noted(family: Family, near: FloatArray | None = None) -> Exact | None:
        solved.append(family.name)
        return solve_by_projection(family, near)

    above = None
    for level, estimate in enumerate(estimates):
        counts, _ = downward_level(problem, basis, level, estimate, above)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(assembly, "is_projected", lambda *_, **__: True)
            patch.setattr(assembly, "MOST_SUMS", 10.0)
            patch.setattr(solve, "solve_by_projection", noted)
            same, _ = downward_level(problem, basis, level, estimate, above)
        assert np.array_equal(counts.toarray(), same.toarray())
        above = counts
    assert solved or zeros or not complete  # impossible cells can leave nothing to solve
