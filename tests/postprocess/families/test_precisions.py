"""Precisions in any form say the same as the matrices of their queries; sums of measured queries are few."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.dense import query_matrix
from oracles.random_problems import random_marginals

from postprocess import algebra
from postprocess.algebra import Basis
from postprocess.families import sum_weights
from postprocess.families.precisions import Dense, Precisions
from postprocess.families.sum_weights import MeasuredWeights, OnCells, SumWeights
from postprocess.marginal import Marginal, detail_of


def forms(n_kinds: int) -> dict[str, tuple[Precisions, np.ndarray]]:
    """Of each form some precisions on the same 80 cells, and their matrices: sums of A'A / variance over queries."""
    rng, shape = np.random.default_rng(n_kinds), (5, 4, 2, 3)
    queries = [detail_of(shape), random_marginals(rng, shape, recode=False)[0]]
    basis = Basis.of(shape, queries)
    variances = rng.uniform(1, 9, (n_kinds, len(queries)))
    blocks = np.stack([basis.precision(list(zip(queries, own, strict=True))) for own in variances])
    cells = np.sort(rng.choice(120, 80, replace=False))
    rows = [query_matrix(query, 120)[:, cells] for query in queries]
    matrices = np.stack([sum(a.T @ a / v for a, v in zip(rows, own, strict=True)) for own in variances])
    sums = sp.csr_array((np.arange(80)[None, :] % 3 == np.arange(3)[:, None]).astype(np.float64))
    joint = np.stack([np.diag(rng.uniform(0.1, 2.0, 3)) for _ in range(n_kinds)])
    scale, wide = rng.uniform(0.2, 1.0, n_kinds), [(np.arange(80) // 4, 0.5), (np.arange(80) // 8, 0.1)]
    same = [weight * (group[:, None] == group) for group, weight in wide]
    of_weights = np.stack([s * np.eye(80) + sum(same) + sums.T @ j @ sums for s, j in zip(scale, joint, strict=True)])
    return {
        "dense": (Dense(matrices), matrices),
        "measured": (OnCells(MeasuredWeights(basis, blocks), np.arange(n_kinds), cells), matrices),
        "weights": (SumWeights.made(scale, wide, sums, joint), of_weights),
    }


@pytest.mark.parametrize("chunk", [200, None])
@pytest.mark.parametrize(("n_kinds", "kinds"), [(3, None), (1, None), (4, (0, 2, 2, 0)), (4, (2, 1, 0, 1))])
@pytest.mark.parametrize("form", list(forms(1)))
def test_all_that_is_asked_is_as_of_matrices(
    monkeypatch: pytest.MonkeyPatch, form: str, n_kinds: int, kinds: tuple[int, ...] | None, chunk: int | None
) -> None:
    """Also where a kind is no child's, where each child has its own, and where one is shared by all."""
    if chunk:
        monkeypatch.setattr(algebra, "CHUNK_NUMBERS", chunk)
    rng = np.random.default_rng(7)
    found, matrices = forms(n_kinds)[form]
    kind = None if kinds is None else np.array(kinds)
    own = np.arange(3) % n_kinds if kind is None else kind
    x = rng.normal(size=(len(own), 80))
    expected = np.stack([matrices[number] @ row for number, row in zip(own, x, strict=True)])
    assert len(found) == len(matrices)
    assert np.allclose(found.times(x, kind), expected, rtol=1e-10, atol=1e-10)
    assert np.allclose(found.matrices(), matrices, rtol=1e-11, atol=1e-11)
    assert np.allclose(found.diagonals(), np.diagonal(matrices, axis1=1, axis2=2), rtol=1e-11)
    if isinstance(found, SumWeights):
        some = np.flatnonzero(rng.random(80) < 0.5)
        assert np.allclose(found.on(some).matrices(), matrices[:, some[:, None], some], rtol=1e-11, atol=1e-11)
    assert 0.0 < found.least() <= np.linalg.eigvalsh(matrices).min() * (1 + 1e-9)
    if not isinstance(found, Dense):
        return
    for n in (5, 67):
        cells = np.stack([rng.permutation(80)[:n] for _ in own])
        parts = np.stack([matrices[number][np.ix_(at, at)] for number, at in zip(own, cells, strict=True)])
        assert np.allclose(found.principal(own, cells), parts, rtol=1e-11, atol=1e-11)


def random_weights(rng: np.random.Generator, shape: tuple[int, ...], *, detail: bool) -> MeasuredWeights:
    """Precisions of three classes: measured alike but for the variances, and what two of them say of their sum."""
    marginals = random_marginals(rng, shape, recode=True)
    some = [marginal for marginal in marginals if marginal.size < np.prod(shape) and rng.random() < 0.4]
    queries: list[Marginal] = [*some, *([detail_of(shape)] if detail else [])] or [marginals[0]]
    basis = Basis.of(shape, [*queries, marginals[1]])
    first, second = (basis.precision([(query, float(rng.uniform(1, 9))) for query in queries]) for _ in range(2))
    blocks = [first, second]
    if detail:
        blocks.append(first + np.linalg.inv(np.linalg.inv(first) + np.linalg.inv(second)))
    return MeasuredWeights(basis, np.stack(blocks))


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10**6),
    shape=st.sampled_from([(7,), (6, 4), (5, 3, 4), (8, 2, 3, 2)]),
    detail=st.booleans(),
    few=st.sampled_from([1, 8]),
)
def test_weights_on_sums_are_the_matrices_of_any_classes_on_any_cells(
    seed: int, shape: tuple[int, ...], detail: bool, few: int
) -> None:
    """Also where the detail is not measured, and whether children of one class are worked on together or not."""
    rng = np.random.default_rng(seed)
    weights, cells = random_weights(rng, shape, detail=detail), np.flatnonzero(rng.random(int(np.prod(shape))) < 0.7)
    if not len(cells):
        return
    kinds = rng.permutation(len(weights.blocks))[: 1 + seed % 3]
    own, expected = OnCells(weights, kinds, cells), weights.basis.restricted(weights.blocks[kinds], cells)
    most = np.abs(expected).max()
    assert np.allclose(own.matrices(), expected, rtol=0, atol=1e-12 * most)
    of, x = rng.integers(0, len(kinds), 6), rng.normal(size=(len(cells), 6))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sum_weights, "FEW_KINDS", few)
        found = own.times_columns(x, of)
    products = np.stack([expected[kind] @ column for kind, column in zip(of, x.T, strict=True)], axis=1)
    assert np.allclose(found, products, rtol=0, atol=1e-11 * most * len(cells))


