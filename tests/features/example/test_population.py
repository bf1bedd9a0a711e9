"""The synthetic population is as uneven as a real one; each test of shape is shown to fail for an even population."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from features.example.example import LEVELS, block_codes
from features.example.population import SCHEMA, populate
from geography.build import spine_from_prefixes, spine_from_table
from geography.spine import Spine
from pipeline.model.record_source import RecordSource
from pipeline.records.tabulate import roll_up, tabulate


@pytest.fixture(scope="module")
def spine() -> Spine:
    return spine_from_prefixes(block_codes(1), LEVELS)


@pytest.fixture(scope="module")
def counts(spine: Spine) -> sp.csr_array:
    return populate(spine, 1_000_000, 7)


@pytest.fixture(scope="module")
def even_counts(spine: Spine) -> sp.csr_array:
    """The same number of people spread evenly: what every test of shape must tell from a real population."""
    share = np.full(SCHEMA.n_cells, 1 / SCHEMA.n_cells)
    return sp.csr_array(np.random.default_rng(1).multinomial(1_000_000 // spine.n_leaves, share, spine.n_leaves))


def sizes(counts: sp.csr_array) -> NDArray[np.int64]:
    """People of each geounit that has any."""
    people = np.asarray(counts.sum(axis=1))
    return people[people > 0]


def dissimilarity(counts: sp.csr_array, group: int) -> float:
    """Dissimilarity index of a race and white: the share of it that would have to move to be spread alike."""
    race = counts.toarray().reshape(-1, 2, 8).sum(axis=1)
    return float(np.abs(race[:, group] / race[:, group].sum() - race[:, 1] / race[:, 1].sum()).sum() / 2)


def share_of_minors(counts: sp.csr_array) -> NDArray[np.float64]:
    """Of each leaf with at least 20 people."""
    people = counts.sum(axis=1)
    share: NDArray[np.float64] = counts[:, :8].sum(axis=1)[people >= 20] / people[people >= 20]
    return share


SHAPES: dict[str, tuple[Callable[[Spine, sp.csr_array], float], float, float]] = {
    # Name: (the figure, its least and largest allowed value). Rhode Island 2010: 0.30; 36; 187; 411; 2,492; 0.64, 0.59;
    # 0.70, 0.71; 4.35; 0.097.
    "share of empty blocks": (lambda _, c: float((c.sum(axis=1) == 0).mean()), 0.27, 0.37),
    "median block": (lambda _, c: float(np.median(sizes(c))), 28, 39),
    "95th percentile of blocks": (lambda _, c: float(np.quantile(sizes(c), 0.95)), 150, 250),
    "99th percentile of blocks": (lambda _, c: float(np.quantile(sizes(c), 0.99)), 320, 560),
    "95th percentile of block groups": (lambda s, c: float(np.quantile(sizes(roll_up(s, c)[3]), 0.95)), 1900, 2800),
    "hispanic, tracts": (lambda s, c: dissimilarity(roll_up(s, c)[2], 0), 0.42, 0.72),
    "black, tracts": (lambda s, c: dissimilarity(roll_up(s, c)[2], 2), 0.42, 0.72),
    "hispanic, blocks": (lambda _, c: dissimilarity(c, 0), 0.60, 0.82),
    "black, blocks": (lambda _, c: dissimilarity(c, 2), 0.60, 0.82),
    "nonzero cells of an inhabited block": (lambda _, c: c.nnz / sizes(c).size, 4.0, 5.2),
    "spread of the share of minors": (lambda _, c: float(np.std(share_of_minors(c))), 0.08, 0.13),
}


def test_each_shape_is_near_the_real_ones_and_an_even_population_has_none(
    spine: Spine, counts: sp.csr_array, even_counts: sp.csr_array
) -> None:
    for name, (figure, least, largest) in SHAPES.items():
        assert least <= figure(spine, counts) <= largest, name
        assert not least <= figure(spine, even_counts) <= largest, name


def test_limits_fit_the_real_state(shared_data: Path) -> None:
    """The limits of the test above hold the real Rhode Island too: they were not made for the generator."""
    path = shared_data / "ri_2010_blocks.parquet"
    real_spine = spine_from_prefixes(pq.read_table(path, columns=["block"])["block"].to_numpy().astype(np.str_), LEVELS)
    source = RecordSource(
        file=path,
        form="wide",
        geocode="block",
        values={"race": {"hisp": "hispanic", "two": "two_or_more"}},
        cells=(
            {"counts": "vap_{race}", "votingage": "18plus"},
            {"counts": "pop_{race} - vap_{race}", "votingage": "under18"},
        ),
    )
    real = tabulate(source, SCHEMA, real_spine)
    for name, (figure, least, largest) in SHAPES.items():
        assert least <= figure(real_spine, real) <= largest, name


@pytest.mark.parametrize("people", [1, 1000])
@pytest.mark.parametrize(
    "columns",
    [
        {"leaf": ["a"]},
        {"top": ["x", "x", "y"], "leaf": ["a", "b", "c"]},
        {"one": ["x"], "two": ["y"], "three": ["z"], "four": ["u"], "five": ["v"], "six": ["w"], "seven": ["s"]},
    ],
)
def test_any_spine(columns: dict[str, list[str]], people: int) -> None:
    """One level or seven, one leaf or one person: everybody has a place; equal seeds give equal people."""
    small = spine_from_table(pa.table(columns), list(columns))
    for seed in range(5):
        found = populate(small, people, seed)
        assert found.sum() == people
        assert (found != populate(small, people, seed)).nnz == 0
