"""Joint draws have exactly the covariance of dense algebra, add up, and cover the truth as often as they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pytest
from oracles.dense import dense_covariance, leaves_below, query_matrix
from oracles.random_problems import bypassed, level_sums, random_marginals, random_problem

from geography.spine import Level, Spine
from postprocess.algebra import Basis
from postprocess.linear.downward import unbiased_estimates
from postprocess.linear.draws import (
    STEPS,
    UNKNOWN,
    DrawnLevel,
    DrawnRows,
    at_top,
    draw,
    drawn_levels,
    persons,
    within_families,
)
from postprocess.linear.upward import basis_of, upward_pass
from postprocess.marginal import Marginal, detail_of
from postprocess.problem import Constraints, MeasuredAnswers, Problem

Fault = Callable[[tuple[DrawnLevel, ...]], tuple[DrawnLevel, ...]]


@dataclass(frozen=True, eq=False)
class Linear:
    """The draws of a problem as what they are: linear functions of their normal numbers.

    Attributes:
        asked: per level, the queries whose answers are drawn.
        fault: what a mistake makes of the levels.
    """

    problem: Problem
    asked: Sequence[Sequence[Marginal]]
    fault: Fault = tuple

    @cached_property
    def levels(self) -> tuple[DrawnLevel, ...]:
        basis = basis_of(self.problem)
        return self.fault(drawn_levels(self.problem, basis, upward_pass(self.problem, basis), self.asked))

    @property
    def numbers(self) -> int:
        return sum(level.numbers * len(level.classes) for level in self.levels)

    def of(self, standard: np.ndarray) -> list[list[DrawnRows]]:
        """One draw from all its normal numbers, level by level; what is taken is what is there."""
        rest = dict(self._split(standard))
        taken = {level: np.zeros(len(part), dtype=bool) for level, part in rest.items()}

        def normals(level: int, first: int, shape: tuple[int, int]) -> np.ndarray:
            rows = slice(first * shape[1], (first + shape[0]) * shape[1])
            assert not taken[level][rows].any(), "a number was used twice"
            taken[level][rows] = True
            return rest[level][rows].reshape(shape)

        drawn = [list(parts) for parts in draw(self.problem.spine, self.levels, normals)]
        assert all(part.all() for part in taken.values())
        return drawn

    def _split(self, standard: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        first = 0
        for number, level in enumerate(self.levels):
            last = first + level.numbers * len(level.classes)
            yield number, standard[first:last]
            first = last

    def answers(self, level: int, marginal: Marginal) -> tuple[np.ndarray, np.ndarray]:
        """Mean `(n * size,)` of a level's answers, and the matrix that the normal numbers are multiplied by."""
        basis = basis_of(self.problem)

        def found(standard: np.ndarray) -> np.ndarray:
            return joined(basis, marginal, self.of(standard)[level]).ravel()

        mean = found(np.zeros(self.numbers))
        return mean, np.stack([found(unit) - mean for unit in np.eye(self.numbers)], axis=1)


def joined(basis: Basis, marginal: Marginal, parts: list[DrawnRows]) -> np.ndarray:
    """Answers of all geounits of a level, `(n, size)`."""
    return np.concatenate([part.answers(basis, marginal) for part in parts])


def leaf_matrix(problem: Problem, level: int, marginal: Marginal) -> np.ndarray:
    """From the cells of all leaves to a query's answers in the geounits of a level."""
    spine = problem.spine
    inside = [
        np.isin(np.arange(spine.n_leaves), leaves_below(spine, level, i)) for i in range(len(spine.levels[level]))
    ]
    return np.vstack([np.kron(row.astype(float), query_matrix(marginal, problem.n_cells)) for row in inside])


def cases() -> Iterator[Problem]:
    for seed in range(8):
        problem, _ = random_problem(
            seed, zeros=seed % 2 == 0, invariants=seed % 3 == 0, roots=1 + seed % 2, shape=(3, 2, 2), n_levels=3
        )
        yield bypassed(problem) if seed in (3, 6) else problem


def mismatch(problem: Problem, fault: Fault = tuple) -> float:
    """The largest difference between the covariance of the leaves' draws and that of dense algebra."""
    detail, last = detail_of(problem.shape), problem.spine.n_levels - 1
    linear = Linear(problem, [[]] * last + [[detail]], fault)
    matrix = linear.answers(last, detail)[1]
    return float(np.abs(matrix @ matrix.T - dense_covariance(problem)).max())


