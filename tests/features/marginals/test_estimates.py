"""Cliques, their joint estimate, whole numbers and records, by enumeration, dense algebra and other solvers; intervals.

Intervals of clique tables hold nine of ten truths, at every size and level; with too little noise they do not, nor do
they if, where there are few areas, errors are sorted by what was released; or, of large counts, if simulated releases
are all that they are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise, permutations, product

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from oracles.clique_population import Population, count, details, ends_of, measured, population

from features.marginals import intervals, whole
from features.marginals.cliques import AttributeSizes, Clique, JunctionTree, filling, junction_tree, marginal
from features.marginals.intervals import CliqueDesign, noisy_again, simulated_errors
from features.marginals.linear import NoisyTable, downward, upward
from features.marginals.records import WholeRecords, draw_records
from features.marginals.transport import (
    ExpectedCells,
    Shrinkage,
    TwoWayTables,
    nearest,
    project_columns,
    round_columns,
    round_tables,
)
from features.marginals.whole import ExactTable, Seed, whole_numbers
from geography.errors import InputError
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from postprocess.arrays import IntArray
from postprocess.marginal import Marginal


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
        (lambda: junction_tree(_domain(14), [tuple(range(14))]), "has 4,782,969 cells; at most 4,194,304 are allowed"),
        (lambda: _domain(2).clique(["a", "x"]), "found the attribute 'x'; the schema has a, b"),
        (lambda: _domain(2).clique(["a", "a"]), "each once"),
        (lambda: JunctionTree(_domain(3), ((0, 1), (1, 2), (0, 2)), (-1, 0, 1)), "no running intersection"),
    ],
)
def test_what_is_no_tree_or_too_wide_is_refused(make: Callable[[], object], told: str) -> None:
    with pytest.raises((InputError, ValueError), match=told):
        make()


DOMAIN = AttributeSizes(("a", "b", "c"), (2, 3, 2))
#: Two parents; the first has three leaves, the second two.
PARENTS = [np.zeros(2, dtype=np.int64), np.array([0, 0, 0, 1, 1])]
SIZES = [1, 2, 5]


def _summing(clique: Clique, domain: AttributeSizes = DOMAIN) -> NDArray[np.float64]:
    """The matrix from cells of the whole schema, which is small here, to those of a clique's table."""
    cells = np.eye(domain.size(range(len(domain.names))))
    return marginal(cells, tuple(range(len(domain.names))), clique, domain).T.astype(np.float64)


def _random_levels(seed: int, cliques: list[list[Clique]]) -> list[list[NoisyTable]]:
    rng = np.random.default_rng(seed)
    return [
        [
            NoisyTable(clique, rng.integers(-5, 50, (n, DOMAIN.size(clique))), rng.uniform(0.5, 9.0, n))
            for clique in declared
        ]
        for n, declared in zip(SIZES, cliques, strict=True)
    ]


