"""Choice of pairs: sensitivity by enumeration of neighbours, exact cost, distribution, trees and what goes beyond."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest

from auditor.cliques import CliqueChoice
from features.marginals.choice import Pairs, candidates, largest_epsilon, score, scores_of, tables_of, unlike_a_choice
from features.marginals.cliques import AttributeSizes, Clique, filling, homes
from features.marginals.confidential import choose
from pipeline.errors import InputError
from pipeline.privacy.budget import Neighbours
from postprocess.arrays import IntArray

DOMAIN = AttributeSizes(("a", "b", "c"), (2, 2, 3))


def _table(records: tuple[tuple[int, ...], ...], pair: Clique) -> IntArray:
    cells = [record[pair[0]] * DOMAIN.sizes[pair[1]] + record[pair[1]] for record in records]
    return np.bincount(np.array(cells, dtype=np.int64), minlength=DOMAIN.size(pair))


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
def test_no_record_moves_a_score_further_than_the_sensitivity_and_some_record_moves_one_as_far(
    neighbours: Neighbours,
) -> None:
    """All data sets of up to two records, all their neighbours, all pairs; public tables of several kinds."""
    pairs = Pairs(DOMAIN, penalty=Fraction(1, 3), weights={(0, 2): 3})
    everybody = tuple(product(*map(range, DOMAIN.sizes)))
    others = everybody if neighbours == "change-one" else (None,)
    widest = 0
    for ones in (
        [np.array([2, 1]), np.array([0, 3]), np.array([1, 1, 1])],
        [np.array([-4, 9]), np.array([1, 1]), np.array([0, 0, 5])],
    ):
        expected = {pair: pairs.expected(ones, pair) for pair in pairs.possible}
        for n in range(2):
            for records in product(everybody, repeat=n):
                for one, other in product(everybody, others):
                    first, second = (*records, one), records if other is None else (*records, other)
                    for pair in pairs.possible:
                        moved = score(pairs, pair, _table(first, pair), expected[pair])
                        moved -= score(pairs, pair, _table(second, pair), expected[pair])
                        widest = max(widest, abs(moved))
    assert widest == pairs.sensitivity(neighbours) == (6 if neighbours == "change-one" else 3)


@pytest.mark.parametrize("rho", [Fraction(1, 10), Fraction(3, 7), Fraction(2), Fraction(1, 10**9)])
def test_a_choice_costs_no_more_than_its_part_and_hardly_less(rho: Fraction) -> None:
    epsilon = largest_epsilon(rho)
    assert epsilon**2 / 8 <= rho < (epsilon + Fraction(1, 1 << 20)) ** 2 / 8
    with pytest.raises(InputError, match="for one private choice"):
        largest_epsilon(Fraction(1, 10**30))


def _records(seed: int, n: int = 3000) -> tuple[AttributeSizes, IntArray]:
    """b follows a, c follows b, d follows a, e is alone."""
    rng = np.random.default_rng(seed)
    domain = AttributeSizes(tuple("abcde"), (4, 4, 3, 5, 2))
    values = np.zeros((n, 5), dtype=np.int64)
    values[:, 0] = rng.integers(0, 4, n)
    values[:, 1] = np.where(rng.random(n) < 0.8, values[:, 0], rng.integers(0, 4, n))
    values[:, 2] = np.where(rng.random(n) < 0.7, values[:, 1] % 3, rng.integers(0, 3, n))
    values[:, 3] = np.where(rng.random(n) < 0.7, values[:, 0], rng.integers(0, 5, n))
    values[:, 4] = rng.integers(0, 2, n)
    return domain, values


def _ones(domain: AttributeSizes, values: IntArray) -> list[IntArray]:
    return [np.bincount(values[:, a], minlength=size) for a, size in enumerate(domain.sizes)]


def _best_tree(pairs: Pairs, scores: dict[Clique, int]) -> int:
    """The largest sum of scores of all spanning trees, by going through all sets of edges."""
    n = len(pairs.domain.names)
    best = -math.inf
    for edges in combinations(pairs.possible, n - 1):
        reached = {0}
        for _ in edges:
            reached |= {a for edge in edges if set(edge) & reached for a in edge}
        if len(reached) == n:
            best = max(best, sum(scores[edge] for edge in edges))
    return int(best)


def test_a_private_choice_is_a_tree_its_cost_is_exact_and_much_budget_finds_the_best() -> None:
    domain, values = _records(2)
    pairs = Pairs(domain)
    ones = _ones(domain, values)
    rho = Fraction(7, 3)
    found = choose(pairs, values, ones, rho, "change-one", bytes(32))
    assert len(found.pairs) == 4
    assert not candidates(pairs, found.pairs)
    assert found.rho == 4 * largest_epsilon(rho / 4) ** 2 / 8 <= rho
    assert set(found.pairs[:3]) == {(0, 1), (1, 2), (0, 3)}
    assert choose(pairs, values, ones, rho, "change-one", bytes(32)) == found
    scores = scores_of(pairs, tables_of(pairs, values), ones)
    much = choose(pairs, values, ones, Fraction(10**6), "change-one", bytes(32))
    assert sum(scores[pair] for pair in much.pairs) == _best_tree(pairs, scores)
    # Where further ones no longer fit, they cost what they were to cost.
    tight = Pairs(domain, further=3, all_cells=60)
    few = choose(tight, values, ones, rho, "change-one", bytes(32))
    assert len(few.pairs) < tight.rounds == 7
    assert few.rho == 7 * largest_epsilon(rho / 7) ** 2 / 8


def test_private_choices_have_the_probabilities_of_the_mechanism() -> None:
    """The first choice, many times, beside exp(epsilon score / (2 sensitivity)); with the scale doubled it fails."""
    domain, values = _records(3, n=12)
    pairs = Pairs(domain, weights={(0, 1): 2})
    ones = _ones(domain, values)
    rho = Fraction(2)
    epsilon, sensitivity = float(largest_epsilon(rho / 4)), pairs.sensitivity("change-one")
    of_pairs = scores_of(pairs, tables_of(pairs, values), ones)
    scores = np.array([of_pairs[pair] for pair in pairs.possible])
    n = 1500
    keys = (number.to_bytes(32, "big") for number in range(n))
    first = [choose(pairs, values, ones, rho, "change-one", key).pairs[0] for key in keys]
    seen = np.array([first.count(pair) for pair in pairs.possible])

    def chi_square(scale: float) -> float:
        weights = np.exp(scale * (scores - scores.max()))
        expected = n * weights / weights.sum()
        return float(((seen - expected) ** 2 / expected).sum())

    right = epsilon / (2 * sensitivity)
    assert chi_square(right) < 30  # 9 degrees of freedom: beyond it one time in 2,000
    assert chi_square(2 * right) > 50


# -- beyond a tree ----------------------------------------------------------------------------------------------------


def _second(pairs: Pairs) -> CliqueChoice:
    """The same in the second program, as far as pairs go."""
    sizes, nothing = pairs.domain.sizes, Fraction(1)
    return CliqueChoice(
        tuple((name, ("0",) * size) for name, size in zip(pairs.domain.names, sizes, strict=True)),
        *((), {}, True, "change-one", 1, 2, nothing, nothing, nothing, "top", nothing, {}),
        further=pairs.further,
        all_cells=pairs.all_cells,
        most_cells=pairs.most_cells,
    )


@pytest.mark.parametrize("seed", range(4))
def test_further_pairs_are_those_with_which_all_tables_together_are_small_enough(seed: int) -> None:
    """Beside the second program, whose triangulation is its own; every pair that is left out breaks a stated rule."""
    rng = np.random.default_rng(seed)
    sizes = tuple(map(int, rng.integers(2, 9, 7)))
    pairs = Pairs(AttributeSizes(tuple("abcdefg"), sizes), most_cells=40, further=6, all_cells=500)
    second, chosen, left_out = _second(pairs), list[Clique](), 0
    assert pairs.rounds == second.rounds
    while left := candidates(pairs, chosen):
        assert left == second.open_pairs([(one, other) for one, other in chosen])
        if not pairs.joining(chosen):
            for pair in set(pairs.possible) - set(chosen):
                bags = filling(pairs.domain, [*chosen, pair]).bags
                fits = sum(map(pairs.domain.size, bags)) <= 500 and homes(bags, pairs.cliques([*chosen, pair]))
                assert bool(fits) == (pair in left)
                left_out += not fits
        chosen.append(left[int(rng.integers(len(left)))])
    assert len(chosen) <= pairs.rounds
    assert left_out > 0
    assert second.open_pairs([(one, other) for one, other in chosen]) == []


def test_each_bag_gets_a_clique_of_its_own_where_there_is_a_way() -> None:
    """All choices of homes are gone through, of random cliques in random bags."""
    rng = np.random.default_rng(5)
    ways = [0, 0, 0]
    for _ in range(300):
        bags = list(dict.fromkeys(tuple(sorted(rng.choice(5, 3, replace=False).tolist())) for _ in range(3)))
        inside = [pair for pair in combinations(range(5), 2) if any(set(pair) <= set(bag) for bag in bags)]
        cliques = [pair for pair in inside if rng.random() < 0.5]
        within = [[n for n, bag in enumerate(bags) if set(pair) <= set(bag)] for pair in cliques]
        first = {pair: numbers[0] for pair, numbers in zip(cliques, within, strict=True)}
        possible = any(len(set(choice)) == len(bags) for choice in product(*within))
        found = homes(bags, cliques)
        assert (found is not None) == possible
        if found is not None:
            assert set(found.values()) == set(range(len(bags)))
            assert all(set(pair) <= set(bags[number]) for pair, number in found.items())
        ways[0 if found is None else 1 if found == first else 2] += 1
        assert len(set(first.values())) < len(bags) or found == first
    assert min(ways) > 10


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
def test_the_loss_of_a_further_choice_is_within_its_epsilon_whatever_was_chosen_before(neighbours: Neighbours) -> None:
    """All data sets of up to two records and all neighbours, after each of all trees; half of the sensitivity fails."""
    domain = AttributeSizes(("a", "b", "c", "d"), (2, 2, 2, 2))
    pairs = Pairs(domain, Fraction(1, 3), {(0, 1): 2}, further=2, all_cells=16)
    ones = [np.array([3, 1]), np.array([0, 2]), np.array([1, 1]), np.array([2, 0])]
    cells = list(product(range(2), repeat=4))
    trees = [tree for tree in combinations(pairs.possible, 3) if not pairs.joining(tree)]
    assert len(trees) == 16
    left = [np.array([pairs.possible.index(pair) for pair in candidates(pairs, tree)]) for tree in trees]
    assert all(len(open_) > 1 for open_ in left)
    sets = [rows for n in range(3) for rows in combinations_with_replacement(range(16), n)]
    scores = {}
    for rows in sets:
        values = np.array([cells[row] for row in rows], dtype=np.int64).reshape(-1, 4)
        found = scores_of(pairs, tables_of(pairs, values), ones)
        scores[rows] = np.array([found[pair] for pair in pairs.possible])
    neighbouring = [
        (rows, tuple(sorted((*rows[:n], *rows[n + 1 :], *other))))
        for rows in sets
        for n in range(len(rows))
        for other in ([(cell,) for cell in range(16)] if neighbours == "change-one" else [()])
    ]
    one, two = (np.array([scores[sides[side]] for sides in neighbouring]) for side in range(2))
    epsilon, widest = Fraction(3, 2), 0.0
    for open_ in left:
        logs = [float(epsilon) * table[:, open_] / 2 / pairs.sensitivity(neighbours) for table in (one, two)]
        loss = np.subtract(*(log - np.log(np.exp(log).sum(axis=1, keepdims=True)) for log in logs))
        widest = max(widest, float(np.ptp(loss, axis=1).max()), float(np.abs(loss).max()))
    assert widest <= epsilon * (1 + 1e-12)
    assert 2 * widest > epsilon


def test_what_is_no_outcome_of_a_choice_is_told_from_what_is_one() -> None:
    """Pairs in any order, against the pairs that could be next at each of them."""
    rng = np.random.default_rng(5)
    found = Counter[bool]()
    for trial in range(300):
        sizes = tuple(int(size) for size in rng.integers(2, 5, 5))
        pairs = Pairs(
            AttributeSizes(tuple("abcde"), sizes), most_cells=12, further=2, all_cells=int(rng.integers(30, 90))
        )
        drawn: list[Clique] = []
        while left := candidates(pairs, drawn):
            drawn.append(left[int(rng.integers(len(left)))])
        assert unlike_a_choice(pairs, drawn) == ""
        order = [drawn[n] for n in rng.permutation(len(drawn))][: len(drawn) - trial % 2]
        if trial % 3 == 0 and order:
            order[-1] = list(combinations(range(5), 2))[int(rng.integers(10))]
        is_one = all(pair in candidates(pairs, order[:n]) for n, pair in enumerate(order))
        is_one &= len(order) == pairs.rounds or not candidates(pairs, order)
        assert (unlike_a_choice(pairs, order) == "") == is_one
        found[is_one] += 1
    assert min(found.values()) > 30
