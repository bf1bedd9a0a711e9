"""What persons say about households: against dense generalised least squares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from oracles.dense import subtree_gls
from oracles.random_problems import random_problem

from features.joins.mathematics.composition import LEAST_VARIANCE, Composition, counted_of, implied_by
from features.joins.mathematics.membership import Membership
from postprocess.arrays import FloatArray
from postprocess.linear.upward import basis_of, upward_pass
from postprocess.marginal import Marginal
from postprocess.members import BETWEEN, Counted, Implied

#: Members of a household of sizes 1, 2, 3 and "4+".
LEAST, EXPECTED, MOST = np.array([1, 2, 3, 4]), np.array([1.0, 2.0, 3.0, 4.5]), np.array([1, 2, 3, 9])


def counted(persons: Marginal, *, others: bool = False, inside: int = 0) -> Counted:
    """Of a join of sizes with one answer of a query on persons."""
    rows = np.arange(persons.size) == inside
    sizes = Marginal("size", (np.arange(4),))
    join = Membership(
        "size",
        persons,
        sizes,
        np.where(rows[:, None], LEAST, 0),
        np.where(rows[:, None], MOST, 1 << 40),
        rows,
        others,
        np.where(rows[:, None], EXPECTED, np.nan),
    )
    found = counted_of(Composition.of([join]))
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(6))
def test_sums_of_persons_are_those_of_dense_least_squares(seed: int) -> None:
    problem, _ = random_problem(seed, n_levels=3, shape=(2, 3))
    persons = Marginal("residence", (np.arange(2), np.zeros(3, dtype=np.int64)))
    problem = replace(problem, further=(persons,))
    basis = basis_of(problem)
    estimates = upward_pass(problem, basis)
    sums = counted(persons)
    for level in range(3):
        implied = implied_by(sums, problem, basis, level, estimates[level])
        for row in range(len(implied.values)):
            dense = subtree_gls(problem, level, row)
            cells = (persons.cell_answer == 0).astype(np.float64)
            assert implied.values[row] == pytest.approx(np.full(2, cells @ dense.mean))
            variance = max(cells @ dense.covariance @ cells, LEAST_VARIANCE)
            assert implied.variances[row] == pytest.approx(np.full(2, variance))


def stacked(
    precision: FloatArray, linear: FloatArray, members: FloatArray, value: float, variance: float
) -> FloatArray:
    """Dense least squares of households and of the persons in them, who are their members, as two unknowns."""
    n = len(linear)
    rows = [np.linalg.cholesky(precision).T, np.hstack([members / np.sqrt(variance)])[None, :]]
    right = [np.linalg.solve(np.linalg.cholesky(precision), linear), np.array([value / np.sqrt(variance)])]
    solution, *_ = np.linalg.lstsq(np.vstack(rows), np.concatenate(right), rcond=None)
    assert len(solution) == n
    return np.asarray(solution)


def test_families_have_the_persons_as_a_further_measurement() -> None:
    rng = np.random.default_rng(3)
    sums = counted(Marginal("total", (np.zeros(2, dtype=np.int64),)))
    root = rng.normal(size=(4, 4))
    precision, linear = root @ root.T + np.eye(4), rng.normal(size=(3, 4)) * 5
    values, variances = rng.normal(20, 3, (3, 2)), np.array([[2.0, 2.0], [0.5, 0.5], [2.0, 2.0]])
    implied = Implied(sums, values, variances, np.ones((3, 2)))
    members = sums.least + sums.excess
    use = np.tile([True, False], (3, 1))
    kind, matrices, terms = implied.terms(
        members, slice(0, 3), np.zeros(3, dtype=np.int64), precision[None], linear, use
    )
    assert kind[0] == kind[2] != kind[1]
    for child in range(3):
        mine = np.linalg.solve(matrices[kind[child]], terms[child])
        dense = stacked(precision, linear[child], members[0], values[child, 0], variances[child, 0])
        assert mine == pytest.approx(dense)


def test_open_ended_sizes_are_learned_from_the_level_above() -> None:
    """A parent with 100 households of 4+ and 600 persons: an excess of two each, where half a person was expected."""
    sums = counted(Marginal("total", (np.zeros(2, dtype=np.int64),)))
    above = Implied(sums, np.full((1, 2), 600.0), np.full((1, 2), 4.0), np.ones((1, 2)))
    below = Implied(sums, np.array([[400.0] * 2, [200.0] * 2]), np.full((2, 2), 4.0), np.ones((2, 2)))
    parents = sp.csr_array(np.array([[0, 0, 0, 100]]))
    learned = below.below(parents, above, np.array([0, 0]), np.zeros(2))
    weight = 50.0**2 / 4.0
    assert learned.factors[:, 0] == pytest.approx((1 + weight * 4.0) / (1 + weight))
    assert learned.factors[:, 1] == pytest.approx(1.0)  # the least members are what they are
    assert learned.variances[:, 1] == pytest.approx(4.0)
    # The more persons, the more households of open-ended size, and the less is known of their members.
    assert learned.variances[0, 0] > learned.variances[1, 0] > 4.0
    assert np.isinf(above.at_top().variances[0, 0])
    assert above.at_top().variances[0, 1] == 4.0


def test_simulated_sums_have_the_stated_variance_and_the_same_noise_for_both_comparisons() -> None:
    sums = counted(Marginal("total", (np.zeros(2, dtype=np.int64),)))
    n = 20_000
    implied = Implied(sums, np.zeros((n, 2)), np.full((n, 2), 9.0), np.ones((n, 2)))
    released = sp.csr_array(np.tile([2, 1, 0, 2], (n, 1)))
    excess = np.tile([1.0, 0.0], (n, 1))
    drawn = implied.measured_anew(released, excess, np.arange(n), (3, 99)).values
    assert (drawn[:, 0] == drawn[:, 1]).all()
    assert drawn[:, 0].mean() == pytest.approx(2 + 2 + 2 * 4.5, abs=4 * 3 / np.sqrt(n))
    assert drawn[:, 0].std() == pytest.approx(3.0, rel=0.03)
    some = np.array([5, 6, 7, 100, 3_000])
    again = implied.of_rows(some).measured_anew(released[some], excess[some], some, (3, 99)).values
    assert (again == drawn[some]).all()
    assert not np.array_equal(implied.measured_anew(released, excess, np.arange(n), (4, 99)).values, drawn)


@pytest.mark.parametrize("open_ended", [1, 20, 400])
def test_simulated_members_of_open_sizes_vary_as_is_allowed_for_and_add_up(open_ended: int) -> None:
    """The more households of "4+", the more their members vary: pairs of alike children of many parents."""
    sums = counted(Marginal("total", (np.zeros(2, dtype=np.int64),)))
    n, children = 4_000, 8
    parent_of, rows = np.repeat(np.arange(n), children), np.arange(n * children)
    nothing = np.zeros((n * children, 2))
    implied = Implied(sums, nothing, nothing + 1.0, nothing + 1.0)
    released = sp.csr_array(np.tile([2, 1, 0, open_ended], (n * children, 1)))
    above = np.tile([children * 0.5 * open_ended, 0.0], (n, 1))
    drawn = implied.excess_below(released, parent_of, above, rows, (7, 99))
    assert (drawn >= 0).all()
    assert (drawn[:, 1] == 0).all()
    of_parents = drawn[:, 0].reshape(n, children)
    assert of_parents.sum(axis=1) == pytest.approx(above[:, 0])
    mean = 0.5 * open_ended
    allowed = mean * (1 + 0.5) + (BETWEEN * mean) ** 2
    # Given their sum, 1 - 1/8 of it is left, and of gamma variables with few members a little less.
    shape = mean**2 / allowed
    expected = allowed * (1 - 1 / children) / (1 + 1 / (children * shape))
    assert of_parents.std() == pytest.approx(np.sqrt(expected), rel=0.03)
    # Some families alone have the same numbers.
    some = np.flatnonzero(np.isin(parent_of, [3, 4, 900]))
    again = implied.of_rows(some).excess_below(
        released[some], np.repeat(np.arange(3), children), above[[3, 4, 900]], some, (7, 99)
    )
    assert (again == drawn[some]).all()


def test_variances_with_the_persons_are_those_of_dense_least_squares() -> None:
    """As of one more row of measurements; none where nothing is known of the members."""
    rng = np.random.default_rng(4)
    sums = counted(Marginal("total", (np.zeros(2, dtype=np.int64),)))
    root = rng.normal(size=(4, 4))
    covariance = root @ root.T + np.eye(4)
    noise = np.array([0.5, 30.0, np.inf])
    implied = Implied(sums, np.zeros((3, 2)), np.repeat(noise[:, None], 2, axis=1), np.ones((3, 2)))
    answers = np.array([[1.0, 1, 1, 1], [0, 1, 0, 0]])
    with_members = covariance @ EXPECTED
    every = np.arange(3)
    found = implied.variances_given(
        every,
        np.tile(np.diag(answers @ covariance @ answers.T), (3, 1)),
        np.tile((answers @ with_members)[:, None], (3, 1, 1)),
        np.tile(with_members[:, None], (3, 1, 1)),
    )
    for variances, v in zip(found, noise, strict=True):
        expected = np.linalg.inv(np.linalg.inv(covariance) + np.outer(EXPECTED, EXPECTED) / v)
        assert variances == pytest.approx(np.diag(answers @ expected @ answers.T))
    assert (found[0] < found[1]).all()
    assert (found[1] < found[2]).all()
