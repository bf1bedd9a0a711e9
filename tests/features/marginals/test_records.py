"""Records reproduce every clique exactly in every leaf, know of no relation beyond cliques, and follow the seed."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from oracles.clique_population import Population, count, population

from features.marginals.cliques import AttributeSizes, junction_tree
from features.marginals.intervals import CliqueDesign
from features.marginals.records import WholeRecords, draw_records
from features.marginals.whole import Seed
from pipeline.privacy.budget import NoiseSpec


def test_records_of_a_leaf_are_the_same_whichever_leaves_are_drawn_with_it() -> None:
    people = population(1)
    leaves = [people.table(bag, 2) for bag in people.tree.bags]
    whole = draw_records(people.tree, leaves, Seed(9))
    part = draw_records(people.tree, [table[3:5] for table in leaves], Seed(9), first_leaf=3)
    here = np.isin(whole.leaf, [3, 4])
    np.testing.assert_array_equal(part.leaf + 3, whole.leaf[here])
    np.testing.assert_array_equal(part.values, whole.values[here])
    other = draw_records(people.tree, leaves, Seed(10))
    assert (other.values != whole.values).any()


def test_what_crosses_cliques_is_independent_given_the_separator_and_nearer_to_it_than_chance() -> None:
    """Expected counts of (a, e) by the model; systematic pairing is nearer to them than random pairing would be."""
    people = population(2, n=20_000)
    tree, domain = people.tree, people.tree.domain
    leaves = [people.table(bag, 2) for bag in tree.bags]
    records = draw_records(tree, leaves, Seed(3))
    # P(a, b, c, d, e) = P(a, b) P(c, d | b) P(e | d), by hand.
    ab, bcd, de = (people.table(clique, 2).astype(float) for clique in ((0, 1), (1, 2, 3), (3, 4)))
    away = chance = 0.0
    for leaf in range(6):
        of_ab, of_bcd, of_de = ab[leaf].reshape(2, 3), bcd[leaf].reshape(3, 2, 4), de[leaf].reshape(4, 3)
        d_given_b = of_bcd.sum(axis=1) / np.maximum(of_bcd.sum(axis=(1, 2)), 1)[:, None]
        e_given_d = of_de / np.maximum(of_de.sum(axis=1), 1)[:, None]
        expected = of_ab @ d_given_b @ e_given_d
        found = count(records, (0, 4), domain, np.arange(7), 7)[leaf].reshape(2, 3)
        away += float(((found - expected) ** 2).sum())
        shares = expected / expected.sum()
        chance += float((expected * (1 - shares)).sum())
    assert away < 0.5 * chance
    # Within cliques there is a relation, which the records have.
    assert any(
        (count(records, pair, domain, np.zeros(7, dtype=np.int64), 1) > 0).all() for pair in combinations(range(5), 2)
    )


# -- from measurements to records -------------------------------------------------------------------------------------


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
