"""Precisions in the block basis: every number as in the dense matrices, and the same solutions of families."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postprocess.algebra import Basis
from postprocess.families import large, stack
from postprocess.families.family import Family
from postprocess.families.in_blocks import Coordinates, InBlocks
from postprocess.families.precisions import Dense
from postprocess.families.reference_solvers import solve_with_cvxpy
from postprocess.families.solve import solve_families
from postprocess.marginal import Marginal

SHAPE = (6, 2, 3, 2)


def marginals() -> list[Marginal]:
    """Halves of the first attribute, which is thereby asymmetric, by the others whole or summed out."""
    halves = np.arange(6) // 3
    whole = [np.arange(size) for size in SHAPE]
    none = [np.zeros(size, dtype=np.int64) for size in SHAPE]
    return [
        Marginal("total", tuple(none)),
        Marginal("halves", (halves, whole[1], none[2], none[3])),
        Marginal("first by third", (whole[0], none[1], whole[2], none[3])),
        Marginal("detailed", tuple(whole)),
    ]


def some_precisions(rng: np.random.Generator, kinds: int) -> tuple[Basis, np.ndarray]:
    """A basis, and blocks of different precisions."""
    basis = Basis.of(SHAPE, marginals())
    variances = rng.gamma(2.0, 2.0, (kinds, len(marginals())))
    return basis, np.stack([basis.precision(list(zip(marginals(), own, strict=True))) for own in variances])


def family_of(seed: int, kinds: int, children: int = 5, *, held: bool = False) -> tuple[Family, Family]:
    """The same family with its precisions in blocks, and as matrices."""
    rng = np.random.default_rng(seed)
    basis, blocks = some_precisions(rng, kinds)
    cells = np.sort(rng.choice(np.prod(SHAPE), 40, replace=False))
    truth = rng.poisson(rng.gamma(0.2, 10.0, (children, len(cells)))).astype(np.float64)
    truth[0] += truth.sum(axis=0) == 0
    in_blocks = InBlocks(basis, blocks, cells)
    kind = np.arange(children) % kinds
    matrices = in_blocks.matrices()
    noisy = truth + rng.normal(0.0, 2.0, truth.shape)
    group = np.arange(len(cells)) % 2
    parent = truth.sum(axis=0)
    sums = np.stack([truth[:, group == g].sum(axis=1) for g in (0, 1)], axis=1)
    family = Family(
        name=f"family {seed}",
        precision=in_blocks,
        linear=np.einsum("cij,cj->ci", matrices[kind], noisy),
        upper=np.minimum(parent, sums[:, group]) if held else np.tile(parent, (children, 1)),
        parent=parent,
        held_group=group if held else None,
        held=sums if held else None,
        kind=kind,
    )
    return family, replace(family, precision=Dense(matrices))


def test_every_number_is_that_of_the_matrices() -> None:
    rng = np.random.default_rng(1)
    basis, blocks = some_precisions(rng, 3)
    cells = np.sort(rng.choice(np.prod(SHAPE), 40, replace=False))
    in_blocks = InBlocks(basis, blocks, cells)
    dense = np.stack([basis.restricted(own[None], cells)[0] for own in blocks])
    assert np.allclose(in_blocks.matrices(), dense, rtol=1e-12, atol=1e-12)
    assert np.allclose(in_blocks.diagonals(), np.diagonal(dense, axis1=1, axis2=2), rtol=1e-12)
    some = np.array([3, 5, 17, 39])
    x = rng.normal(size=(4, len(cells)))
    for kind in range(3):
        assert np.allclose(in_blocks.entries(kind, some), dense[kind][some[:, None], some], rtol=1e-12, atol=1e-12)
        assert np.allclose(in_blocks.times(x, np.full(len(x), kind)), x @ dense[kind], rtol=1e-10, atol=1e-10)
    weights = np.array([0.2, 0.3, 0.5])
    assert np.allclose(in_blocks.mean(weights), np.tensordot(weights, dense, 1), rtol=1e-12, atol=1e-12)


def test_the_matrices_are_those_of_the_queries() -> None:
    """By the definition, A'A / variance, query by query and cell by cell."""
    basis, blocks = some_precisions(np.random.default_rng(2), 1)
    variances = np.random.default_rng(2).gamma(2.0, 2.0, len(marginals()))
    n = int(np.prod(SHAPE))
    expected = np.zeros((n, n))
    for marginal, variance in zip(marginals(), variances, strict=True):
        expected += (marginal.cell_answer[:, None] == marginal.cell_answer[None, :]) / variance
    assert np.allclose(InBlocks(basis, blocks, np.arange(n)).matrices()[0], expected, rtol=1e-10, atol=1e-10)


def test_coordinates_of_many_vectors_are_those_of_each() -> None:
    basis, blocks = some_precisions(np.random.default_rng(3), 1)
    vectors = np.random.default_rng(3).normal(size=(5, basis.n_asymmetric, 12))
    coordinates = Coordinates(basis)
    together = coordinates.times(blocks[0], vectors)
    assert np.allclose(together, np.stack([coordinates.times(blocks[0], one) for one in vectors]), atol=1e-12)


def as_large(family: Family) -> np.ndarray:
    """The solution if every family counts as large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack, "ALONE", 0)
        patch.setattr(stack, "LARGE_NUMBERS", 0)
        (solution,) = solve_families([family], "batched")
    return solution.x


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), kinds=st.integers(1, 4), held=st.booleans())
def test_the_solution_is_the_same(seed: int, kinds: int, held: bool) -> None:
    in_blocks, dense = family_of(seed, kinds, held=held)
    x = as_large(in_blocks)
    (small,) = solve_families([dense], "batched")
    assert np.abs(x - as_large(dense)).max() < 1e-7
    assert np.abs(x - small.x).max() < 1e-7
    assert np.abs(x - solve_with_cvxpy(dense).x).max() < 1e-3


@pytest.mark.parametrize("held", [False, True])
def test_steps_with_the_mean_lead_to_the_minimiser(held: bool) -> None:
    """Children with precisions of their own: the equations of each are met after some steps, held sums always."""
    family, dense = family_of(4, 3, held=held)
    scale = 0.5 * family.scale
    quadratic = large._Quadratic(family, scale)
    right = family.linear + scale
    for _ in range(60):
        x = quadratic.minimiser(right)
        if family.held is not None:
            sums = np.stack([x[:, family.held_group == g].sum(axis=1) for g in (0, 1)], axis=1)
            assert np.abs(sums - family.held).max() < 1e-2, "in single precision"
    for child, kind in enumerate(family.kinds):
        system = np.asarray(dense.matrices[kind]) + scale * np.eye(family.n_cells)
        left = system @ x[child] - right[child]
        if family.held_group is not None:
            groups = (family.held_group[:, None] == np.arange(2)).astype(float)
            left -= groups @ np.linalg.lstsq(groups, left, rcond=None)[0]
        assert np.abs(left).max() / family.scale < 1e-3
