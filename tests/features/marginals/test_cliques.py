"""Cliques become a junction tree, by brute force; fill-in is named and refused; guesses across cliques."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations, product

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles.clique_population import Population, population

from features.marginals.cliques import AttributeSizes, Clique, JunctionTree, filling, guess, junction_tree
from geography.errors import InputError


def _domain(n: int, size: int = 3) -> AttributeSizes:
    return AttributeSizes(tuple("abcdefghijklmnopqrstuvwxyz"[:n]), (size,) * n)


def _has_running_intersection(bags: tuple[Clique, ...]) -> bool:
    """Whether some order of the bags has it, by trying all orders."""
    for order in permutations(bags):
        if all(
            any(set().union(*order[:number]) & set(order[number]) <= set(before) for before in order[:number])
            for number in range(1, len(order))
        ):
            return True
    return False


def _is_chordal(n: int, edges: set[Clique]) -> bool:
    """Whether attributes can be taken away one by one, the neighbours of each joined already."""
    left = set(range(n))
    while left:
        for a in left:
            near = [b for b in left if tuple(sorted((a, b))) in edges]
            if all(tuple(sorted(pair)) in edges for pair in combinations(near, 2)):
                left.remove(a)
                break
        else:
            return False
    return True


@pytest.mark.parametrize("seed", range(40))
def test_cliques_are_taken_as_they_are_exactly_if_some_order_has_running_intersections(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 7))
    drawn = {tuple(sorted(rng.choice(n, int(rng.integers(2, 4)), replace=False).tolist())) for _ in range(5)}
    declared = tuple(one for one in drawn if not any(set(one) < set(other) for other in drawn))
    alone = tuple((a,) for a in range(n) if not any(a in clique for clique in declared))
    lacking = filling(_domain(n), declared)
    assert (not lacking.wider) == _has_running_intersection((*declared, *alone))
    # With what is filled in, all is well: every clique is in a bag, and the graph of the bags is chordal.
    tree = junction_tree(_domain(n), declared, fill=True)
    assert all(tree.bag_of(clique) is not None for clique in declared)
    pairs: set[Clique] = {pair for bag in tree.bags for pair in combinations(bag, 2)}
    assert _is_chordal(n, pairs)
    assert pairs == {pair for clique in declared for pair in combinations(clique, 2)} | set(lacking.pairs)
    assert _has_running_intersection(tree.bags)
    # Every attribute is added in one stage, to a table that is there.
    known: list[Clique] = [()]
    for bag, stages in zip(tree.bags, tree.stages, strict=True):
        for stage in stages:
            assert any(set(stage.held) <= set(table) for table in known)
            known.append(stage.table)
        assert known[-1] == bag
    assert sorted(stage.added for stages in tree.stages for stage in stages) == list(range(n))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda: junction_tree(_domain(4), [(0, 1), (1, 2), (2, 3), (0, 3)]),
            r"the pairs b with d would be added.*a x b x d \(27 cells\); b x c x d",
        ),
        (
            lambda: junction_tree(_domain(3), [(0, 1), (1, 2), (0, 2)]),
            r"no pair would be added.*a x b x c \(27 cells\)",
        ),
        (lambda: junction_tree(_domain(3), [(0, 1, 2)], most_cells=26), "has 27 cells; at most 26 are allowed"),
        (lambda: _domain(2).clique(["a", "x"]), "found the attribute 'x'; the schema has a, b"),
        (lambda: _domain(2).clique(["a", "a"]), "each once"),
        (lambda: JunctionTree(_domain(3), ((0, 1), (1, 2), (0, 2)), (-1, 0, 1)), "no running intersection"),
    ],
)
def test_what_is_no_tree_or_too_wide_is_refused(make: Callable[[], object], told: str) -> None:
    with pytest.raises((InputError, ValueError), match=told):
        make()


# -- numbers that cross cliques ---------------------------------------------------------------------------------------


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
def test_guesses_are_the_models_expectation(attributes: Clique, cliques: tuple[Clique, ...]) -> None:
    people = population(1, cliques)
    found = guess(people.tree, [people.table(bag, 2) for bag in people.tree.bags], attributes)
    np.testing.assert_allclose(found, _by_enumeration(people, attributes), atol=1e-9)


def test_a_guess_that_would_take_a_large_table_is_refused() -> None:
    tree = junction_tree(AttributeSizes(tuple("abcdef"), (10,) * 6), [(number, number + 1) for number in range(5)])
    tables = [np.ones((1, 100), dtype=np.int64) for _ in tree.bags]
    guess(tree, tables, (0, 5), most_cells=10_000)
    with pytest.raises(InputError, match=r"a guess would go through a table of 1,000 cells; at most 999 are allowed"):
        guess(tree, tables, (0, 5), most_cells=999)
