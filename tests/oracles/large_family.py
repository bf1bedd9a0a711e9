"""A made-up family of millions of persons, whose precisions are weights on sums."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from postprocess.families.family import Family
from postprocess.families.few_sums import sums_over
from postprocess.sums.weights import SumWeights


def large_family(persons: int, weight: float, k: int = 10_000, n: int = 5) -> Family:
    """Noisy answers of n children in k cells, of pairs of these, and, with a weight, of 1, 2, 7 and 100 groups."""
    rng = np.random.default_rng(1)
    truth = rng.multinomial(persons, rng.dirichlet(np.full(k * n, 0.05))).reshape(n, k)
    truth[:, truth.sum(axis=0) == 0] = 1
    few = sp.csr_array(sp.vstack([sums_over(np.arange(k) % size, size) for size in (1, 2, 7, 100)]))
    pairs = [(rng.integers(0, k // 2, k), 0.03)]
    precision = SumWeights.made(np.array([0.03]), pairs, few, weight * np.eye(few.shape[0])[None])
    kind = np.zeros(n, dtype=np.int64)
    parent = truth.sum(axis=0).astype(np.float64)
    return Family(
        name="state 44 (its county children)",
        precision=precision,
        linear=np.ascontiguousarray(precision.times(truth + rng.normal(0, 5, truth.shape), kind)),
        upper=np.repeat(parent[None], n, axis=0),
        parent=parent,
        held_group=np.zeros(k, dtype=np.int64),
        held=truth.sum(axis=1, keepdims=True).astype(np.float64),
        kind=kind,
    )
