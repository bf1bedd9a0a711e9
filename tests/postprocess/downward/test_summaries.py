"""What is drawn of a subtree at a cut has the moments of what its measurements would give, direction by direction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from oracles.random_problems import random_problem

from postprocess.algebra import Basis
from postprocess.bounds.declare import propagate
from postprocess.downward.subtrees import Cut, part_of
from postprocess.downward.summaries import (
    drawn_terms,
    factors_of,
    measured_terms,
    reported_terms,
    with_terms,
)
from postprocess.linear.upward import LevelEstimate, basis_of, estimates_of, upward_pass
from postprocess.problem import Problem

DRAWS = 3000


def subtree(seed: int, *, zeros: bool, invariants: bool, complete: bool) -> tuple[Problem, Basis, np.ndarray]:
    """One subtree of a random problem, without answers, its basis, and what is counted at its top."""
    problem, truth = random_problem(
        seed, zeros=zeros, invariants=invariants, complete=complete, shape=(3, 2, 2), n_levels=4
    )
    bounds = propagate(problem.spine, problem.constraints.bounds, problem.constraints.structural_zeros)
    problem = replace(problem, constraints=replace(problem.constraints, bounds=bounds))
    part = part_of(problem, Cut(1, ((0, 1),)), 0)
    return part, basis_of(problem), truth[1][:1]


def estimates(part: Problem, basis: Basis, top: LevelEstimate, terms: np.ndarray) -> np.ndarray:
    """Best linear estimates `(n, n_cells)` from linear terms at the top."""
    bare = replace(part, measured=((), *part.measured[1:]))
    out = []
    for term in terms:
        best, _ = estimates_of(bare, basis, 0, with_terms(top, term[None]), np.zeros(1, dtype=np.int64))
        out.append(basis.unfold(best)[0])
    return np.array(out)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("invariants", [False, True])
def test_drawn_estimates_are_as_the_linear_theory_says(zeros: bool, complete: bool, invariants: bool) -> None:
    for seed in range(1):
        part, basis, truth = subtree(seed, zeros=zeros, invariants=invariants and not zeros, complete=complete)
        top = upward_pass(part, basis)[0]
        many = replace(top, classes=np.zeros(DRAWS, dtype=np.int64))
        counts = sp.csr_array(np.repeat(truth, DRAWS, axis=0))
        terms = drawn_terms(basis, many, factors_of(top.info), counts, np.random.default_rng(seed))
        drawn = estimates(part, basis, top, terms)
        cells = np.arange(part.n_cells)
        covariance = basis.restricted(top.info.covariance[:1], cells)[0]
        unseen = basis.restricted(top.info.unmeasured[:1], cells)[0]
        expected = truth[0] - unseen @ truth[0]
        error = np.sqrt(np.maximum(np.diag(covariance), 0.0) / DRAWS)
        assert (np.abs(drawn.mean(axis=0) - expected) <= 5 * error + 1e-6).all()
        scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance))) + 1e-9
        assert (np.abs(np.cov(drawn.T) - covariance) / scale.max() < 0.15).all()
        # Nothing moves where zeros and invariants fix it, and nothing is made up where nothing was measured.
        still = basis.restricted(top.info.known[:1], cells)[0] + unseen
        assert np.abs((drawn - drawn[0]) @ still).max() < 1e-6


def test_measured_terms_give_the_estimate_of_the_upward_pass() -> None:
    for seed in range(6):
        part, basis, _ = subtree(seed, zeros=seed % 2 == 0, invariants=False, complete=seed % 3 > 0)
        top = upward_pass(part, basis)[0]
        expected, _ = estimates_of(part, basis, 0, top, np.zeros(1, dtype=np.int64))
        found = estimates(part, basis, top, measured_terms(part, basis, top))
        assert np.allclose(found, basis.unfold(expected), atol=1e-6)


def test_reported_terms_give_the_debiased_counts_themselves() -> None:
    """Their number is known, so that they are moved to add up to it; each answer keeps an error of its own."""
    part, basis, _ = subtree(3, zeros=False, invariants=False, complete=True)
    top = upward_pass(part, basis)[0]
    many = replace(top, classes=np.zeros(DRAWS, dtype=np.int64))
    rng = np.random.default_rng(8)
    counts = rng.integers(0, 50, (DRAWS, part.n_cells))
    spread = np.linspace(1, 9, part.n_cells)
    debiased = counts + rng.normal(0, spread, counts.shape)
    firsts: list[int] = []

    def reported(first: int, answers: np.ndarray) -> np.ndarray:
        firsts.append(first)
        assert np.array_equal(answers, counts[first : first + len(answers)])
        return debiased[first : first + len(answers)].copy()

    terms = reported_terms(basis, many, sp.csr_array(counts), reported)
    moved = debiased + (counts.sum(axis=1) - debiased.sum(axis=1))[:, None] / part.n_cells
    assert firsts[0] == 0
    assert np.allclose(estimates(part, basis, top, terms[:50]), moved[:50])