def test_covariance_of_all_leaves_equals_dense_algebra() -> None:
    """With zeros, facilities, invariants, several roots and bypassed geounits; no sampling error is involved."""
    for problem in cases():
        assert mismatch(problem) < 1e-8


def _children_alone(levels: tuple[DrawnLevel, ...]) -> tuple[DrawnLevel, ...]:
    """A mistake: children are drawn by themselves, whatever their parent is."""
    return tuple(
        level if level.precision is None else replace(level, precision=0 * level.precision) for level in levels
    )


def _wider(levels: tuple[DrawnLevel, ...]) -> tuple[DrawnLevel, ...]:
    """A mistake: the noise of one level is a tenth too large."""
    return (*levels[:-1], replace(levels[-1], factor=1.1 * levels[-1].factor))


@pytest.mark.parametrize("fault", [_children_alone, _wider])
def test_the_comparison_notices_mistakes(fault: Fault) -> None:
    assert sum(mismatch(problem, fault) > 1e-3 for problem in list(cases())[:4]) >= 3


@pytest.mark.parametrize("seed", range(4))
def test_summed_out_attributes_change_nothing(seed: int) -> None:
    """Other queries at each level, so that each is drawn with the attributes that it and those below need."""
    problem, _ = random_problem(seed, zeros=seed == 1, invariants=seed == 2, shape=(3, 2, 2), n_levels=3, recode=False)
    rng = np.random.default_rng(seed)
    offered = random_marginals(rng, problem.shape, recode=True)
    asked = [[offered[int(i)]] for i in rng.integers(0, len(offered), 3)]
    dense = dense_covariance(problem)
    linear = Linear(problem, asked)
    for level, (marginal,) in enumerate(asked):
        matrix = linear.answers(level, marginal)[1]
        rows = leaf_matrix(problem, level, marginal)
        np.testing.assert_allclose(matrix @ matrix.T, rows @ dense @ rows.T, atol=1e-8)


def test_the_mean_is_the_unbiased_estimate_and_children_add_up_in_every_draw() -> None:
    for problem in cases():
        basis, detail = basis_of(problem), detail_of(problem.shape)
        linear = Linear(problem, [[detail]] * problem.spine.n_levels)
        means, drawn = (
            [joined(basis, detail, parts) for parts in linear.of(numbers)]
            for numbers in (np.zeros(linear.numbers), np.random.default_rng(1).standard_normal(linear.numbers))
        )
        estimates, above = upward_pass(problem, basis), None
        for level, mean in enumerate(means):
            above = np.vstack([part for _, part in unbiased_estimates(problem, basis, estimates, level, above)])
            np.testing.assert_allclose(mean, above, atol=1e-9)
        for summed, of_level in zip(level_sums(problem.spine, drawn[-1]), drawn, strict=True):
            np.testing.assert_allclose(summed, of_level, atol=1e-8)


def counties(n: int, tracts: int) -> Spine:
    """`n` counties that have nothing to do with each other, each with so many tracts."""
    above = Level("county", np.array([f"{i:05d}" for i in range(n)]), np.full(n, -1))
    parents = np.repeat(np.arange(n), tracts)
    codes = np.array([f"{parent:05d}{i:07d}" for i, parent in enumerate(parents)])
    return Spine((above, Level("tract", codes, parents)))


def measured_counties(spine: Spine, truth: np.ndarray, rng: np.random.Generator) -> Problem:
    """The true counts `(n_tracts, 4)`, measured in whole numbers at both levels."""
    total, detail = Marginal("total", (np.zeros(2, dtype=np.int64),) * 2), detail_of((2, 2))
    above = np.zeros((len(spine.levels[0]), 4), dtype=np.int64)
    np.add.at(above, spine.levels[1].parents, truth)

    def noisy(marginal: Marginal, counts: np.ndarray, variance: float) -> MeasuredAnswers:
        exact = marginal.answer(counts)
        noise = np.rint(rng.normal(0, (variance - 1 / 12) ** 0.5, exact.shape)).astype(np.int64)
        return MeasuredAnswers(marginal, exact + noise, variance)

    levels = (
        (noisy(total, above, 9.0), noisy(detail, above, 30.0)),
        (noisy(total, truth, 20.0), noisy(detail, truth, 36.0)),
    )
    return Problem(spine, (2, 2), levels, Constraints(np.zeros(4, dtype=bool), ((), ())), ())


