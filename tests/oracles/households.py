"""A population made of households, of which it is forgotten who lives where."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from postprocess.marginal import Marginal

#: quarters (home, dorm), role (householder, other), age (two of children, two of adults), sex.
PERSONS = (2, 2, 4, 2)
#: size (1, 2, 3, 4, 5 to 7), householder's age, children (none, some), tenure.
HOUSEHOLDS = (5, 2, 2, 2)
SIZES = ((1, 1), (2, 2), (3, 3), (4, 4), (5, 7))


def marginal(name: str, shape: Sequence[int], **kept: Sequence[int] | None) -> Marginal:
    """A query: `a0=None` keeps attribute 0, `a1=(0, 0, 1)` recodes attribute 1; the others are summed out."""
    groups = [np.zeros(n, dtype=np.int64) for n in shape]
    for attribute, recode in kept.items():
        at = int(attribute[1:])
        groups[at] = np.arange(shape[at]) if recode is None else np.array(recode, dtype=np.int64)
    return Marginal(name, tuple(groups))


def drawn_town(n_leaves: int, seed: int, mean: float = 6.0) -> tuple[sp.csr_array, sp.csr_array]:
    """Persons and households `(n_leaves, n_cells)` that were drawn together; who lives where is forgotten."""
    rng = np.random.default_rng(seed)
    homes = rng.poisson(mean, n_leaves) * (rng.random(n_leaves) < 0.9)
    leaf = np.repeat(np.arange(n_leaves), homes)
    size = rng.choice(5, len(leaf), p=[0.27, 0.33, 0.16, 0.14, 0.1])
    members = np.array([low for low, _ in SIZES])[size] + np.where(size == 4, rng.integers(0, 3, len(leaf)), 0)
    band, tenure = rng.integers(0, 2, len(leaf)), rng.integers(0, 2, len(leaf))
    person_home = np.repeat(np.arange(len(leaf)), members)
    holder = np.diff(person_home, prepend=-1) != 0
    age = np.where(holder, 2 + band[person_home], rng.choice(4, len(person_home), p=[0.25, 0.2, 0.25, 0.3]))
    kids = np.bincount(person_home[age < 2], minlength=len(leaf)) > 0
    sex = rng.integers(0, 2, len(person_home))
    in_home = np.ravel_multi_index((np.zeros_like(age), (~holder).astype(int), age, sex), PERSONS)
    dorm = np.repeat(np.arange(n_leaves), rng.poisson(0.5, n_leaves))
    in_dorm = np.ravel_multi_index((np.ones_like(dorm), np.ones_like(dorm), 2 + dorm % 2, dorm % 2), PERSONS)
    persons = counted(np.concatenate([leaf[person_home], dorm]), np.concatenate([in_home, in_dorm]), n_leaves, PERSONS)
    cell = np.ravel_multi_index((size, band, kids.astype(int), tenure), HOUSEHOLDS)
    return persons, counted(leaf, cell, n_leaves, HOUSEHOLDS)


def counted(leaf: NDArray[np.int64], cell: NDArray[np.int64], n_leaves: int, shape: Sequence[int]) -> sp.csr_array:
    """Records as counts."""
    n_cells = int(np.prod(shape))
    ones = np.ones(len(leaf), dtype=np.int64)
    matrix = sp.coo_array((ones, (leaf, cell)), shape=(n_leaves, n_cells)).tocsr()
    matrix.sum_duplicates()
    return matrix


def records(counts: sp.csr_array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Leaf and cell of each record, in the order of microdata."""
    dense = counts.toarray()
    leaf, cell = np.nonzero(dense)
    return np.repeat(leaf, dense[leaf, cell]), np.repeat(cell, dense[leaf, cell])