def _dense(levels: list[list[NoisyTable]], clique: Clique) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Estimates and variances of a clique's table at each level, by a dense pseudo-inverse over all leaves' cells."""
    n_leaves = SIZES[-1]
    above = [np.eye(n_leaves)]
    for parent, n in zip(reversed(PARENTS), reversed(SIZES[:-1]), strict=True):
        matrix = np.zeros((n, len(parent)))
        matrix[parent, np.arange(len(parent))] = 1.0
        above.insert(0, matrix @ above[0])
    rows, right = [], []
    for of_leaves, measurements in zip(above, levels, strict=True):
        for one in measurements:
            for area in range(len(of_leaves)):
                weight = 1.0 / np.sqrt(one.variance[area])
                rows.append(weight * np.kron(of_leaves[area], _summing(one.clique)))
                right.append(weight * one.values[area])
    matrix = np.vstack(rows)
    covariance = np.linalg.pinv(matrix.T @ matrix, hermitian=True)
    estimate = covariance @ matrix.T @ np.concatenate(right)
    out = []
    for of_leaves in above:
        asked = np.kron(of_leaves, _summing(clique))
        shape = len(of_leaves), DOMAIN.size(clique)
        out.append(((asked @ estimate).reshape(shape), np.diag(asked @ covariance @ asked.T).reshape(shape)))
    return out


@pytest.mark.parametrize(
    "cliques",
    [
        [[(0, 1), (1, 2)], [(0, 1), (1, 2)], [(0, 1), (1, 2)]],
        [[(0, 1, 2)], [(0, 1), (1, 2)], [(0, 1), (1, 2), (1,)]],
        [[(0, 1), (0, 2), (1, 2)], [(0,), (1, 2)], [(0, 1), (1, 2)]],
        [[], [(0, 1), (1, 2)], [(0, 1), (1, 2)]],
    ],
)
def test_estimates_and_variances_are_those_of_dense_least_squares(cliques: list[list[Clique]]) -> None:
    levels = _random_levels(1, cliques)
    estimates = downward(upward(levels, PARENTS, DOMAIN, SIZES), PARENTS)
    for clique in [(), (1,), (0, 1), (1, 2)]:
        for level, (dense, variances) in zip(estimates, _dense(levels, clique), strict=True):
            np.testing.assert_allclose(level.table(clique), dense, atol=1e-8)
            of_cells = np.broadcast_to(level.variances(clique)[:, None], variances.shape)
            np.testing.assert_allclose(of_cells, variances, rtol=1e-9)


def test_a_level_without_some_cliques_takes_them_from_its_parents_as_far_as_they_go() -> None:
    # Only the top has the pair of a and b: the leaves are estimated with no residual of it, which nothing determines.
    levels = _random_levels(2, [[(0, 1), (1, 2)], [(0,), (1, 2)], [(0,), (1, 2)]])
    up = upward(levels, PARENTS, DOMAIN, SIZES)
    estimates = downward(up, PARENTS)
    assert np.isinf(estimates[2].variances((0, 1))).all()
    for level, (dense, variances) in zip(estimates, _dense(levels, (1, 2)), strict=True):
        np.testing.assert_allclose(level.table((1, 2)), dense, atol=1e-8)
        np.testing.assert_allclose(level.variances((1, 2)), variances[:, 0], rtol=1e-9)
    top, variances = _dense(levels, (0, 1))[0]
    np.testing.assert_allclose(estimates[0].table((0, 1)), top, atol=1e-8)
    np.testing.assert_allclose(estimates[0].variances((0, 1)), variances[:, 0], rtol=1e-9)
    for parent, (level, below) in zip(PARENTS, pairwise(estimates), strict=True):
        sums = np.zeros_like(level.table((0, 1)))
        np.add.at(sums, parent, below.table((0, 1)))
        np.testing.assert_allclose(sums, level.table((0, 1)), atol=1e-8)


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
    known = {"exact": [ExactTable((3,), one) for one in exact]} if exact else {}
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
    released = whole_numbers(tree, up, parents, Seed(1), [ExactTable((), one) for one in totals], alike=False)
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
        _released(people, measured(people, 7, 4.0), exact=[ExactTable((3,), one) for one in exact])
    of_top, _, of_leaves = (ExactTable((3,), people.table((3,), level)) for level in range(3))
    with pytest.raises(InputError, match="of level 2 are exact at level 1, too"):
        _released(people, measured(people, 7, 4.0), exact=[of_top, None, of_leaves])
    exact[2][4, 1] -= 1 + exact[2][4, 1]
    with pytest.raises(InputError, match="found -1 in cell 1; they are not negative"):
        _released(people, measured(people, 7, 4.0), exact=[ExactTable((3,), one) for one in exact])


def _tables(seed: int, shape: tuple[int, int, int], most: int = 20) -> TwoWayTables:
    """Random ones, some rows and columns of which are empty; estimates are the truth with much noise."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, most, shape) * (rng.random(shape) < 0.4)
    truth[0, -1], truth[0, :, -1] = 0, 0
    variance = np.broadcast_to(rng.uniform(0.2, 5.0, (*shape[:2], 1)), shape)
    return TwoWayTables(truth + rng.normal(0, 6, shape), variance, truth.sum(axis=2), truth.sum(axis=1))


