"""One measurement more: estimate and variance equal dense least squares over the whole spine, and intervals hold."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from oracles.dense import answered, query_matrix, subtree_gls
from oracles.random_problems import bypassed, random_problem

from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.sampler import sampler_for
from postprocess.linear.one_more import linear_answers, with_one_more
from postprocess.marginal import Marginal
from postprocess.problem import MeasuredAnswers, Problem
from postprocess.statistics import NORMAL_QUANTILE

#: Of the first attribute, with three values: groups, and which of them are asked for.
FIRST = (
    (np.array([0, 1, 2]), np.array([True, True, False])),
    (np.array([0, 0, 1]), np.array([False, True])),
    (np.array([0, 0, 0]), np.array([True])),
)
SECOND = (np.array([True, False]), np.array([True, True]))


def question(seed: int) -> Marginal:
    """A query on attributes of 3, 2 and 2 values, of which some answers are asked for."""
    groups, asked = FIRST[seed % 3]
    nothing = np.zeros(2, dtype=np.int64)
    return Marginal("question", (groups, np.arange(2), nothing), (asked, SECOND[seed % 2], np.array([True])))


def one_more(seed: int, problem: Problem, truth: list[np.ndarray], variance: float) -> tuple[Problem, int, Marginal]:
    rng, level, query = np.random.default_rng(seed), seed % problem.spine.n_levels, question(seed)
    noise = np.rint(rng.normal(0, variance**0.5, (len(truth[level]), query.size))).astype(np.int64)
    values = np.where(answered(query), query.answer(truth[level]) + noise, 0)
    return with_one_more(problem, level, MeasuredAnswers(query, values, variance)), level, query


@pytest.mark.parametrize("bypass", [False, True])
@pytest.mark.parametrize("seed", range(7))
def test_equals_dense_least_squares(seed: int, bypass: bool) -> None:
    """With zeros, invariants, levels that are not measured, and only children that are not."""
    problem, truth = random_problem(
        seed, shape=(3, 2, 2), zeros=seed % 3 == 0, invariants=seed % 4 < 2, roots=1 + seed % 2, complete=seed % 5 != 0
    )
    together, level, query = one_more(seed, bypassed(problem) if bypass else problem, truth, 3.0)
    found = linear_answers(together, level, query)
    matrix, asked = query_matrix(replace(query, answered=()), 12), answered(query)
    for i in range(len(found.values)):
        dense = subtree_gls(together, level, i, whole=True)
        expected = (matrix @ dense.mean)[asked]
        assert np.abs(found.values[i][asked] - expected).max() < 1e-7 * (1 + np.abs(expected).max())
        variances = np.diag(matrix @ dense.covariance @ matrix.T)[asked]
        np.testing.assert_allclose(found.variances[i][asked], variances, rtol=1e-6, atol=1e-8)


def with_last(problem: Problem, level: int, last: MeasuredAnswers) -> Problem:
    """The problem with another last measurement of a level."""
    measured = list(problem.measured)
    measured[level] = (*measured[level][:-1], last)
    return replace(problem, measured=tuple(measured))


def test_the_oracle_tells_another_variance() -> None:
    """The power of the test above: 5 % off shows in numbers and variances."""
    problem, truth = random_problem(1, shape=(3, 2, 2))
    together, level, query = one_more(1, problem, truth, 3.0)
    other = with_last(together, level, replace(together.measured[level][-1], variance=3.15))
    found, wrong = (linear_answers(one, level, query) for one in (together, other))
    asked = answered(query)
    assert np.abs(found.variances - wrong.variances)[:, asked].max() > 1e-4
    assert np.abs(found.values - wrong.values)[:, asked].max() > 1e-4


def test_a_zero_that_is_not_asked_for_says_nothing() -> None:
    problem, truth = random_problem(5, shape=(3, 2, 2))
    together, level, query = one_more(5, problem, truth, 3.0)
    last = together.measured[level][-1]
    changed = with_last(together, level, replace(last, values=np.where(answered(query), last.values, 1000)))
    assert np.array_equal(linear_answers(together, level, query).values, linear_answers(changed, level, query).values)


@pytest.fixture(scope="module")
def errors() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of 250 keys: errors of the combined numbers, their variances, those of the release alone; the answer's variance.

    All noise is drawn by the program's own sampler, a discrete Gaussian; the truth is known.
    """
    problem, truth = random_problem(3, shape=(3, 2, 2), zeros=True, invariants=True)
    query, level = question(3), 2
    asked, true = answered(query), query.answer(truth[level])
    noise = DiscreteGaussian(Fraction(5))
    found, both, alone = [], np.zeros(0), np.zeros(0)
    for number in range(250):
        drawn = with_noise(problem, truth, number)
        values = np.where(asked, true + noise_of(noise, true.shape, bytes([number, 99])), 0)
        combined = linear_answers(
            with_one_more(drawn, level, MeasuredAnswers(query, values, noise.variance)), level, query
        )
        found.append((combined.values - true)[:, asked].ravel())
        both = combined.variances[:, asked].ravel()
        if not number:
            alone = linear_answers(drawn, level, query).variances[:, asked].ravel()
    return np.array(found), both, alone, np.array(noise.variance)


def with_noise(problem: Problem, truth: list[np.ndarray], number: int) -> Problem:
    """The problem with its measurements drawn anew."""
    measured = []
    for level, counts in enumerate(truth):
        new = []
        for place, one in enumerate(problem.measured[level]):
            noise = DiscreteGaussian(Fraction(4 * one.variance))
            drawn = noise_of(noise, (len(counts), one.marginal.size), bytes([number, level, place]))
            new.append(replace(one, values=one.marginal.answer(counts) + drawn, variance=noise.variance))
        measured.append(tuple(new))
    return replace(problem, measured=tuple(measured))


def noise_of(noise: NoiseSpec, shape: tuple[int, ...], key: bytes) -> np.ndarray:
    return sampler_for(noise).draw(key.ljust(32, b"."), 0, int(np.prod(shape))).reshape(shape)


def covered(errors: np.ndarray, variances: np.ndarray) -> float:
    noisy = variances > 1e-9
    assert noisy.sum() >= 8
    return float((np.abs(errors[:, noisy]) <= NORMAL_QUANTILE * np.sqrt(variances[noisy])).mean())


def test_combined_intervals_cover_and_are_no_wider(errors: tuple[np.ndarray, ...]) -> None:
    """88 to 93 %, of noise with known truth; and what is exact stays so."""
    found, both, alone, own = errors
    assert 0.88 <= covered(found, both) <= 0.93
    assert (both <= np.minimum(alone, own) + 1e-9).all()
    assert both.mean() < 0.9 * np.minimum(alone, own).mean()
    assert np.abs(found.mean(axis=0)).max() < 4 * np.sqrt(both.max() / len(found))


@pytest.mark.parametrize("factor", [0.7, 1.5])
def test_coverage_tells_wrong_variances(errors: tuple[np.ndarray, ...], factor: float) -> None:
    found, both, *_ = errors
    assert not 0.88 <= covered(found, factor * both) <= 0.93
