"""Numbers that cross cliques: the model's expectation by enumeration of all records, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles.clique_population import Population

from features.marginals.cliques import AttributeSizes, Clique, guess, junction_tree, needed
from geography.errors import InputError

Make = Callable[..., Population]


def _by_enumeration(people: Population, attributes: Clique) -> NDArray[np.float64]:
    """The product of the cliques' tables over those of their separators, for each of all records."""
    tree, domain = people.tree, people.tree.domain
    tables = {bag: people.table(bag, 2) for bag in tree.bags}
    separators = {separator: people.table(separator, 2) for separator in tree.separators[1:]}
    out = np.zeros((7, domain.size(attributes)))

    def cell(record: tuple[int, ...], clique: Clique) -> int:
        return int(np.ravel_multi_index([record[a] for a in clique], domain.shape(clique))) if clique else 0

    for record in product(*map(range, domain.sizes)):
        expected = np.ones(7)
        for bag in tree.bags:
            expected *= tables[bag][:, cell(record, bag)]
        for separator in tree.separators[1:]:
            below = separators[separator][:, cell(record, separator)]
            expected = np.where(below > 0, expected / np.maximum(below, 1), 0.0)
        out[:, cell(record, attributes)] += expected
    return out


@pytest.mark.parametrize("attributes", [(0, 4), (0, 2, 4), (1, 4), (0,), (), (0, 3, 4), (0, 1), (2, 4)])
@pytest.mark.parametrize("cliques", [((0, 1), (1, 2, 3), (3, 4)), ((0, 1), (2, 3), (3, 4)), ((0, 2), (1, 2), (2, 3))])
def test_guesses_are_the_models_expectation(attributes: Clique, cliques: tuple[Clique, ...], population: Make) -> None:
    people = population(1, cliques)
    found = guess(people.tree, [people.table(bag, 2) for bag in people.tree.bags], attributes)
    np.testing.assert_allclose(found, _by_enumeration(people, attributes), atol=1e-9)


def test_what_would_be_needed_is_named_with_its_cells(population: Make) -> None:
    people = population(1)
    assert needed(people.tree, (1, 3)) is None
    crossing = needed(people.tree, (0, 4))
    assert crossing is not None
    assert crossing.clique == (0, 4)
    assert "a x e (6 cells) would be needed" in crossing.text
    # Together with the others it closes a cycle: what comes with it is named as well.
    assert crossing.wider
    assert all(people.tree.domain.text(one) in crossing.text for one in crossing.wider)


def test_a_guess_that_would_take_a_large_table_is_refused() -> None:
    tree = junction_tree(AttributeSizes(tuple("abcdef"), (10,) * 6), [(number, number + 1) for number in range(5)])
    tables = [np.ones((1, 100), dtype=np.int64) for _ in tree.bags]
    guess(tree, tables, (0, 5), most_cells=10_000)
    with pytest.raises(InputError, match=r"a guess would go through a table of 1,000 cells; at most 999 are allowed"):
        guess(tree, tables, (0, 5), most_cells=999)