def tract_draws(problem: Problem, count: int, rng: np.random.Generator, *, wider: float = 1.0) -> np.ndarray:
    """`(count, n_tracts, 4)`; `wider` is a fault."""
    basis, detail = basis_of(problem), detail_of((2, 2))
    levels = drawn_levels(problem, basis, upward_pass(problem, basis), [[], [detail]])
    levels = tuple(replace(level, factor=wider * level.factor) for level in levels)

    def normals(_level: int, _first: int, shape: tuple[int, int]) -> np.ndarray:
        return rng.standard_normal(shape)

    drawn = [[list(parts) for parts in draw(problem.spine, levels, normals)][1] for _ in range(count)]
    return np.stack([joined(basis, detail, parts) for parts in drawn])


@pytest.mark.parametrize(("wider", "holds"), [(1.0, True), (1.2, False), (0.85, False)])
def test_intervals_cover_nine_tenths_of_large_counts(wider: float, holds: bool) -> None:
    """Counts above three standard errors; 19 draws, lowest to highest. With draws too wide or narrow it fails."""
    rng = np.random.default_rng(3)
    spine = counties(300, 12)
    truth = rng.poisson(rng.gamma(1.5, 40.0, (3600, 4))).astype(np.int64)
    problem = measured_counties(spine, truth, rng)
    drawn = tract_draws(problem, 19, rng, wider=wider)
    large = truth > 18  # the standard error of a cell is just below 6
    covered = ((drawn.min(axis=0) <= truth) & (truth <= drawn.max(axis=0)))[large].mean()
    assert large.sum() > 5000
    assert (0.88 <= covered <= 0.92) == holds


# On the grid of a draw children add up exactly, known answers are whole persons, nothing moves by more than a little.


def family_case(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Offsets, children's answers, which are known, parents' answers, which parents' are known."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 7, 40))])
    n, size = int(offsets[-1]), 5
    known = rng.random((n, size)) < 0.3
    answers = rng.normal(30, 40, (n, size))
    answers = np.where(known, np.rint(answers), answers)
    above_known = np.logical_and.reduceat(known, offsets[:-1], axis=0)
    # Some parents are known although not all of their children are: the last child that is not makes up for it.
    forced = (rng.random(above_known.shape) < 0.3) & ~above_known
    for parent, answer in np.argwhere(forced):
        rows = slice(int(offsets[parent]), int(offsets[parent + 1]))
        last = int(np.flatnonzero(~known[rows, answer])[-1]) + rows.start
        answers[last, answer] += np.rint(answers[rows, answer].sum()) - answers[rows, answer].sum()
    return offsets, answers, known, np.add.reduceat(answers, offsets[:-1], axis=0), above_known | forced


@pytest.mark.parametrize("seed", range(6))
def test_families_add_up_and_known_answers_stay(seed: int) -> None:
    offsets, answers, known, above, above_known = family_case(seed)
    nothing = np.zeros_like(known)
    # A level between: its own rounding is what the children have to make up for.
    top = at_top(above + 1e-12, above_known)
    steps = within_families(answers + 1e-12, known, nothing, top, np.zeros_like(above_known), offsets)
    assert np.array_equal(np.add.reduceat(steps, offsets[:-1], axis=0), top)
    assert np.array_equal(persons(steps)[known], np.rint(answers)[known])
    assert np.array_equal(persons(top)[above_known], np.rint(above)[above_known])
    assert np.abs(steps / STEPS - answers).max() < 2.5 / STEPS


def test_a_family_with_an_unknown_answer_is_rounded_one_by_one() -> None:
    offsets = np.array([0, 2, 4])
    answers = np.array([[0.3], [0.4], [0.3], [0.4]])
    unknown = np.array([[True], [False], [False], [False]])
    false = np.zeros((4, 1), dtype=bool)
    top = np.array([[1000], [179]])
    steps = within_families(answers, false, unknown, top, false[:2], offsets)
    assert steps[:, 0].tolist()[:2] == [77, 102]
    assert steps[2:].sum() == 179
    assert np.isnan(persons(np.where(unknown, UNKNOWN, steps))).ravel().tolist() == [True, False, False, False]
