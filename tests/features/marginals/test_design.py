"""From measurements to records: of nobody, of thirty attributes, and whatever is worked on together."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from oracles.clique_population import Population, count

from features.marginals.cliques import AttributeSizes, junction_tree
from features.marginals.intervals import CliqueDesign
from features.marginals.records import WholeRecords, draw_records
from features.marginals.whole import Seed
from pipeline.privacy.budget import NoiseSpec

Make = Callable[..., Population]


def _design(people: Population, variance: int = 9) -> CliqueDesign:
    noise = dict.fromkeys(people.tree.bags, NoiseSpec("discrete_gaussian", Fraction(variance)))
    return CliqueDesign(people.tree, people.parents, [noise] * len(people.sizes))


@pytest.mark.parametrize("seen", [-5, 0])
def test_a_population_of_nobody_is_released_as_nobody(seen: int) -> None:
    """With an attribute of one value, and an area with one child."""
    tree = junction_tree(AttributeSizes(tuple("abc"), (1, 3, 2)), [(0, 1), (1, 2)])
    parents = (np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64))
    people = Population(
        tree, WholeRecords(np.empty(0, dtype=np.int64), np.empty((0, 3), dtype=np.int64)), parents, (1, 1, 2)
    )
    design = _design(people)
    measured = [{bag: np.full((n, tree.domain.size(bag)), seen) for bag in tree.bags} for n in design.sizes]
    release = design.release(measured, Seed(1))
    assert not any(table.any() for level in release.whole for table in level)
    assert len(draw_records(tree, release.whole[-1], Seed(1)).leaf) == 0


def test_thirty_attributes_of_ten_values_go_from_measurements_to_records() -> None:
    """10^30 combinations: nothing here may have an axis for all of them."""
    rng = np.random.default_rng(1)
    domain = AttributeSizes(tuple(f"a{number}" for number in range(30)), (10,) * 30)
    tree = junction_tree(domain, [(number, number + 1) for number in range(29)])
    values = rng.integers(0, 10, (2000, 30))
    for a in range(1, 30):
        values[:, a] = np.where(rng.random(2000) < 0.8, values[:, a - 1], values[:, a])
    people = Population(
        tree, WholeRecords(np.sort(rng.integers(0, 4, 2000)), values), (np.zeros(4, dtype=np.int64),), (1, 4)
    )
    noise = dict.fromkeys(tree.bags, NoiseSpec("discrete_gaussian", Fraction(4)))
    measured = [
        {bag: people.table(bag, level) + rng.integers(-3, 4, (n, 100)) for bag in tree.bags}
        for level, n in ((0, 1), (1, 4))
    ]
    release = CliqueDesign(tree, people.parents, [noise, noise]).release(measured, Seed(2))
    records = draw_records(tree, release.whole[-1], Seed(2))
    for bag, table in zip(tree.bags, release.whole[-1], strict=True):
        np.testing.assert_array_equal(count(records, bag, domain, np.arange(4), 4), table)
        assert 0.5 * np.abs(table - people.table(bag, 1)).sum() / 2000 < 0.25
