"""Whole numbers of all cliques in all areas: they add up, agree, keep what is known, and are there in every case."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray
from oracles.clique_population import Population, count, measured, population

from features.marginals import whole
from features.marginals.cliques import AttributeSizes, Clique, JunctionTree, junction_tree, marginal
from features.marginals.linear import NoisyTable, upward
from features.marginals.records import WholeRecords, draw_records
from features.marginals.whole import ExactTable, First, Seed, whole_numbers
from features.marginals.zeros import possible_cells
from geography.errors import InputError
from postprocess.arrays import IntArray

#: Three pairs of three attributes: together they are no tree.
RING: tuple[Clique, ...] = ((0, 1), (1, 2), (0, 2))


def _released(people: Population, levels: list[list[NoisyTable]], **known: object) -> list[list[IntArray]]:
    up = upward(levels, people.parents, people.tree.domain, people.sizes)
    return whole_numbers(people.tree, up, people.parents, Seed(5), **known)  # type: ignore[arg-type]


def _check(people: Population, released: list[list[IntArray]]) -> None:
    """Nothing is negative, areas add up in every clique, neighbouring cliques agree on separators in every area."""
    tree = people.tree
    for number, bag in enumerate(tree.bags):
        for level, n in enumerate(people.sizes):
            assert released[level][number].shape == (n, tree.domain.size(bag))
            assert released[level][number].min() >= 0
        for level, parent in enumerate(people.parents):
            sums = np.zeros_like(released[level][number])
            np.add.at(sums, parent, released[level + 1][number])
            np.testing.assert_array_equal(sums, released[level][number])
    for tables in released:
        for one, bag in zip(tables, tree.bags, strict=True):
            for other, neighbour in zip(tables, tree.bags, strict=True):
                shared = tuple(sorted(set(bag) & set(neighbour)))
                np.testing.assert_array_equal(
                    marginal(one, bag, shared, tree.domain), marginal(other, neighbour, shared, tree.domain)
                )


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_whatever_the_noise_areas_add_up_cliques_agree_and_records_have_all_of_it(seed: int, alike: bool) -> None:
    """Also where cliques had to be filled in, and where an attribute is exact."""
    people = population(seed, first=(3,) if seed == 3 else ())
    cliques: list[Clique] | None = None
    if seed == 4:
        cliques = [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)]
        people = replace(people, tree=junction_tree(people.tree.domain, cliques, fill=True))
    levels = measured(people, seed, (0.3, 4.0, 200.0)[seed % 3], cliques)
    exact = [people.table((3,), level) for level in range(3)] if seed == 3 else []
    for here, numbers in zip(levels, exact, strict=False):
        here.append(NoisyTable((3,), numbers, np.zeros(len(numbers))))
    known = {"first": First([ExactTable((3,), one) for one in exact])} if exact else {}
    released = _released(people, levels, alike=alike, **known)
    _check(people, released)
    for tables, numbers in zip(released, exact, strict=False):
        for bag, found in zip(people.tree.bags, tables, strict=True):
            if 3 in bag:
                np.testing.assert_array_equal(marginal(found, bag, (3,), people.tree.domain), numbers)
    records = draw_records(people.tree, released[-1], Seed(seed))
    assert records.values.min() >= 0
    assert (np.diff(records.leaf) >= 0).all()
    for bag, table in zip(people.tree.bags, released[-1], strict=True):
        np.testing.assert_array_equal(count(records, bag, people.tree.domain, np.arange(7), 7), table)


def _ring(values: NDArray[np.int64], leaf: NDArray[np.int64], parents: tuple[IntArray, ...]) -> Population:
    """Three attributes of 4, 3 and 5 values, whose three pairs are measured and whose table is filled in."""
    domain = AttributeSizes(("a", "b", "c"), (4, 3, 5))
    tree = junction_tree(domain, RING, fill=True)
    assert tree.bags == ((0, 1, 2),)
    return Population(tree, WholeRecords(leaf, values), parents, (1, *map(len, parents)))


def _dependent(n: int, seed: int) -> NDArray[np.int64]:
    """Each attribute depends on the two others' sum, so that no two of the pairs say it all."""
    rng = np.random.default_rng(seed)
    weights = rng.gamma(1.0, 1.0, (4, 3)).ravel()[:, None, None] * rng.gamma(0.5, 1.0, (12, 5, 1))
    cell = rng.choice(60, n, p=(weights / weights.sum()).ravel())
    return np.stack(np.unravel_index(cell, (4, 3, 5)), axis=1).astype(np.int64)


def _off_maximum_entropy(seed: int) -> float:
    """How many of 100,000 persons are elsewhere than where the maximum of entropy has them, by a general solver."""
    values = _dependent(100_000, seed)
    people = _ring(values, np.zeros(len(values), dtype=np.int64), ())
    exact = [NoisyTable(pair, people.table(pair, 0), np.full(1, 1e-9)) for pair in RING]
    ((found,),) = _released(people, [exact])
    x = cp.Variable(60)
    sums = []
    for pair in RING:
        spread = np.eye(60)[:, None].reshape(60, 4, 3, 5).sum(axis=tuple(1 + a for a in range(3) if a not in pair))
        sums.append(spread.reshape(60, -1).T @ x == people.table(pair, 0)[0] / len(values))
    cp.Problem(cp.Maximize(cp.sum(cp.entr(x))), sums).solve(solver=cp.CLARABEL)
    return 0.5 * float(np.abs(found[0] - len(values) * np.asarray(x.value)).sum())


