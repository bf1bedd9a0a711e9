"""Public shares in families and releases: against dense quadratic programmes, and only among siblings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from oracles.dense import query_matrix, subtree_gls
from oracles.random_problems import level_sums, random_problem, released

from postprocess.downward.assembly import BatchPass
from postprocess.downward.batch import LevelTask, level_tasks, passes_of
from postprocess.linear.upward import answers_of_subtrees, basis_of, upward_pass
from postprocess.marginal import Marginal
from postprocess.problem import Problem
from postprocess.shares.shared import STEPS, Shared, blind_centres
from postprocess.shares.spread import Spread

SHAPE = (3, 2, 3)
TOTAL = Marginal("total", tuple(np.zeros(n, dtype=np.int64) for n in SHAPE))
FIRST = Marginal("first", (np.arange(3), np.zeros(2, dtype=np.int64), np.zeros(3, dtype=np.int64)))
SPREAD = Spread(tau2=2.0, a=0.1, alone=3.0, noise=float("inf"), standard_error=0.1, geounits=9)


def with_shares(problem: Problem, query: Marginal, seed: int = 0, spread: Spread = SPREAD) -> Problem:
    """Random public numbers for all of a query's answers at every level below the top."""
    rng = np.random.default_rng(seed)
    answers = np.arange(query.size)
    levels: list[tuple[Shared, ...]] = [()]
    for level in problem.spine.levels[1:]:
        numbers = rng.integers(0, 9, (len(level), query.size)).astype(np.float64)
        one = Shared.of("units", query, answers, numbers, level.parents)
        levels.append((replace(one, spreads=(spread,) * query.size),))
    return replace(problem, shares=tuple(levels))


def tasks_of(problem: Problem, level: int, above: sp.csr_array) -> list[LevelTask]:
    basis = basis_of(problem)
    estimate = upward_pass(problem, basis)[level]
    unchecked = np.zeros(above.shape[0], dtype=bool)
    return list(level_tasks(problem, basis, level, estimate, above, passes_of(problem), unchecked, None))


@pytest.mark.parametrize("query", [TOTAL, FIRST], ids=["total", "several answers"])
@pytest.mark.parametrize("seed", range(4))
def test_a_family_has_the_terms_of_dense_algebra(seed: int, query: Marginal) -> None:
    """Per child: t't / f beside the precision and t (s t'p) / f beside the linear term, in the pass that can say it."""
    plain, truth = random_problem(seed, shape=SHAPE, n_levels=2, mean=9.0)
    if query is FIRST:
        plain = replace(plain, passes=())
    shared = with_shares(plain, query, seed)
    above = sp.csr_array(truth[0])
    (mine,), (without,) = tasks_of(shared, 1, above), tasks_of(plain, 1, above)
    (said,) = shared.shares[1]
    for number, current in enumerate(mine.passes):
        held = None if not number else TOTAL.answer(truth[1])
        members = [BatchPass(task, number, held).member(0) for task in (mine, without)]
        families = [member.family for member in members if member is not None]
        cells = np.flatnonzero(current.cells.answer(truth[0])[0])
        indicator = query_matrix(query, len(query.cell_answer))[:, current.cells.representative][:, cells]
        totals = query.answer(truth[0])[0]
        for child in range(families[0].n_children):
            added = np.zeros((len(cells), len(cells)))
            linear = np.zeros(len(cells))
            for answer in range(query.size) if current.held is None else ():
                share = said.shares[child, answer]
                if np.isnan(share) or not indicator[answer].any():
                    continue
                m = share * totals[answer]
                f = SPREAD.tau2 * (max(m, 1) + SPREAD.a * max(m, 1) ** 2) if m > 0 else SPREAD.alone
                f = 2.0 ** (round(STEPS * np.log2(f)) / STEPS)
                added += np.outer(indicator[answer], indicator[answer]) / f
                linear += indicator[answer] * m / f
            kinds = [family.kinds[child] for family in families]
            assert families[0].matrices[kinds[0]] == pytest.approx(families[1].matrices[kinds[1]] + added)
            assert families[0].linear[child] == pytest.approx(families[1].linear[child] + linear)


def test_totals_move_among_siblings_only_and_towards_the_shares() -> None:
    plain, _ = random_problem(3, shape=SHAPE, n_levels=3, mean=30.0)
    plain = replace(plain, measured=tuple(tuple(replace(m, variance=1e6) for m in level) for level in plain.measured))
    near = replace(SPREAD, a=0.0)
    found = [released(problem)[0] for problem in (plain, with_shares(plain, TOTAL, spread=near))]
    assert np.array_equal(found[0][0], found[1][0])
    assert all(map(np.array_equal, found[1], level_sums(plain.spine, found[1][2])))
    (said,) = with_shares(plain, TOTAL).shares[1]
    expected = said.shares[:, 0] * found[0][0].sum()
    off = [np.abs(TOTAL.answer(one[1])[:, 0] - expected).sum() for one in found]
    assert off[1] < 0.2 * off[0]


