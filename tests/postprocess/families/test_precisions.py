"""Precisions in any form say the same as the matrices of their queries; few sums are few."""

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
from postprocess.families.precisions import Dense, InBlocks, Precisions
from postprocess.families.sum_weights import FewSums, SumWeights, few_sums_of
from postprocess.marginal import Marginal, detail_of


def forms(n_kinds: int) -> dict[str, tuple[Precisions, np.ndarray]]:
    """Of each form some precisions on the same 80 cells, and their matrices: sums of A'A / variance over queries."""
    rng, shape = np.random.default_rng(n_kinds), (5, 4, 2, 3)
    queries = [detail_of(shape), random_marginals(rng, shape, recode=False)[0]]
    basis = Basis.of(shape, queries)
    variances = rng.uniform(1, 9, (n_kinds, len(queries)))
    blocks = np.stack([basis.precision(list(zip(queries, own, strict=True))) for own in variances])
    cells, table = np.sort(rng.choice(120, 80, replace=False)), basis.pattern_table(blocks)
    few = FewSums.of(basis, table)
    assert few is not None
    rows = [query_matrix(query, 120)[:, cells] for query in queries]
    matrices = np.stack([sum(a.T @ a / v for a, v in zip(rows, own, strict=True)) for own in variances])
    sums = sp.csr_array((np.arange(80)[None, :] % 3 == np.arange(3)[:, None]).astype(np.float64))
    joint = np.stack([np.diag(rng.uniform(0.1, 2.0, 3)) for _ in range(n_kinds)])
    scale, wide = rng.uniform(0.2, 1.0, n_kinds), [(np.arange(80) // 4, 0.5), (np.arange(80) // 8, 0.1)]
    same = [weight * (group[:, None] == group) for group, weight in wide]
    of_weights = np.stack([s * np.eye(80) + sum(same) + sums.T @ j @ sums for s, j in zip(scale, joint, strict=True)])
    return {
        "dense": (Dense(matrices), matrices),
        "blocks": (InBlocks(basis, blocks, cells), matrices),
        "few sums": (few.on(np.arange(n_kinds), cells), matrices),
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
    some = np.flatnonzero(rng.random(80) < 0.5)
    assert np.allclose(found.on(some).matrices(), matrices[:, some[:, None], some], rtol=1e-11, atol=1e-11)
    assert 0.0 < found.least() <= np.linalg.eigvalsh(matrices).min() * (1 + 1e-9)
    for n in (5, 67):
        cells = np.stack([rng.permutation(80)[:n] for _ in own])
        parts = np.stack([matrices[number][np.ix_(at, at)] for number, at in zip(own, cells, strict=True)])
        assert np.allclose(found.principal(own, cells), parts, rtol=1e-11, atol=1e-11)


def random_table(rng: np.random.Generator, shape: tuple[int, ...], *, detail: bool) -> tuple[Basis, np.ndarray]:
    """A pattern table of three classes: measured alike but for the variances, and what two of them say of their sum."""
    marginals = random_marginals(rng, shape, recode=True)
    some = [marginal for marginal in marginals if marginal.size < np.prod(shape) and rng.random() < 0.4]
    queries: list[Marginal] = [*some, *([detail_of(shape)] if detail else [])] or [marginals[0]]
    basis = Basis.of(shape, [*queries, marginals[1]])
    first, second = (basis.precision([(query, float(rng.uniform(1, 9))) for query in queries]) for _ in range(2))
    blocks = [first, second]
    if detail:
        blocks.append(first + np.linalg.inv(np.linalg.inv(first) + np.linalg.inv(second)))
    return basis, basis.pattern_table(np.stack(blocks))


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), shape=st.sampled_from([(7,), (6, 4), (5, 3, 4), (8, 2, 3, 2)]))
def test_few_sums_are_the_matrices_of_any_classes_on_any_cells(seed: int, shape: tuple[int, ...]) -> None:
    """Where the detail is measured, and the schema is one that has few sums; else there are none."""
    rng = np.random.default_rng(seed)
    assert FewSums.of(*random_table(rng, shape, detail=False)) is None
    basis, table = random_table(rng, shape, detail=True)
    found, cells = FewSums.of(basis, table), np.flatnonzero(rng.random(int(np.prod(shape))) < 0.7)
    assert found is not None or np.prod(shape) == basis.n_blocks * basis.n_asymmetric or basis.n_asymmetric == 1
    if found is None or not len(cells):
        return
    kinds = rng.permutation(len(table))[: 1 + seed % 3]
    own, expected = found.on(kinds, cells), basis.dense(table[kinds], cells)
    assert np.allclose(own.matrices(), expected, rtol=0, atol=1e-12 * np.abs(table).max())
    of, x = rng.integers(0, len(kinds), 6), rng.normal(size=(len(cells), 6))
    products = np.stack([expected[kind] @ column for kind, column in zip(of, x.T, strict=True)], axis=1)
    assert np.allclose(own.times_columns(x, of), products, rtol=0, atol=1e-11 * np.abs(products).max())


def test_sums_are_few_or_not_made_and_those_that_are_remembered_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    basis, table = random_table(np.random.default_rng(3), (5, 3, 2), detail=True)
    first, again = few_sums_of(basis, table), few_sums_of(Basis(basis.shape, basis.symmetric), table.copy())
    other, found = few_sums_of(basis, 2 * table), FewSums.of(basis, table)
    assert first is not None
    assert other is not None
    assert found is not None
    assert again is first
    every = np.arange(3), np.arange(30)
    np.testing.assert_allclose(other.on(*every).matrices(), 2 * found.on(*every).matrices(), rtol=1e-12)
    monkeypatch.setattr(sum_weights, "MOST_REMEMBERED", table.nbytes - 1)
    assert few_sums_of(basis, table) is not first
    monkeypatch.setattr(sum_weights, "MOST_WEIGHTS", sum(partition.size**2 for partition in found.partitions) - 1)
    assert FewSums.of(basis, table) is None
    monkeypatch.undo()
    # Power: entries taken as equal that are not, give other matrices.
    monkeypatch.setattr(sum_weights, "_classes_of_forms", lambda forms, _: np.zeros(forms.shape[1], dtype=np.int64))
    wrong = FewSums.of(basis, table)
    assert wrong is None or np.abs(wrong.on(*every).matrices() - found.on(*every).matrices()).max() > 1e-3
