"""All linear algebra over a spine against dense generalised least squares over all cells of all its leaves."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles.dense import dense_covariance, leaves_below, query_matrix, subtree_gls
from oracles.random_problems import KINDS, bypassed, random_marginals, random_problem

from geography.spine import Spine
from postprocess import algebra
from postprocess.algebra import Basis
from postprocess.linear import covariances as covariances_module
from postprocess.linear.covariances import (
    LevelClasses,
    LevelCovariances,
    covariances,
    error_by_final,
    expected_errors,
    geounit_classes,
    gradient,
    moments,
    of_leaves,
    of_level,
    pair_factors,
    product_form,
)
from postprocess.linear.downward import SumCovariances, answer_variances_of, unbiased_estimates, variances_of
from postprocess.linear.upward import LevelEstimate, basis_of, estimates_of, own_precisions, upward_pass
from postprocess.marginal import Marginal
from postprocess.problem import GroupBounds, Problem


@dataclass(frozen=True, eq=False)
class World:
    """A problem and what is worked out of it, each once."""

    problem: Problem

    @cached_property
    def basis(self) -> Basis:
        return basis_of(self.problem)

    @cached_property
    def estimates(self) -> list[LevelEstimate]:
        return upward_pass(self.problem, self.basis)

    @cached_property
    def classes(self) -> tuple[LevelClasses, ...]:
        return geounit_classes(self.problem, self.basis)

    @cached_property
    def foretold(self) -> tuple[LevelCovariances, ...]:
        """Covariances without measurements."""
        own = [own_precisions(self.basis, level) for level in self.problem.measured]
        return covariances(self.classes, own, self.problem.estimator)

    @cached_property
    def dense(self) -> np.ndarray:
        return dense_covariance(self.problem)

    def units(self) -> list[tuple[int, int]]:
        """Level and row of every geounit."""
        return [(level, row) for level, one in enumerate(self.problem.spine.levels) for row in range(len(one))]

    def inside(self, level: int, row: int) -> np.ndarray:
        """1 for the leaves of a geounit."""
        spine = self.problem.spine
        return np.isin(np.arange(spine.n_leaves), leaves_below(spine, level, row)).astype(float)

    def marginals(self, *, recode: bool = True) -> list[Marginal]:
        return random_marginals(np.random.default_rng(1), self.problem.shape, recode=recode)


@lru_cache
def world(seed: int) -> World:
    """With zeros, invariants, recodes and several roots."""
    problem, _ = random_problem(
        seed, zeros=seed % 2 == 0, invariants=seed % 3 == 0, roots=1 + seed % 2, shape=(3, 2, 2), n_levels=3
    )
    return World(problem)


@settings(max_examples=15)
@given(**KINDS, roots=st.integers(1, 2), n_levels=st.integers(1, 4), bypass=st.booleans(), recode=st.booleans())
@example(
    seed=1898, zeros=False, invariants=False, complete=False, roots=2, n_levels=3, bypass=True, recode=True
)  # a level without measurements
@example(seed=51888, zeros=True, invariants=True, complete=False, roots=2, n_levels=3, bypass=True, recode=True)
def test_estimates_and_variances_are_those_of_dense_least_squares(  # a problem of any kind
    seed: int, zeros: bool, invariants: bool, complete: bool, roots: int, n_levels: int, bypass: bool, recode: bool
) -> None:
    """Of each subtree alone and of all; with single children that are measured once; foretold, and NaN alike."""
    problem, _ = random_problem(
        seed,
        zeros=zeros,
        invariants=invariants,
        complete=complete,
        roots=roots,
        shape=(2, 2) if n_levels == 4 else (3, 2),
        n_levels=n_levels,
        recode=recode,
    )
    made = World(bypassed(problem) if bypass else problem)
    problem, basis, estimates = made.problem, made.basis, made.estimates
    variances = list(variances_of(problem, estimates))
    assert_subtrees(made)
    above = None
    for level in range(n_levels):
        above = np.vstack([part for _, part in unbiased_estimates(problem, basis, estimates, level, above)])
        answers = [(one, variances[level].of_answers(basis, one)) for one in made.marginals()]
        for marginal, found in answers:
            foretold = of_level(made.classes[level], made.foretold[level]).of_classes(basis, marginal)
            of_rows = foretold[made.classes[level].downward]
            np.testing.assert_allclose(of_rows, found, rtol=1e-6, atol=1e-8)
        for i, mean in enumerate(above):
            dense = subtree_gls(problem, level, i, whole=True)
            if complete:
                assert np.abs(mean - dense.mean).max() < 1e-7 * (1 + np.abs(dense.mean).max())
            for marginal, found in answers:
                matrix = query_matrix(marginal, problem.n_cells)
                known = np.abs(matrix @ dense.estimable - matrix).max(axis=1) < 1e-6
                stated = np.isfinite(found[i])
                assert (stated <= known).all()
                assert stated.all() or not complete
                expected = np.diag(matrix @ dense.covariance @ matrix.T)
                np.testing.assert_allclose(found[i][stated], expected[stated], rtol=1e-6, atol=1e-8)


def assert_subtrees(made: World) -> None:
    """The upward pass: estimate and covariance of each geounit from its own subtree, where it determines them."""
    problem, every_cell = made.problem, np.arange(made.problem.n_cells)
    for level, estimate in enumerate(made.estimates):
        kinds, rows = problem.kinds_of(level), np.arange(len(estimate.classes))
        means = made.basis.unfold(estimates_of(problem, made.basis, level, estimate, rows)[0])
        for i, mean in enumerate(means):
            dense = subtree_gls(problem, level, i)
            assert np.abs(dense.estimable @ (mean - dense.mean)).max() < 1e-7 * (1.0 + np.abs(dense.mean).max())
            if kinds is None or kinds[i] >= 0:
                covariance = made.basis.restricted(estimate.info.covariance[estimate.classes[[i]]], every_cell)[0]
                mine, theirs = (dense.estimable @ one @ dense.estimable for one in (covariance, dense.covariance))
                assert np.abs(mine - theirs).max() < 1e-7 * (1.0 + np.abs(theirs).max()), (level, i)


@pytest.mark.parametrize("seed", range(6))
def test_everything_may_be_known_of_a_geounit(seed: int) -> None:
    """Exact answers at a middle level, exact totals and zeros at the leaves: in some geounits nothing is left open."""
    problem, truth = random_problem(seed, shape=(4, 2), n_levels=3, recode=False, mean=0.5)
    total = Marginal("total", (np.zeros(4, dtype=np.int64), np.zeros(2, dtype=np.int64)))
    first = Marginal("first", (np.arange(4), np.zeros(2, dtype=np.int64)))

    def exact(marginal: Marginal, level: int) -> GroupBounds:
        answers = marginal.answer(truth[level])
        return GroupBounds(marginal.name, marginal, answers, answers)

    present = first.answer(truth[2])
    zeros = GroupBounds("zeros", first, 0 * present, np.where(present == 0, 0, 1 << 40))
    bounds = ((exact(first, 0),), (exact(first, 1),), (exact(total, 2), zeros))
    assert_subtrees(World(replace(problem, constraints=replace(problem.constraints, bounds=bounds))))


def test_the_comparison_notices_another_variance() -> None:
    """Power: with a variance one hundredth larger subtrees are no longer equal, nor the sums over leaves."""
    made = world(1)
    level = made.problem.measured[2]
    measured = (*made.problem.measured[:2], (replace(level[0], variance=1.01 * level[0].variance), *level[1:]))
    wrong = World(replace(made.problem, measured=measured))
    assert np.abs(made.estimates[0].info.covariance - wrong.estimates[0].info.covariance).max() > 1e-6
    assert np.abs(made.dense - wrong.dense).max() > 1e-6


@pytest.mark.parametrize("at_once", [1, 10**9])
@pytest.mark.parametrize("seed", range(4))
def test_variances_of_answers_alone_are_those_of_all_matrices(
    seed: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Class by class as well as of all classes at once; also where things are known or not measured."""
    problem, _ = random_problem(seed, zeros=seed % 2 > 0, invariants=seed % 3 > 0, complete=seed > 1, n_levels=4)
    made = World(problem)
    marginals, expected = made.marginals(recode=False), list(variances_of(problem, made.estimates))
    queries = [marginals, [], marginals[:1], marginals]
    monkeypatch.setattr(algebra, "CHUNK_NUMBERS", at_once)
    found = answer_variances_of(problem, made.basis, made.estimates, queries)
    for level, (own, asked) in enumerate(zip(found, queries, strict=True)):
        assert set(own.by_query) == {marginal.key for marginal in asked}
        for marginal in asked:
            variances = own.by_query[marginal.key][own.classes]
            of_all = expected[level].of_answers(made.basis, marginal)
            np.testing.assert_allclose(variances, of_all, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("at_once", [1, 10**9])
def test_covariances_with_weighted_sums(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(5)
    problem, weights = made.problem, np.random.default_rng(1).normal(size=(2, made.problem.n_cells))
    asked = [SumCovariances(marginal, weights) for marginal in made.marginals(recode=False)]
    monkeypatch.setattr(algebra, "CHUNK_NUMBERS", at_once)
    for level, found in enumerate(answer_variances_of(problem, made.basis, made.estimates, [asked] * 3)):
        for i, own in enumerate(found.classes):
            covariance = subtree_gls(problem, level, i, whole=True).covariance
            for query in asked:
                expected = query_matrix(query.query, problem.n_cells) @ covariance @ weights.T
                np.testing.assert_allclose(found.by_query[query.key][own], expected.ravel(), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_topdown_variances_are_those_of_dense_pseudo_inverses(seed: int) -> None:
    """Of own measurements only, then adjusted to the parent; a cell that one child cannot have is still another's."""
    problem, _ = random_problem(seed, zeros=seed % 2 > 0, estimator="topdown", n_levels=2, shape=(3, 2), recode=False)
    made, cells = World(problem), np.arange(6)
    variances = list(variances_of(problem, made.estimates))
    possible = ~problem.constraints.structural_zeros
    for level, estimate in enumerate(made.estimates):
        rows = [(query_matrix(one.marginal, 6), one.variance) for one in problem.measured[level]]
        matrix = sum((a.T @ a / v for a, v in rows), np.zeros((6, 6)))
        mine = made.basis.restricted(estimate.info.precision[[0]], cells)[0]
        if possible.all():
            np.testing.assert_allclose(mine, matrix, atol=1e-12)
    top, own = (
        made.basis.restricted(one.info.covariance, cells)[one.classes] for one in (made.estimates[0], made.estimates[1])
    )
    found = made.basis.restricted(variances[1].covariance, cells)[variances[1].classes]
    for parent, (first, last) in enumerate(itertools.pairwise(problem.spine.child_offsets(0))):
        together = np.linalg.pinv(own[first:last].sum(axis=0), rcond=1e-10, hermitian=True)
        for child in range(first, last):
            gain = own[child] @ together
            expected = own[child] - gain @ own[child] + gain @ top[parent] @ gain.T
            expected = top[parent] if last - first == 1 else expected
            np.testing.assert_allclose(found[child], expected, atol=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_topdown_variances_are_foretold(seed: int) -> None:
    problem, _ = random_problem(seed, estimator="topdown", n_levels=3, shape=(2, 3))
    made = World(bypassed(problem) if seed % 2 else problem)
    expected = list(variances_of(made.problem, made.estimates))
    for marginal, (level, one) in itertools.product(made.marginals(), enumerate(made.classes)):
        ours = of_level(one, made.foretold[level]).of_answers(made.basis, marginal)
        np.testing.assert_allclose(ours, expected[level].of_answers(made.basis, marginal), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_variances_of_sums_over_any_leaves(seed: int) -> None:
    made = world(seed)
    spine, rng = made.problem.spine, np.random.default_rng(seed)
    for leaves in (rng.random(spine.n_leaves) < share for share in (0.2, 0.5, 0.8, 2.0)):
        for marginal in made.marginals():
            rows = np.kron(leaves.astype(float), query_matrix(marginal, made.problem.n_cells))
            found = of_leaves(spine, made.classes, made.foretold, leaves.astype(float))
            ours = found.of_answers(made.basis, marginal)[0]
            np.testing.assert_allclose(ours, np.diag(rows @ made.dense @ rows.T), rtol=1e-7, atol=1e-7)


def flat(weights: tuple[np.ndarray, ...]) -> np.ndarray:
    """Weights on all cells, `(k, n_cells)`, from those on the values of each attribute."""
    out = np.ones((len(weights[0]), 1))
    for one in weights:
        out = (out[:, :, None] * one[:, None, :]).reshape(len(out), -1)
    return out


@pytest.mark.parametrize("seed", range(6))
def test_moments_of_weighted_sums(seed: int) -> None:
    """Real weights on cells and on leaves; what invariants fix has no variance."""
    made = world(seed)
    problem, rng = made.problem, np.random.default_rng(seed)
    left, right = (tuple(rng.normal(size=(4, n)) for n in problem.shape) for _ in range(2))

    def compare(got: tuple[np.ndarray, ...], leaves: np.ndarray) -> None:
        rows = [np.kron(leaves, flat(weights)) for weights in (left, right)]
        for ours, (one, other) in zip(got, ((0, 0), (1, 1), (0, 1)), strict=True):
            expected = (rows[one] @ made.dense * rows[other]).sum(axis=1)
            np.testing.assert_allclose(ours, expected, rtol=1e-7, atol=1e-6)

    for level, row in made.units():
        one = made.classes[level]
        ours = moments(made.basis, of_level(one, made.foretold[level]), left, right)
        compare(tuple(part[one.downward[row]] for part in ours), made.inside(level, row))
    for signs in ((0, 1), (-1, 0, 1), (-2, 0.5, 3)):
        leaves = rng.choice(np.array(signs, dtype=float), problem.spine.n_leaves)
        got = moments(made.basis, of_leaves(problem.spine, made.classes, made.foretold, leaves), left, right)
        compare(tuple(part[0] for part in got), leaves)
    everybody = tuple(np.ones((1, n)) for n in problem.shape)
    of_all, *_ = moments(made.basis, of_level(made.classes[0], made.foretold[0]), everybody, everybody)
    assert (of_all == 0).all() == (seed % 3 == 0)


def test_sums_that_differ_in_symmetric_attributes_alone_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As blocks of many rows do: compared with the matrices of all cells."""
    monkeypatch.setattr(covariances_module, "LARGE", 0)
    rng, shape = np.random.default_rng(0), (5, 3, 2)
    basis = Basis(shape, (1, 2))
    blocks = rng.normal(size=(3, basis.n_blocks, 5, 5))
    blocks += np.swapaxes(blocks, -1, -2)
    left, right = (tuple(rng.integers(-1, 2, (12, n)).astype(float) for n in shape) for _ in range(2))
    left, right = (left[0][np.arange(12) % 2], *left[1:]), (right[0][np.arange(12) % 4], *right[1:])
    matrices = basis.restricted(blocks, np.arange(30))
    expected = np.stack([(flat(left) @ matrix * flat(right)).sum(axis=1) for matrix in matrices])
    np.testing.assert_allclose(product_form(basis, blocks, left, right), expected, rtol=1e-9, atol=1e-9)


def common(spine: Spine, first: tuple[int, int], second: tuple[int, int]) -> int:
    """The level of the last geounit above both, or of one that is above the other; -1 where there is none."""
    paths = []
    for level, row in (first, second):
        path = [row]
        for number in range(level, 0, -1):
            path.append(int(spine.levels[number].parents[path[-1]]))
        paths.append(path[::-1])
    return sum(itertools.accumulate((a == b for a, b in zip(*paths, strict=False)), min)) - 1


@pytest.mark.parametrize("seed", range(4))
def test_covariances_of_pairs_of_geounits_from_their_factors(seed: int) -> None:
    """Answers with one and with several rows, of every pair of geounits of any levels, with one, and with two roots."""
    made = world(seed)
    spine, basis = made.problem.spine, made.basis
    marginal = Marginal("whole", tuple(np.arange(n) for n in made.problem.shape))
    parts, places = basis.answer_factors(marginal)[1], basis.answer_order(marginal)
    sizes = np.sqrt(parts[0] * math.prod(basis.symmetric_shape))
    by_level = [pair_factors(basis, made.classes, made.foretold, level, marginal) for level in range(spine.n_levels)]

    def answers(block_rows: np.ndarray) -> np.ndarray:
        return np.asarray((block_rows[:, :, None] * parts[:, None, :]).sum(axis=0).ravel()[places])

    cells = np.eye(made.problem.n_cells)
    for one, other in itertools.combinations_with_replacement(made.units(), 2):
        depth = common(spine, one, other)
        upper, lower = sorted((one, other))
        left, right = (made.classes[level].downward[row] for level, row in (lower, upper))
        factors, above = by_level[lower[0]], by_level[upper[0]]
        n_rows = factors.nested.shape[-1]
        n_rows -= n_rows > 1
        # Each answer with the same one, and with the whole of the other, the mean of both ways.
        if depth < 0:
            ours, with_whole = np.zeros(len(cells)), np.zeros(n_rows)
        elif depth == upper[0]:
            ours, with_whole = answers(factors.nested[left, depth, :, :n_rows]), factors.crossed[left, depth, :n_rows]
        else:
            products = factors.shared[left, depth] * above.shared[right, depth]
            ours = answers(-products.sum(axis=-1)[:, :n_rows])
            here, there = factors.shared[left, depth, 0], above.shared[right, depth, 0]
            with_whole = -0.5 * (here @ there[-1] + there @ here[-1])[:n_rows]
        first, second = (np.kron(made.inside(*unit), cells) for unit in (one, other))
        np.testing.assert_allclose(ours, (first @ made.dense * second).sum(axis=1), rtol=1e-6, atol=1e-6)
        ours = (with_whole[:, None] * sizes[None, :]).ravel()[places]
        expected = 0.5 * (first @ made.dense @ second.sum(axis=0) + second @ made.dense @ first.sum(axis=0))
        np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("estimator", ["full", "topdown"])
@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_is_that_of_differences(seed: int, estimator: str) -> None:
    """For a random level and query, in every measured query's precision."""
    problem, _ = random_problem(
        seed, zeros=seed % 2 == 0, invariants=seed % 3 == 0, shape=(3, 2, 2), n_levels=3, estimator=estimator
    )
    made, rng = World(problem), np.random.default_rng(seed)
    level, marginal = int(rng.integers(1, 3)), made.marginals()[int(rng.integers(8))]
    classes, found = made.classes, made.foretold

    def value(changed: Problem) -> float:
        own = [own_precisions(made.basis, of_level) for of_level in changed.measured]
        moved = covariances(classes, own, estimator)[level]
        return expected_errors(made.basis, classes[level], moved, marginal).per_geounit

    by_final = [np.zeros_like(one.final) for one in found]
    by_final[level] = error_by_final(made.basis, classes[level], found[level], marginal)
    by_own = gradient(classes, found, by_final, estimator)
    for number, queries in enumerate(problem.measured):
        for i, one in enumerate(queries):
            ours = float((by_own[number] * made.basis.precision([(one.marginal, 1.0)])).sum())
            step, moved = 1e-4 / one.variance, []
            for sign in (1, -1):
                other = replace(one, variance=1.0 / (1.0 / one.variance + sign * step))
                changed = list(problem.measured)
                changed[number] = (*queries[:i], other, *queries[i + 1 :])
                moved.append(value(replace(problem, measured=tuple(changed))))
            assert ours == pytest.approx((moved[0] - moved[1]) / (2 * step), rel=2e-4, abs=1e-6)