def _by_cvxpy(tables: TwoWayTables, number: int) -> NDArray[np.float64]:
    x = cp.Variable(tables.estimate.shape[1:], nonneg=True)
    weights = 1.0 / np.sqrt(tables.variance[number])
    sums = [cp.sum(x, axis=1) == tables.rows[number], cp.sum(x, axis=0) == tables.columns[number]]
    objective = cp.sum_squares(cp.multiply(weights, x - tables.estimate[number]))
    cp.Problem(cp.Minimize(objective), sums).solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11)
    return np.asarray(x.value)


@pytest.mark.parametrize("shape", [(6, 3, 7), (6, 8, 3), (4, 5, 5), (3, 1, 4), (3, 4, 1), (2, 6, 40)])
def test_solutions_are_those_of_another_solver(shape: tuple[int, int, int]) -> None:
    tables = _tables(1, shape)
    x = nearest(tables)
    np.testing.assert_allclose(x.sum(axis=2), tables.rows, atol=1e-6)
    np.testing.assert_allclose(x.sum(axis=1), tables.columns, atol=1e-6)
    assert x.min() >= 0
    for number in range(len(x)):
        np.testing.assert_allclose(x[number], _by_cvxpy(tables, number), atol=2e-4)


def _all_with_sums(rows: list[int], columns: list[int]) -> list[NDArray[np.int64]]:
    """All whole-number tables with these sums, by going through all rows."""
    if not rows:
        return [np.zeros((0, len(columns)), dtype=np.int64)] if not any(columns) else []
    out = []
    for first in product(*(range(min(rows[0], column) + 1) for column in columns)):
        if sum(first) == rows[0]:
            left = [column - taken for column, taken in zip(columns, first, strict=True)]
            out += [np.vstack([[first], rest]) for rest in _all_with_sums(rows[1:], left)]
    return out


@pytest.mark.parametrize("seed", range(25))
def test_whole_numbers_next_to_the_solution_are_there_and_are_the_nearest_of_all(seed: int) -> None:
    tables = _tables(100 + seed, (1, 3, 4), most=4)
    x = nearest(tables)
    rounded = round_tables(x, tables, np.zeros(x.shape, dtype=np.int64))[0]
    near = [
        table
        for table in _all_with_sums(tables.rows[0].tolist(), tables.columns[0].tolist())
        if np.abs(table - x[0]).max() < 1 + 1e-6
    ]
    assert any((table == rounded).all() for table in near)

    def away(table: NDArray[np.int64]) -> float:
        return float(((table - x[0]) ** 2).sum())

    assert away(rounded) <= min(map(away, near)) + 1e-3


def test_columns_alone_are_projected_as_by_another_solver_and_rounded_to_their_sums() -> None:
    rng = np.random.default_rng(4)
    estimate, variance = rng.normal(2, 5, (5, 4, 3)), rng.uniform(0.2, 5.0, (5, 4, 3))
    allowed = rng.random((5, 4, 3)) < 0.7
    allowed[:, 0] = True
    columns = rng.integers(0, 15, (5, 3))
    x = project_columns(estimate, variance, allowed, columns)
    for table, column in product(range(5), range(3)):
        own = cp.Variable(4, nonneg=True)
        objective = cp.sum_squares(
            cp.multiply(1 / np.sqrt(variance[table, :, column]), own - estimate[table, :, column])
        )
        limits = [cp.sum(own) == columns[table, column], own[~allowed[table, :, column]] == 0]
        cp.Problem(cp.Minimize(objective), limits).solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11)
        np.testing.assert_allclose(x[table, :, column], own.value, atol=1e-4)
    rounded = round_columns(x, allowed, columns, np.zeros(x.shape, dtype=np.int64))
    np.testing.assert_array_equal(rounded.sum(axis=1), columns)
    assert not rounded[~allowed].any()
    assert np.abs(rounded - x).max() < 1


Floats = NDArray[np.float64]
NOISE = 25.0


