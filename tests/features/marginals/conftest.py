"""Small populations on small spines, measured with noise; and the releases of the matrix, for reading only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from matrix.cases import CASES
from matrix.conftest import FolderOf
from matrix.conftest import folder_of as folder_of  # a fixture
from oracles.clique_population import Population

from features.marginals.cliques import AttributeSizes, Clique, junction_tree
from features.marginals.linear import NoisyTable
from features.marginals.records import WholeRecords


@pytest.fixture(scope="session")
def made(folder_of: FolderOf) -> Callable[[str], Path]:
    """The directory of the release of a case, by its name; the folder above the next holds its inputs."""
    cases = {case.name: case for case in CASES}
    return lambda name: folder_of(cases[name]) / cases[name].published[-1]


@pytest.fixture
def population() -> Callable[..., Population]:
    """Makes one: seed, cliques, number of records, first."""
    return _population


@pytest.fixture
def measured() -> Callable[..., list[list[NoisyTable]]]:
    """Measures one: population, seed, variance, cliques."""
    return _measured


def _measured(
    people: Population, seed: int, variance: float, cliques: Sequence[Clique] | None = None
) -> list[list[NoisyTable]]:
    """Noisy tables of all cliques at all levels."""
    rng = np.random.default_rng(seed)
    out = []
    for level, n in enumerate(people.sizes):
        here = []
        for clique in cliques if cliques is not None else people.tree.bags:
            truth = people.table(clique, level)
            noise = np.rint(rng.normal(0, np.sqrt(variance), truth.shape)).astype(np.int64)
            here.append(NoisyTable(clique, truth + noise, np.full(n, variance)))
        out.append(here)
    return out


def _population(
    seed: int, cliques: Sequence[Clique] = ((0, 1), (1, 2, 3), (3, 4)), n: int = 400, *, first: Clique = ()
) -> Population:
    """Five attributes that hang together, in six leaves of two of three parents; one leaf is empty."""
    rng = np.random.default_rng(seed)
    domain = AttributeSizes(tuple("abcde"), (2, 3, 2, 4, 3))
    parents = (np.zeros(3, dtype=np.int64), np.array([0, 0, 0, 1, 1, 2, 2]))
    leaf = np.sort(rng.choice(7, n, p=[0.3, 0.2, 0.1, 0.2, 0.1, 0.1, 0.0]))
    values = np.zeros((n, 5), dtype=np.int64)
    values[:, 0] = rng.random(n) < 0.2 + 0.1 * leaf
    for a in range(1, 5):
        values[:, a] = (values[:, a - 1] + rng.choice(3, n, p=[0.7, 0.2, 0.1])) % domain.sizes[a]
    return Population(junction_tree(domain, cliques, first=first), WholeRecords(leaf, values), parents, (1, 3, 7))