def test_sums_of_cells_that_are_alike_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ages x sex x origin by age x sex and origin: with the detail no sum is of more than these tell apart."""
    shape = (12, 2, 6)
    groups = np.arange(12), np.arange(2), np.arange(6)
    nothing = [np.zeros(n, dtype=np.int64) for n in shape]
    queries = [
        detail_of(shape),
        Marginal("bands", (groups[0] // 3, nothing[1], nothing[2])),
        Marginal("age * sex", (groups[0], groups[1], nothing[2])),
        Marginal("origin", (nothing[0], nothing[1], groups[2])),
    ]
    basis = Basis.of(shape, queries)
    weights = MeasuredWeights(basis, basis.precision([(query, 2.0) for query in queries])[None])
    sizes = [part.forms.shape[-1] * np.prod(np.array(basis.symmetric_shape)[part.subset]) for part in weights.parts[1]]
    assert sum(sizes) <= 12 * 2 + 6 + 12
    x, own = (
        np.random.default_rng(1).normal(size=(144, 1)),
        OnCells(weights, np.zeros(1, dtype=np.int64), np.arange(144)),
    )
    kind = np.zeros(1, dtype=np.int64)
    assert np.allclose(own.times_columns(x, kind)[:, 0], own.matrices()[0] @ x[:, 0])
    # Power: entries taken as equal that are not, give other products.
    monkeypatch.setattr(sum_weights, "_classes_of_forms", lambda forms, _: np.zeros(forms.shape[1], dtype=np.int64))
    wrong = OnCells(MeasuredWeights(basis, weights.blocks), kind, np.arange(144))
    assert np.abs(wrong.times_columns(x, kind)[:, 0] - own.matrices()[0] @ x[:, 0]).max() > 1e-3
