"""Precisions as weights on few sums of cells are the matrices that the block basis gives, on any of the cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.random_problems import random_marginals

from postprocess.algebra import Basis
from postprocess.families import few_sums
from postprocess.families.few_sums import FewSums, few_sums_of
from postprocess.marginal import Marginal, detail_of

SHAPES = st.sampled_from([(7,), (6, 4), (5, 3, 4), (8, 2, 3, 2)])


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


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), shape=SHAPES)
def test_products_are_those_of_the_matrices(seed: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    basis, table = random_table(rng, shape, detail=True)
    found = FewSums.of(basis, table)
    assert found is not None or np.prod(shape) == basis.n_blocks * basis.n_asymmetric or basis.n_asymmetric == 1
    if found is None:
        return
    cells = np.flatnonzero(rng.random(int(np.prod(shape))) < 0.7)
    kinds = rng.permutation(len(table))[: 1 + seed % 3]
    if not len(cells):
        return
    own, expected = found.on(kinds, cells), basis.dense(table[kinds], cells)
    assert np.allclose(own.matrices(), expected, rtol=0, atol=1e-12 * np.abs(table).max())
    of = rng.integers(0, len(kinds), 6)
    x = rng.normal(size=(len(cells), 6))
    assert np.allclose(
        own.diagonals(), np.diagonal(expected, axis1=1, axis2=2), rtol=0, atol=1e-12 * np.abs(table).max()
    )
    products = np.stack([expected[kind] @ column for kind, column in zip(of, x.T, strict=True)], axis=1)
    assert np.allclose(own.times_columns(x, of), products, rtol=0, atol=1e-11 * np.abs(products).max())


def test_weights_that_would_be_large_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they would have is counted before: exactly as many numbers as they have."""
    basis, table = random_table(np.random.default_rng(3), (5, 3, 2), detail=True)
    found = FewSums.of(basis, table)
    assert found is not None
    numbers = sum(partition.weights.size for partition in found.partitions)
    monkeypatch.setattr(few_sums, "MOST_WEIGHTS", numbers)
    assert FewSums.of(basis, table) is not None
    monkeypatch.setattr(few_sums, "MOST_WEIGHTS", numbers - 1)
    assert FewSums.of(basis, table) is None


def test_what_is_remembered_is_of_the_same_numbers_and_basis_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same table in another batch is found again; another one of its size is not, nor is a large one."""
    basis, table = random_table(np.random.default_rng(3), (5, 3, 2), detail=True)
    basis_again = Basis(basis.shape, basis.symmetric)
    first, again = few_sums_of(basis, table), few_sums_of(basis_again, table.copy())
    other = few_sums_of(basis, 2 * table)
    assert first is not None
    assert again is first
    assert other is not None
    expected = FewSums.of(basis, table)
    assert expected is not None
    np.testing.assert_array_equal(first.matrices(), expected.matrices())
    np.testing.assert_allclose(other.matrices(), 2 * expected.matrices(), rtol=1e-12)
    monkeypatch.setattr(few_sums, "MOST_REMEMBERED", table.nbytes - 1)
    assert few_sums_of(basis, table) is not first


def test_england_has_201_sums() -> None:
    """91 ages x 2 sexes x 19 groups: sex by age, and groups; and few sums are few only with the right ones."""
    shape = (91, 2, 19)
    nothing = [np.zeros(n, dtype=np.int64) for n in shape]
    whole = [np.arange(n) for n in shape]
    queries = [
        Marginal("ethnic", (nothing[0], nothing[1], whole[2])),
        Marginal("sex * age", (whole[0], whole[1], nothing[2])),
        Marginal("sex * age_groups", (whole[0] // 5, whole[1], nothing[2])),
        detail_of(shape),
    ]
    basis = Basis.of(shape, queries)
    table = basis.pattern_table(basis.precision([(query, 2.0) for query in queries])[None])
    found = FewSums.of(basis, table)
    assert found is not None
    assert found.n_sums == 182 + 19
    cells = np.arange(0, 3458, 7)
    # How many there are on some of the cells is known without the weights.
    zero = np.zeros(1, dtype=np.int64)
    assert found.n_sums_on(cells) == found.on(zero, cells).n_sums <= found.n_sums
    assert found.n_sums_on(np.arange(19)) == 19 + 1
    assert np.allclose(found.on(zero, cells).matrices(), basis.dense(table, cells), rtol=0, atol=1e-12)


def test_without_the_detail_there_are_none() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        assert FewSums.of(*random_table(rng, (5, 3, 4), detail=False)) is None


def test_what_is_not_alike_is_not_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seeded fault, entries taken as equal that are not, gives other matrices."""
    rng = np.random.default_rng(1)
    shape = (8, 2, 3)
    basis, table = random_table(rng, shape, detail=True)
    cells, kinds = np.arange(int(np.prod(shape))), np.arange(len(table))
    found = FewSums.of(basis, table)
    assert found is not None
    assert np.abs(found.on(kinds, cells).matrices() - basis.dense(table, cells)).max() < 1e-12
    monkeypatch.setattr(few_sums, "_classes_of_forms", lambda forms, _: np.zeros(forms.shape[1], dtype=np.int64))
    wrong = FewSums.of(basis, table)
    assert wrong is not None
    assert np.abs(wrong.on(kinds, cells).matrices() - basis.dense(table, cells)).max() > 1e-3
