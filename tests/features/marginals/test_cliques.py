"""Cliques become a junction tree: running intersections by brute force, fill-in named and refused, sizes."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest

from features.marginals.cliques import AttributeSizes, Clique, JunctionTree, filling, junction_tree, subsets
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


@pytest.mark.parametrize("seed", range(60))
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


@pytest.mark.parametrize("seed", range(20))
def test_every_attribute_is_added_in_one_stage_to_a_table_that_is_there(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    declared = [tuple(sorted(rng.choice(9, 3, replace=False).tolist())) for _ in range(6)]
    tree = junction_tree(_domain(9), declared, fill=True)
    known: list[Clique] = [()]
    for bag, stages in zip(tree.bags, tree.stages, strict=True):
        for stage in stages:
            assert any(set(stage.held) <= set(table) for table in known)
            known.append(stage.table)
        assert known[-1] == bag
    assert sorted(stage.added for stages in tree.stages for stage in stages) == list(range(9))


def test_a_cycle_is_refused_and_its_fill_in_named_with_its_cells() -> None:
    cycle = [(0, 1), (1, 2), (2, 3), (0, 3)]
    with pytest.raises(
        InputError, match=r"the pairs b with d would be added.*a x b x d \(27 cells\); b x c x d"
    ) as info:
        junction_tree(_domain(4), cycle)
    assert info.value.exit_status == 2
    assert {frozenset(bag) for bag in junction_tree(_domain(4), cycle, fill=True).bags} == {
        frozenset({0, 1, 3}),
        frozenset({1, 2, 3}),
    }


def test_a_triangle_of_pairs_lacks_no_pair_but_its_table_is_not_measured() -> None:
    with pytest.raises(InputError, match=r"no pair would be added.*a x b x c \(27 cells\)"):
        junction_tree(_domain(3), [(0, 1), (1, 2), (0, 2)])


def test_adult_cliques_are_a_tree_and_its_numbers_of_cells_are_known() -> None:
    names = [
        "age",
        "workclass",
        "fnlwgt",
        "education_num",
        "marital_status",
        "occupation",
        "relationship",
        "race",
        "sex",
    ]
    names += ["capital_gain", "capital_loss", "hours_per_week", "native_country", "income"]
    domain = AttributeSizes(tuple(names), (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2))
    declared = (
        "marital_status relationship sex income",
        "workclass occupation education_num income",
        "capital_gain capital_loss income",
        "race native_country income",
        "age marital_status",
        "hours_per_week occupation",
        "fnlwgt income",
    )
    tree = junction_tree(domain, [domain.clique(text.split()) for text in declared])
    assert sum(map(domain.size, tree.bags)) == 168 + 4320 + 20000 + 420 + 595 + 1485 + 200
    assert sorted(domain.text(separator) for separator in tree.separators) == [
        "income", "income", "income", "income", "marital_status", "occupation", "total",
    ]  # fmt: skip
    assert "occupation x hours_per_week: 1,485 cells, joined to" in tree.described()


def test_thirty_attributes_of_ten_values_are_no_more_than_their_cliques() -> None:
    domain = AttributeSizes(tuple(f"a{number}" for number in range(30)), (10,) * 30)
    tree = junction_tree(domain, [(number, number + 1, number + 2) for number in range(28)])
    assert sum(map(domain.size, tree.bags)) == 28_000


def test_a_bag_that_is_too_wide_is_refused() -> None:
    with pytest.raises(InputError, match="a x b x c has 27 cells; at most 26 are allowed"):
        junction_tree(_domain(3), [(0, 1, 2)], most_cells=26)


def test_a_tree_without_running_intersections_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="no running intersection"):
        JunctionTree(_domain(3), ((0, 1), (1, 2), (0, 2)), (-1, 0, 1))


def test_wrong_names_are_refused() -> None:
    with pytest.raises(InputError, match="found the attribute 'x'; the schema has a, b"):
        _domain(2).clique(["a", "x"])
    with pytest.raises(InputError, match="each once"):
        _domain(2).clique(["a", "a"])


def test_subsets_are_all_of_them() -> None:
    assert subsets((1, 4)) == [(), (1,), (4,), (1, 4)]