def _numbers(spread: float, n: int = 60_000, seed: int = 1) -> tuple[Floats, Floats, ExpectedCells]:
    """Expectations of one class, numbers spread around them, and the same with noise."""
    rng = np.random.default_rng(seed)
    m = rng.uniform(20.0, 40.0, n)
    truth = np.maximum(m + spread * m * rng.normal(size=n), 0.0)
    return m, truth, ExpectedCells(m, truth + np.sqrt(NOISE) * rng.normal(size=n), np.full(n, NOISE), np.ones(n))


def _uniform(n: int) -> list[Floats]:
    rng = np.random.default_rng(9)
    return [rng.random(n), rng.random(n)]


@pytest.mark.parametrize("spread", [0.3, 0.6])
def test_the_mean_errs_as_the_best_linear_one_and_knows_by_how_much(spread: float) -> None:
    m, truth, cells = _numbers(spread)
    mean, variance = Shrinkage.of([cells]).given(cells)
    prior = m + (spread * m) ** 2
    known = np.mean(((cells.estimate * (prior - m) + m * NOISE) / (prior - m + NOISE) - truth) ** 2)
    error = float(np.mean((mean - truth) ** 2))
    assert error < 1.04 * known
    assert float(variance.mean()) == pytest.approx(error, rel=0.1)


def test_a_number_that_contradicts_its_expectation_keeps_its_measurement() -> None:
    """One in two hundred is eight times what is expected: a normal spread for all would take most of that away."""
    rng = np.random.default_rng(3)
    m = np.full(40_000, 10.0)
    strange = rng.random(len(m)) < 0.005
    truth = np.where(strange, 80.0, m + np.sqrt(m) * rng.normal(size=len(m)))
    y = truth + 5.0 * rng.normal(size=len(m))
    mean, _ = Shrinkage.of([one := ExpectedCells(m, y, np.full(len(m), NOISE), np.ones(len(m)))]).given(one)
    assert abs(np.mean((mean - truth)[strange])) < 2.0
    spread = float(np.mean((y - m) ** 2)) - NOISE
    normal = m + (y - m) * spread / (spread + NOISE)
    assert np.mean((normal - truth)[strange]) < -15.0
    assert np.mean((mean - truth)[~strange] ** 2) < 1.05 * 10 * NOISE / (10 + NOISE)


@pytest.mark.parametrize("spread", [0.3, 0.6])
def test_what_is_drawn_varies_as_the_truth_and_neither_the_mean_nor_the_measurement_does(spread: float) -> None:
    m, truth, cells = _numbers(spread)
    shrinkage = Shrinkage.of([cells])
    of_truth = float(np.std(truth - m))
    drawn, _ = shrinkage.given(cells, _uniform(len(m)))
    assert float(np.std(drawn - m)) == pytest.approx(of_truth, rel=0.03)
    assert float(np.std(shrinkage.given(cells)[0] - m)) < 0.98 * of_truth
    assert float(np.std(cells.estimate - m)) > 1.03 * of_truth


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


@pytest.mark.parametrize("seen", [-5, 0])
def test_a_population_of_nobody_is_released_as_nobody(seen: int) -> None:
    """With an attribute of one value, and an area with one child."""
    tree = junction_tree(AttributeSizes(tuple("abc"), (1, 3, 2)), [(0, 1), (1, 2)])
    parents = (np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64))
    noise = dict.fromkeys(tree.bags, DiscreteGaussian(Fraction(9)))
    design = CliqueDesign(tree, parents, [noise] * 3)
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
    noise = dict.fromkeys(tree.bags, DiscreteGaussian(Fraction(4)))
    measured = [
        {bag: people.table(bag, level) + rng.integers(-3, 4, (n, 100)) for bag in tree.bags}
        for level, n in ((0, 1), (1, 4))
    ]
    release = CliqueDesign(tree, people.parents, [noise, noise]).release(measured, Seed(2))
    records = draw_records(tree, release.whole[-1], Seed(2))
    for bag, table in zip(tree.bags, release.whole[-1], strict=True):
        np.testing.assert_array_equal(count(records, bag, domain, np.arange(4), 4), table)
        assert 0.5 * np.abs(table - people.table(bag, 1)).sum() / 2000 < 0.25


