"""Precisions in any form say the same as their matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from oracles.random_problems import random_marginals

from postprocess.algebra import Basis
from postprocess.families.few_sums import FewSums
from postprocess.families.in_blocks import InBlocks
from postprocess.families.precisions import LARGE, Dense, Precisions
from postprocess.marginal import detail_of
from postprocess.sums.weights import SumWeights


def forms(n_kinds: int) -> dict[str, tuple[Precisions, np.ndarray]]:
    """Of each form some precisions on the same 80 cells, and their matrices."""
    rng, shape = np.random.default_rng(n_kinds), (5, 4, 2, 3)
    queries = [detail_of(shape), random_marginals(rng, shape, recode=False)[0]]
    basis = Basis.of(shape, queries)
    blocks = np.stack([basis.precision([(query, rng.uniform(1, 9)) for query in queries]) for _ in range(n_kinds)])
    cells, table = np.sort(rng.choice(120, 80, replace=False)), basis.pattern_table(blocks)
    few = FewSums.of(basis, table)
    assert few is not None
    matrices = basis.dense(table, cells)
    sums = sp.csr_array((np.arange(80)[None, :] % 3 == np.arange(3)[:, None]).astype(np.float64))
    joint = np.stack([np.diag(rng.uniform(0.1, 2.0, 3)) for _ in range(n_kinds)])
    weights = SumWeights.made(rng.uniform(0.2, 1.0, n_kinds), [(np.arange(80) // 4, 0.5)], sums, joint)
    return {
        "dense": (Dense(matrices), matrices),
        "blocks": (InBlocks(basis, blocks, cells), matrices),
        "blocks and their table": (InBlocks(basis, blocks, cells, table), matrices),
        "few sums": (few.on(np.arange(n_kinds), cells), matrices),
        "weights": (weights, weights.matrices()),
    }


@pytest.mark.parametrize("kinds", [None, (0, 2, 2, 0), (2, 1, 0, 1)])
@pytest.mark.parametrize("form", list(forms(1)))
def test_all_that_is_asked_is_as_of_matrices(form: str, kinds: tuple[int, ...] | None) -> None:
    """Also where a kind is no child's, and where each child has its own."""
    rng = np.random.default_rng(7)
    found, matrices = forms(3 if kinds is None else 4)[form]
    kind = None if kinds is None else np.array(kinds)
    own = np.arange(3) if kind is None else kind
    x = rng.normal(size=(len(own), 80))
    expected = np.stack([matrices[number] @ row for number, row in zip(own, x, strict=True)])
    assert len(found) == len(matrices)
    assert np.allclose(found.times(x, kind), expected, rtol=1e-10, atol=1e-10)
    assert np.allclose(found.matrices(), matrices, rtol=1e-11, atol=1e-11)
    assert np.allclose(found.diagonals(), np.diagonal(matrices, axis1=1, axis2=2), rtol=1e-11)
    weights = rng.dirichlet(np.ones(len(matrices)))
    assert np.allclose(found.mean(weights), np.tensordot(weights, matrices, 1), rtol=1e-11, atol=1e-11)
    least = np.linalg.eigvalsh(matrices).min()
    assert 0.0 < found.least() <= least * (1 + 1e-9)
    for n in (5, LARGE + 3):
        cells = np.stack([rng.permutation(80)[:n] for _ in own])
        parts = np.stack([matrices[number][np.ix_(at, at)] for number, at in zip(own, cells, strict=True)])
        for single in (False, True):
            assert np.allclose(found.principal(own, cells, single=single), parts, rtol=1e-6, atol=1e-6)
        assert np.allclose(found.principal(own, cells, single=False), parts, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("form", list(forms(1)))
def test_one_is_shared_by_all(form: str) -> None:
    found, matrices = forms(1)[form]
    x = np.random.default_rng(8).normal(size=(4, 80))
    assert np.allclose(found.times(x, None), x @ matrices[0], rtol=1e-10, atol=1e-10)
