"""Wide areas at the top: the positive cells found in the block basis are those of the whole problem's solution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.random_problems import ESTIMATORS, KINDS, random_marginals, random_problem
from oracles.stops import after_each_stop

from postprocess import algebra
from postprocess.algebra import Basis
from postprocess.bounds.declare import propagate
from postprocess.downward import assembly, batch, tasks
from postprocess.downward.level import downward_level
from postprocess.errors import SolverError
from postprocess.families import stack, wide
from postprocess.families.family import objective, violation
from postprocess.families.in_blocks import Coordinates, InBlocks
from postprocess.families.reference_solvers import solve_with_cvxpy
from postprocess.families.solve import solve_families
from postprocess.families.wide import Sums, WideArea, positive_cells
from postprocess.linear.upward import basis_of, upward_pass
from postprocess.marginal import Marginal, detail_of


def random_area(seed: int, shape: Sequence[int], *, held: bool, ranges: bool, zeros: bool) -> WideArea:
    """A sparse area with noisy answers of some queries and of every cell."""
    rng = np.random.default_rng(seed)
    shape = tuple(shape)
    n_cells = int(np.prod(shape))
    truth = rng.poisson(rng.gamma(0.1, 20.0, n_cells)).astype(np.float64)
    upper = np.full(n_cells, batch.UNBOUNDED)
    if zeros:
        upper[rng.random(n_cells) < 0.2] = 0.0
        truth[upper == 0] = 0.0
    queries = [detail_of(shape), *random_marginals(rng, shape, recode=True)]
    first = Marginal("first", (np.arange(shape[0]), *(np.zeros(n, dtype=np.int64) for n in shape[1:])))
    second = Marginal("second", (np.zeros(shape[0], dtype=np.int64), np.arange(shape[1]), *first.groups[2:]))
    basis = Basis.of(shape, [*queries, first, second])
    linear, measured = np.zeros(n_cells), []
    for query in queries:
        variance = float(rng.choice([2.0, 9.0, 40.0]))
        noisy = query.answer(truth[None])[0] + rng.normal(0, variance**0.5, query.size)
        linear += (noisy / variance)[query.cell_answer]
        measured.append((query, variance))
    sums = []
    if held:
        exact = first.answer(truth[None])[0]
        sums.append(Sums(first, exact, exact))
    if ranges:
        about = second.answer(truth[None])[0]
        sums.append(Sums(second, np.maximum(about - 1, 0), about + 2))
    for one in sums:
        upper[one.upper[one.marginal.cell_answer] == 0] = 0.0
    return WideArea(f"area {seed}", basis, basis.precision(measured), linear, upper, tuple(sums))


def assert_solves(area: WideArea) -> None:
    """The solution on the positive cells is cvxpy's on all possible ones, and meets the conditions of optimality."""
    table = area.basis.pattern_table(area.blocks[None])
    cells, possible = positive_cells(area), np.flatnonzero(area.upper)
    (own,) = solve_families([area.on(cells, table)], "batched")
    x = np.zeros(len(area.linear))
    x[cells] = own.x[0]
    whole = area.on(possible, table)
    reference = solve_with_cvxpy(whole)
    assert violation(whole, x[None, possible]) < 1e-5
    assert np.abs(x[possible] - reference.x[0]).max() < 1e-3
    assert objective(whole, x[None, possible]) <= objective(whole, reference.x) + 1e-6 * np.abs(area.linear).max()
    if not area.sums:
        gradient = (whole.times(x[None, possible]) - whole.linear)[0]
        scale = np.diagonal(whole.matrices[0])
        assert np.abs(np.minimum(x[possible], gradient / scale)).max() < 1e-5


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), held=st.booleans(), ranges=st.booleans(), zeros=st.booleans())
def test_the_solution_is_that_of_all_cells(seed: int, held: bool, ranges: bool, zeros: bool) -> None:
    assert_solves(random_area(seed, (4, 3, 9, 2), held=held, ranges=ranges, zeros=zeros))