def test_nothing_measured_is_shared_as_the_public_numbers_are() -> None:
    """Where a level measures nothing, its totals are the public shares to within the rounding."""
    plain, _ = random_problem(5, shape=SHAPE, n_levels=2, mean=30.0)
    problem = with_shares(replace(plain, measured=(plain.measured[0], ())), TOTAL, seed=8)
    (found,) = released(problem)[0][1:]
    (said,) = problem.shares[1]
    assert np.abs(TOTAL.answer(found)[:, 0] - said.shares[:, 0] * found.sum()).max() <= 1


def test_answers_of_subtrees_are_those_of_dense_least_squares() -> None:
    problem = with_shares(random_problem(7, shape=SHAPE, n_levels=3, complete=False)[0], FIRST)
    basis = basis_of(problem)
    estimates = upward_pass(problem, basis)
    seen = 0
    for level in range(3):
        values, variances = answers_of_subtrees(problem, basis, level, estimates[level], FIRST)
        for row in range(len(values)):
            dense = subtree_gls(problem, level, row)
            matrix = query_matrix(FIRST, 18)
            for answer in range(3):
                determined = np.allclose(matrix[answer] @ dense.estimable, matrix[answer], atol=1e-6)
                assert np.isfinite(variances[row, answer]) == determined
                if determined:
                    seen += 1
                    assert values[row, answer] == pytest.approx(matrix[answer] @ dense.mean)
                    assert variances[row, answer] == pytest.approx(matrix[answer] @ dense.covariance @ matrix[answer])
    assert seen


def test_shares_of_a_simulated_run_are_as_far_from_the_release_as_the_model_says() -> None:
    rng = np.random.default_rng(1)
    parents = np.repeat(np.arange(400), 4)
    numbers = rng.uniform(20, 200, (1600, 1))
    one = replace(Shared.of("u", TOTAL, np.zeros(1, dtype=np.int64), numbers, parents), spreads=(SPREAD,))
    counts = np.rint(one.shares * 5000).astype(np.int64)
    released = sp.csr_array(np.hstack([counts, np.zeros((1600, 17), dtype=np.int64)]))
    anew = one.around(released, parents, np.arange(1600), (3, 7))
    assert anew.centres is not None
    totals = np.bincount(parents, weights=counts[:, 0])[parents]
    distance = counts[:, 0] - anew.centres[:, 0] * totals
    f = SPREAD.variances(one.shares[:, 0] * totals, numbers[:, 0])
    left = 1 - f / np.bincount(parents, weights=f)[parents]
    assert np.mean(distance**2 / (f * left)) == pytest.approx(1.0, abs=0.15)
    again = one.of_rows(slice(400, 800)).around(released[400:800], parents[400:800] - 100, np.arange(400, 800), (3, 7))
    assert again.centres is not None
    assert np.array_equal(again.centres, anew.centres[400:800])


def test_a_share_that_says_hardly_more_than_nothing_is_left_out() -> None:
    """It is used with the precision that is beyond a tenth of the measurements'."""
    spread = replace(SPREAD, noise=50.0)
    assert spread.used(np.array([100.0, 499.0, 501.0, 1e9])) == pytest.approx(
        [1 / (1 / 100 - 1 / 500), 1 / (1 / 499 - 1 / 500), np.inf, np.inf]
    )
    one = replace(
        Shared.of("u", TOTAL, np.zeros(1, dtype=np.int64), np.ones((2, 1)), np.zeros(2, dtype=np.int64)),
        spreads=(spread,),
    )
    _, classes = one.expected(slice(0, 2), np.array([4000.0]))
    assert (classes < -1000).all()


def test_a_blind_centre_keeps_the_composition_of_an_answer() -> None:
    parents = np.zeros(2, dtype=np.int64)
    one = Shared.of("u", TOTAL, np.zeros(1, dtype=np.int64), np.array([[1.0], [3.0]]), parents)
    even = np.tile(np.arange(18.0), (2, 1))
    centre = blind_centres([(one, np.ones((2, 1), dtype=bool))], even.copy(), parents)
    assert centre == pytest.approx(np.outer([0.5, 1.5], np.arange(18.0)))
    assert np.array_equal(blind_centres([(one, np.array([[True], [False]]))], even.copy(), parents), even)