@pytest.mark.parametrize("seed", range(3))
def test_what_is_filled_in_has_the_most_entropy_that_the_measured_tables_in_it_allow(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _off_maximum_entropy(seed) < 100
    monkeypatch.setattr(whole, "FITTED", 0)
    assert _off_maximum_entropy(seed) > 1000


def test_a_stage_is_the_nearest_to_the_estimate_by_another_solver() -> None:
    """One clique of one attribute in two leaves: the least-squares problem of the children, by cvxpy."""
    domain = AttributeSizes(("a",), (5,))
    tree = junction_tree(domain, [(0,)])
    rng = np.random.default_rng(0)
    values = rng.normal(3, 6, (3, 5))
    top = NoisyTable((0,), np.array([[9.0, 5, 0, 3, 4]]), np.array([1e-9]))
    leaves = NoisyTable((0,), values, np.full(3, 1.0))
    parents = [np.zeros(3, dtype=np.int64)]
    totals = [np.array([[21]]), np.array([[4], [10], [7]])]
    exact = [NoisyTable((), total, np.zeros(len(total))) for total in totals]
    up = upward([[top, exact[0]], [leaves, exact[1]]], parents, domain, (1, 3))
    released = whole_numbers(tree, up, parents, Seed(1), First([ExactTable((), one) for one in totals]), alike=False)
    x = cp.Variable((3, 5), nonneg=True)
    limits = [cp.sum(x, axis=0) == released[0][0][0], cp.sum(x, axis=1) == totals[1][:, 0]]
    cp.Problem(cp.Minimize(cp.sum_squares(x - values)), limits).solve(solver="CLARABEL")
    assert np.abs(released[1][0] - x.value).max() < 1 + 1e-4
    np.testing.assert_array_equal(released[1][0].sum(axis=1), totals[1][:, 0])


def test_exact_numbers_that_do_not_add_up_are_refused() -> None:
    people = population(7, first=(3,))
    exact = [people.table((3,), level) for level in range(3)]
    exact[2] = exact[2].copy()
    exact[2][4, 1] += 1
    with pytest.raises(InputError, match=r"exact numbers of d, area 1 of level 1: found \d+ in cell 1, and \d+ in its"):
        _released(people, measured(people, 7, 4.0), first=First([ExactTable((3,), one) for one in exact]))
    of_top, _, of_leaves = (ExactTable((3,), people.table((3,), level)) for level in range(3))
    with pytest.raises(InputError, match="of level 2 are exact at level 1, too"):
        _released(people, measured(people, 7, 4.0), first=First([of_top, None, of_leaves]))
    exact[2][4, 1] -= 1 + exact[2][4, 1]
    with pytest.raises(InputError, match="found -1 in cell 1; they are not negative"):
        _released(people, measured(people, 7, 4.0), first=First([ExactTable((3,), one) for one in exact]))


def _possible_by_area(people: Population) -> list[NDArray[np.bool_]]:
    """The attribute d is what divides the leaves, with one value in two of them."""
    leaves = np.array(
        [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]]
    )
    out = [leaves.astype(bool)]
    for parent in reversed(people.parents):
        above = np.zeros((int(parent.max()) + 1, 4), dtype=bool)
        np.logical_or.at(above, parent, out[0])
        out.insert(0, above)
    return out


def test_cells_that_are_impossible_in_an_area_are_empty_there() -> None:
    people = population(8, first=(3,))
    possible = _possible_by_area(people)
    released = _released(people, measured(people, 8, 25.0), first=First(possible=possible))
    _check(people, released)
    for tables, can in zip(released, possible, strict=True):
        for bag, found in zip(people.tree.bags, tables, strict=True):
            if 3 in bag:
                assert not marginal(found, bag, (3,), people.tree.domain)[~can].any()
    assert not possible[2].all()
    wrong = [possible[0], possible[1], np.zeros_like(possible[2])]
    with pytest.raises(InputError, match="zeros of d, area 0 of level 1: cell 0 is possible there and in none of its"):
        _released(people, measured(people, 8, 25.0), first=First(possible=wrong))


def _by_enumeration(tree: JunctionTree, zeros: dict[Clique, NDArray[np.bool_]]) -> list[NDArray[np.bool_]]:
    """Of each bag the cells that some record has, by going through all records."""
    domain = tree.domain
    out = [np.zeros(domain.size(bag), dtype=bool) for bag in tree.bags]

    def cell(record: tuple[int, ...], clique: Clique) -> int:
        return int(np.ravel_multi_index([record[a] for a in clique], domain.shape(clique)))

    for record in product(*map(range, domain.sizes)):
        if all(can[cell(record, clique)] for clique, can in zeros.items()):
            for bag, can in zip(tree.bags, out, strict=True):
                can[cell(record, bag)] = True
    return out


@pytest.mark.parametrize("seed", range(5))
def test_zeros_are_carried_to_all_cliques_as_enumeration_of_all_records_says(seed: int) -> None:
    people = population(seed)
    rng = np.random.default_rng(seed)
    cliques: list[Clique] = [(0, 1), (1, 2, 3), (3, 4), (2,)]
    zeros = {clique: rng.random(people.tree.domain.size(clique)) < 0.6 for clique in cliques}
    expected = _by_enumeration(people.tree, zeros)
    if not any(can.any() for can in expected):
        with pytest.raises(InputError, match="no record is possible"):
            possible_cells(people.tree, zeros)
        return
    for found, can in zip(possible_cells(people.tree, zeros), expected, strict=True):
        np.testing.assert_array_equal(found, can)
    released = _released(people, measured(people, seed, 100.0), zeros=zeros)
    _check(people, released)
    for tables in released:
        for table, can in zip(tables, expected, strict=True):
            assert not table[:, ~can].any()
    with pytest.raises(InputError, match="zeros of a x e: no clique has all of these attributes"):
        possible_cells(people.tree, {(0, 4): np.ones(6, dtype=bool)})