LEAVES, MIDDLE = 240, 12
#: Classes of true counts.
SIZES_HELD = ((0, 0), (1, 4), (5, 9), (10, 10**9))


def _people(seed: int = 0) -> Population:
    """30,000 records with four attributes in 240 leaves, each with a composition of its own."""
    rng = np.random.default_rng(seed)
    domain = AttributeSizes(tuple("abcd"), (3, 5, 2, 6))
    leaf = np.sort(rng.choice(LEAVES, 30_000, p=rng.dirichlet(np.full(LEAVES, 0.7))))
    values = np.zeros((len(leaf), 4), dtype=np.int64)
    for a, size in enumerate(domain.sizes):
        base = np.log(rng.dirichlet(np.full(size, 0.6), (3, 5, 2, 6)[a - 1] if a else 1) + 0.005)
        score = base[values[:, a - 1] if a else np.zeros(len(leaf), dtype=np.int64)]
        score = score + rng.normal(0, 0.6, (LEAVES, size))[leaf] + rng.gumbel(size=score.shape)
        values[:, a] = score.argmax(axis=1)
    parents = (np.zeros(MIDDLE, dtype=np.int64), np.arange(LEAVES) * MIDDLE // LEAVES)
    tree = junction_tree(domain, [(0, 1), (1, 2, 3)])
    return Population(tree, WholeRecords(leaf, values), parents, (1, MIDDLE, LEAVES))


def _design(people: Population, variance: int = 16, *, alike: bool = True) -> CliqueDesign:
    noise = [dict.fromkeys(people.tree.bags, DiscreteGaussian(Fraction(variance)))] * 3
    return CliqueDesign(people.tree, people.parents, noise, alike=alike)


def _truth(people: Population) -> list[list[IntArray]]:
    return [[people.table(bag, level) for bag in people.tree.bags] for level in range(3)]


def _measured(design: CliqueDesign, people: Population, key: int) -> list[Mapping[Clique, IntArray]]:
    return [noisy_again(design, whole, level, Seed(1000 + key), 0) for level, whole in enumerate(_truth(people))]


@pytest.mark.parametrize("alike", [True, False])
def test_nine_of_ten_truths_are_inside_whatever_their_size(alike: bool) -> None:
    people = _people()
    design = _design(people, alike=alike)
    truth = _truth(people)
    held: dict[tuple[int, int], list[float]] = {}
    for key in range(3):
        measured = _measured(design, people, key)
        errors = simulated_errors(design, measured, design.release(measured, Seed(key)), Seed(key), 6, details(design))
        for level in range(3):
            for number in range(len(people.tree.bags)):
                low, high = ends_of(errors, level, number)
                t = truth[level][number]
                for row, (least, most) in enumerate(SIZES_HELD):
                    some = (t >= least) & (t <= most)
                    held.setdefault((level, row), []).extend(((low <= t) & (t <= high))[some].tolist())
    shares = {place: float(np.mean(inside)) for place, inside in held.items() if len(inside) > 300}
    assert {(2, row) for row in range(len(SIZES_HELD))} <= set(shares)
    assert min(shares.values()) > 0.88
    assert max(shares[1, 3], shares[2, 3]) < 0.93


def test_intervals_made_for_less_noise_than_there_was_do_not_hold() -> None:
    """The same release with errors simulated at a quarter of the variance: the test above can fail."""
    people = _people()
    design, claimed = _design(people, 16), _design(people, 4)
    measured = _measured(design, people, 5)
    errors = simulated_errors(claimed, measured, claimed.release(measured, Seed(5)), Seed(5), 4, details(claimed))
    low, high = ends_of(errors, 2, 0)
    truth = people.table(people.tree.bags[0], 2)
    some = truth >= 10
    assert ((low <= truth) & (truth <= high))[some].mean() < 0.8


def _held_alone(domain: AttributeSizes, values: IntArray, key: int, replicates: int, least: int, most: int) -> IntArray:
    """Of one area alone, with noise of 8 persons: how many counts are from `least` to `most`, and how many inside."""
    attributes = tuple(range(len(domain.sizes)))
    records = WholeRecords(np.zeros(len(values), dtype=np.int64), values)
    people = Population(junction_tree(domain, [attributes]), records, (), (1,))
    noise = dict.fromkeys(people.tree.bags, DiscreteGaussian(Fraction(64)))
    design, truth = CliqueDesign(people.tree, (), [noise]), people.table(attributes, 0)
    measured = [noisy_again(design, [truth], 0, Seed(1000 + key), 0)]
    errors = simulated_errors(
        design, measured, design.release(measured, Seed(key)), Seed(key), replicates, details(design)
    )
    low, high = ends_of(errors, 0, 0)
    some = (truth >= least) & (truth <= most)
    return np.array([some.sum(), ((low <= truth) & (truth <= high))[some].sum()])


def _small_counts_held(keys: int) -> float:
    """The share of counts of 5 to 9 in a table of 1,600 cells."""
    found = np.zeros(2, dtype=np.int64)
    for key in range(keys):
        rng = np.random.default_rng(key)
        codes = rng.choice(1600, 12_000, p=rng.dirichlet(np.full(1600, 0.25)))
        values = np.stack(np.divmod(codes, 40), axis=1)
        found += _held_alone(AttributeSizes(("a", "b"), (40, 40)), values, key, 5, 5, 9)
    assert found[0] > 300
    return float(found[1] / found[0])


def test_counts_that_noise_hides_are_inside_in_one_area_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """If cells were sorted by how frequent they are in the releases of one area, as of many, they would not be."""
    assert _small_counts_held(3) > 0.88
    monkeypatch.setattr(intervals, "FEW_AREAS", 0)
    assert _small_counts_held(3) < 0.85


def _large_counts_held(keys: int) -> float:
    """The share of counts of 100 and more in a table that is nearly empty, with eight large cells.

    What noise hides in 20,000 cells of 0 to 3 is counted in the large ones.
    """
    found = np.zeros(2, dtype=np.int64)
    for key in range(keys):
        rng, n = np.random.default_rng(key), 40_000
        gain, loss = (np.where(rng.random(n) < share, _one_of_few(rng, n), 0) for share in (0.1, 0.05))
        values = np.stack([gain, loss, rng.integers(0, 8, n)], axis=1)
        found += _held_alone(AttributeSizes(("gain", "loss", "class"), (50, 50, 8)), values, key, 2, 100, n)
    return float(found[1] / found[0])


def _one_of_few(rng: np.random.Generator, n: int) -> IntArray:
    weights = rng.permutation(1 / np.arange(1, 50))
    return 1 + rng.choice(49, n, p=weights / weights.sum())


def test_large_counts_beside_many_that_noise_hides_are_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """If they had the quantiles of simulated errors, as the core's large counts have, they would not be."""
    assert _large_counts_held(7) > 0.82
    monkeypatch.setattr(intervals, "_reach_estimates", lambda *_: None)
    assert _large_counts_held(3) < 0.6


def test_a_table_of_some_attributes_has_intervals_too_and_some_areas_have_those_of_all() -> None:
    """Of b and d, without c that stands between them in the clique: nine of ten large sums are inside."""
    people = _people()
    design, sizes = _design(people), people.tree.domain.sizes
    groups = np.arange(sizes[1]), np.zeros(sizes[2], dtype=np.int64), np.arange(sizes[3])
    query, clique = Marginal("b * d", groups), (1, 3)
    truth = [people.table(clique, level) for level in range(3)]
    held = []
    for key in range(3):
        measured = _measured(design, people, key)
        release = design.release(measured, Seed(key))
        errors = simulated_errors(design, measured, release, Seed(key), 2, lambda _, bag: [query] if bag else [])
        low, high = ends_of(errors, 2, 1, query)
        held += ((low <= truth[2]) & (truth[2] <= high))[truth[2] >= 20].tolist()
        counts = query.answer_csr(sp.csr_array(release.whole[2][1][100:150]))
        for every, some in zip((low, high), errors.ends(2, 1, query, counts, slice(100, 150)), strict=True):
            np.testing.assert_array_equal(every[100:150], some)
    assert len(held) > 1000
    assert 0.88 < np.mean(held) < 0.94
