"""Records reproduce every clique exactly in every leaf, know of no relation beyond cliques, and follow the seed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from oracles.clique_population import Population, count

from features.marginals.records import draw_records
from features.marginals.whole import Seed

Make = Callable[..., Population]


def test_records_of_a_leaf_are_the_same_whichever_leaves_are_drawn_with_it(population: Make) -> None:
    people = population(1)
    leaves = [people.table(bag, 2) for bag in people.tree.bags]
    whole = draw_records(people.tree, leaves, Seed(9))
    part = draw_records(people.tree, [table[3:5] for table in leaves], Seed(9), first_leaf=3)
    here = np.isin(whole.leaf, [3, 4])
    np.testing.assert_array_equal(part.leaf + 3, whole.leaf[here])
    np.testing.assert_array_equal(part.values, whole.values[here])
    other = draw_records(people.tree, leaves, Seed(10))
    assert (other.values != whole.values).any()


def test_what_crosses_cliques_is_independent_given_the_separator_and_nearer_to_it_than_chance(population: Make) -> None:
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


def test_tables_that_do_not_agree_are_refused(population: Make) -> None:
    people = population(1)
    leaves = [people.table(bag, 2) for bag in people.tree.bags]
    assert people.tree.bags[1] == (0, 1)
    leaves[1] = leaves[1].copy()
    at = int(np.argmax(leaves[1][0]))
    leaves[1][0, at] -= 1
    leaves[1][0, at + (1 if at % 3 < 2 else -1)] += 1  # another value of b
    with pytest.raises(ValueError, match="do not agree on their separator"):
        draw_records(people.tree, leaves, Seed(1))
