"""Choice of pairs: sensitivity by enumeration of neighbours, exact cost, distribution, and the tree of a sample."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from features.marginals.choice import Pairs, candidates, from_sample, largest_epsilon, score
from features.marginals.confidential import choose
from features.marginals.domain import Clique, Domain
from geography.errors import InputError
from pipeline.privacy.budget import Neighbours
from postprocess.arrays import IntArray

DOMAIN = Domain(("a", "b", "c"), (2, 2, 3))


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


def test_a_budget_that_is_too_small_for_a_choice_is_refused() -> None:
    with pytest.raises(InputError, match="for one private choice"):
        largest_epsilon(Fraction(1, 10**30))


def _records(seed: int, n: int = 3000) -> tuple[Domain, IntArray]:
    """b follows a, c follows b, d follows a, e is alone."""
    rng = np.random.default_rng(seed)
    domain = Domain(tuple("abcde"), (4, 4, 3, 5, 2))
    values = np.zeros((n, 5), dtype=np.int64)
    values[:, 0] = rng.integers(0, 4, n)
    values[:, 1] = np.where(rng.random(n) < 0.8, values[:, 0], rng.integers(0, 4, n))
    values[:, 2] = np.where(rng.random(n) < 0.7, values[:, 1] % 3, rng.integers(0, 3, n))
    values[:, 3] = np.where(rng.random(n) < 0.7, values[:, 0], rng.integers(0, 5, n))
    values[:, 4] = rng.integers(0, 2, n)
    return domain, values


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


def test_the_tree_of_a_sample_is_the_best_of_all_trees() -> None:
    domain, values = _records(1)
    pairs = Pairs(domain)
    ones = [np.bincount(values[:, a], minlength=size) for a, size in enumerate(domain.sizes)]
    scores = {}
    for pair in pairs.possible:
        cell = values[:, pair[0]] * domain.sizes[pair[1]] + values[:, pair[1]]
        table = np.bincount(cell, minlength=domain.size(pair))
        scores[pair] = score(pairs, pair, table, pairs.expected(ones, pair))
    chosen = from_sample(pairs, values, len(values))
    assert sum(scores[pair] for pair in chosen) == _best_tree(pairs, scores)
    assert set(chosen[:3]) == {(0, 1), (1, 2), (0, 3)}
    # With what noise would add, an attribute that hangs with no other is in no pair.
    assert set(from_sample(Pairs(domain, penalty=Fraction(40)), values, len(values))) == {(0, 1), (1, 2), (0, 3)}


def test_a_private_choice_is_a_tree_its_cost_is_exact_and_much_budget_finds_the_best() -> None:
    domain, values = _records(2)
    pairs = Pairs(domain)
    ones = [np.bincount(values[:, a], minlength=size) for a, size in enumerate(domain.sizes)]
    rho = Fraction(7, 3)
    found = choose(pairs, values, ones, rho, "change-one", bytes(32))
    assert len(found.pairs) == 4
    assert not candidates(pairs, found.pairs)
    assert found.rho == 4 * largest_epsilon(rho / 4) ** 2 / 8 <= rho
    assert set(found.pairs[:3]) == {(0, 1), (1, 2), (0, 3)}
    assert choose(pairs, values, ones, rho, "change-one", bytes(32)) == found


def test_private_choices_have_the_probabilities_of_the_mechanism() -> None:
    """The first choice, many times, beside exp(epsilon score / (2 sensitivity)); with the scale doubled it fails."""
    domain, values = _records(3, n=12)
    pairs = Pairs(domain, weights={(0, 1): 2})
    ones = [np.bincount(values[:, a], minlength=size) for a, size in enumerate(domain.sizes)]
    rho = Fraction(2)
    epsilon, sensitivity = float(largest_epsilon(rho / 4)), pairs.sensitivity("change-one")
    scores = []
    for pair in pairs.possible:
        cell = values[:, pair[0]] * domain.sizes[pair[1]] + values[:, pair[1]]
        table = np.bincount(cell, minlength=domain.size(pair))
        scores.append(score(pairs, pair, table, pairs.expected(ones, pair)))
    n = 1500
    keys = (number.to_bytes(32, "big") for number in range(n))
    first = [choose(pairs, values, ones, rho, "change-one", key).pairs[0] for key in keys]
    seen = np.array([first.count(pair) for pair in pairs.possible])

    def chi_square(scale: float) -> float:
        weights = np.exp(scale * (np.array(scores) - max(scores)))
        expected = n * weights / weights.sum()
        return float(((seen - expected) ** 2 / expected).sum())

    right = epsilon / (2 * sensitivity)
    assert chi_square(right) < 30  # 9 degrees of freedom: beyond it one time in 2,000
    assert chi_square(2 * right) > 50


def test_weights_are_whole_and_large_tables_are_not_chosen() -> None:
    with pytest.raises(InputError, match=r"found the weight 0 of a x b; whole numbers from 1 are allowed"):
        Pairs(DOMAIN, weights={(0, 1): 0})
    assert Pairs(DOMAIN, most_cells=5).possible == ((0, 1),)