def test_cells_that_the_first_guess_lacks_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide, "MOST_MISSING", 10.0)
    area = random_area(3, (4, 3, 9, 2), held=False, ranges=False, zeros=False)
    table = area.basis.pattern_table(area.blocks[None])
    cells = positive_cells(area)
    guess = np.zeros(len(area.linear))
    guess[cells[: -len(cells) // 5]] = 1.0
    solution = wide._proved(area, table, guess)
    assert solution is not None
    assert np.array_equal(np.flatnonzero(solution), cells)


def test_an_area_that_is_not_solved_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide, "_proved", lambda *_: None)
    monkeypatch.setattr(wide, "TRY_AT", (2, 4))
    with pytest.raises(SolverError, match=r"area 3: .* in 4 iterations"):
        positive_cells(random_area(3, (4, 3, 9, 2), held=False, ranges=False, zeros=False))


@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 40, 3, 2)])
def test_coordinates_multiply_as_the_basis_does(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    basis = Basis(shape, tuple(range(1, len(shape))))
    blocks = rng.normal(size=(basis.n_blocks, shape[0], shape[0]))
    cells = rng.normal(size=(1, int(np.prod(shape))))
    expected = basis.apply(blocks[None], basis.fold(cells))[0].reshape(shape[0], -1)
    assert np.allclose(Coordinates(basis).times(blocks, basis.fold(cells)[0].reshape(shape[0], -1)), expected)


@settings(max_examples=4, deadline=None)
@given(**KINDS, estimator=ESTIMATORS, roots=st.integers(1, 2))
def test_a_release_has_the_same_numbers(
    seed: int, zeros: bool, invariants: bool, complete: bool, estimator: str, roots: int
) -> None:
    problem, _ = random_problem(
        seed, zeros=zeros, invariants=invariants, complete=complete, estimator=estimator, roots=roots, shape=(3, 4, 5)
    )
    bounds = propagate(problem.spine, problem.constraints.bounds, problem.constraints.structural_zeros)
    problem = replace(problem, constraints=replace(problem.constraints, bounds=bounds))
    basis = basis_of(problem)
    estimate = upward_pass(problem, basis)[0]
    together, _ = downward_level(problem, basis, 0, estimate, None)
    sought: list[str] = []

    def noted(area: WideArea) -> np.ndarray:
        sought.append(area.name)
        return positive_cells(area)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "WIDE", 0)
        patch.setattr(assembly, "WIDE", 0)
        patch.setattr(assembly, "positive_cells", noted)
        apart, _ = downward_level(problem, basis, 0, estimate, None)
    assert len(sought) == roots
    assert np.array_equal(together.toarray(), apart.toarray())


@settings(max_examples=4, deadline=None)
@given(**KINDS, estimator=ESTIMATORS)
def test_levels_below_have_the_same_numbers_in_blocks(
    seed: int, zeros: bool, invariants: bool, complete: bool, estimator: str
) -> None:
    """All levels of a release whose families leave their precisions in blocks and count as large."""
    problem, _ = random_problem(
        seed, zeros=zeros, invariants=invariants, complete=complete, estimator=estimator, roots=1, shape=(3, 4, 5)
    )
    bounds = propagate(problem.spine, problem.constraints.bounds, problem.constraints.structural_zeros)
    problem = replace(problem, constraints=replace(problem.constraints, bounds=bounds))
    basis = basis_of(problem)
    estimates = upward_pass(problem, basis)

    def released() -> list[np.ndarray]:
        above, out = None, []
        for level, estimate in enumerate(estimates):
            above, _ = downward_level(problem, basis, level, estimate, above)
            out.append(above.toarray())
        return out

    dense, in_blocks = released(), 0

    class Noted(InBlocks):
        def __init__(self, *arguments: Any) -> None:
            nonlocal in_blocks
            in_blocks += 1
            super().__init__(*arguments)

    for widest in (0, wide.WIDE):  # of a wide schema, and of one whose other families have matrices
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tasks, "WIDE", widest)
            patch.setattr(assembly, "LEAST_IN_BLOCKS", 0)
            patch.setattr(assembly, "InBlocks", Noted)
            patch.setattr(stack, "ALONE", 0)
            patch.setattr(stack, "LARGE_NUMBERS", 0)
            before, apart = in_blocks, released()
        assert in_blocks > before
        assert all(np.array_equal(one, other) for one, other in zip(dense, apart, strict=True))


def test_each_vector_is_multiplied_by_its_own_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """In blocks, some vectors at a time, as by the matrices of all cells, which are not made up."""
    monkeypatch.setattr(algebra, "CHUNK_NUMBERS", 200)
    rng, shape = np.random.default_rng(4), (3, 4, 2, 3)
    queries = [detail_of(shape), *random_marginals(rng, shape, recode=True)]
    basis = Basis.of(shape, queries)
    blocks = np.stack([basis.precision([(query, rng.uniform(1, 9)) for query in queries]) for _ in range(5)])
    cells = np.sort(rng.choice(72, 40, replace=False))
    kinds, x = rng.integers(0, 5, 17), rng.normal(size=(17, 40))
    own = InBlocks(basis, blocks, cells, basis.pattern_table(blocks))
    expected = np.stack([own.matrices()[kind] @ one for kind, one in zip(kinds, x, strict=True)])
    assert np.allclose(own.times(x, kinds), expected, rtol=1e-11, atol=1e-11)


def test_whoever_goes_on_has_the_same_bytes() -> None:
    area = random_area(5, (4, 3, 9, 2), held=True, ranges=True, zeros=True)
    first = next(wide._iterates(area))
    for again in after_each_stop(lambda: next(wide._iterates(area))):
        assert again.tobytes() == first.tobytes()
