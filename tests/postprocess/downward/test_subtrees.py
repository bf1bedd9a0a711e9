"""A release by subtrees is that computed at once; what is drawn of one at a cut has the moments of what is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles.random_problems import ESTIMATORS, KINDS, bypassed, random_problem, random_spine, released

from postprocess.algebra import Basis
from postprocess.bounds.declare import propagation
from postprocess.downward.batch import SolverReport, passes_of
from postprocess.downward.level import checked_parents, downward_level
from postprocess.downward.simulation import drawn_terms, factors_of, reported_terms, with_terms
from postprocess.downward.subtrees import ABOVE, Cut, above_cut, cut_of, downward_part, joined, part_of
from postprocess.linear.upward import LevelEstimate, basis_of, estimates_of, level_terms, silent_of, upward_pass
from postprocess.marginal import Marginal
from postprocess.problem import GroupBounds, Problem


def by_subtrees(problem: Problem, cut: Cut) -> tuple[list[np.ndarray], list[SolverReport]]:
    basis, passes = basis_of(problem), passes_of(problem)
    checked = checked_parents(problem.spine, problem.seed)
    parts = [part_of(problem, cut, number) for number in range(len(cut.parts))]
    above = above_cut(problem, cut)
    at_cut = joined([upward_pass(part, basis)[0] for part in parts])
    estimates = upward_pass(above, basis, at_cut, silent_of(problem))
    found: list[np.ndarray] = []
    reports = []
    counts = None
    for level, estimate in enumerate(estimates):
        counts, report = downward_level(above, basis, level, estimate, counts, checked=checked[level], passes=passes)
        found.append(counts.toarray())
        reports.append(report)
    assert counts is not None
    below: list[list[np.ndarray]] = [[] for _ in range(cut.level + 1, problem.spine.n_levels)]
    told = [SolverReport() for _ in below]
    for part, (first, last) in zip(parts, cut.parts, strict=True):
        rows = problem.spine.rows_below(cut.level, first, last)
        flags = [checked[cut.level + 1 + i][own] for i, own in enumerate(rows[:-1])]
        for i, (one, report) in enumerate(downward_part(part, basis, counts[first:last], flags, passes)):
            below[i].append(one.toarray())
            told[i] += report
    return [*found, *(np.concatenate(level) for level in below)], [*reports, *told]


def with_known_totals(problem: Problem, truth: Sequence[np.ndarray], level: int) -> Problem:
    """The problem with the totals of all leaves known below every other geounit of a level, and of no other leaf."""
    total = Marginal("some totals", tuple(np.zeros(n, dtype=np.int64) for n in problem.shape))
    leaves = problem.spine.leaf_offsets(level)
    known = (np.repeat(np.arange(len(leaves) - 1), np.diff(leaves)) % 2 == 0)[:, None]
    answers = total.answer(truth[-1])
    bound = GroupBounds(total.name, total, np.where(known, answers, 0), np.where(known, answers, 10_000))
    bounds = (*problem.constraints.bounds[:-1], (*problem.constraints.bounds[-1], bound))
    return replace(problem, constraints=replace(problem.constraints, bounds=bounds))


FAULTY: dict[str, Any] = {
    "zeros": True, "invariants": False, "complete": False, "estimator": "full", "level": 1, "completed": False
}  # fmt: skip


# What one geounit measures, or knows exactly, decides nothing of another: below, other parts did so once.
@example(**FAULTY, seed=65630, bypass=False, some_totals=False)
# All that a pass states is known of some geounits, which is no precision of 1e16.
@example(**FAULTY, seed=834557, bypass=True, some_totals=True)
@settings(max_examples=5)
@given(
    **KINDS,
    estimator=ESTIMATORS,
    level=st.integers(1, 2),
    bypass=st.booleans(),
    some_totals=st.booleans(),
    completed=st.booleans(),
)
def test_subtrees_give_the_same_whole_numbers(
    seed: int,
    zeros: bool,
    invariants: bool,
    complete: bool,
    estimator: str,
    level: int,
    bypass: bool,
    some_totals: bool,
    completed: bool,
) -> None:
    problem, truth = random_problem(
        seed,
        zeros=zeros,
        invariants=invariants and not zeros,
        complete=complete,
        estimator=estimator,
        shape=(3, 2, 2),
        n_levels=4,
    )
    if bypass:
        problem = bypassed(problem)
    if completed:
        problem = replace(problem, completed=tuple(one.marginal for own in problem.measured for one in own))
    if some_totals:
        problem = with_known_totals(problem, truth, level)
    bounds = propagation(problem.spine, problem.constraints.bounds, problem.constraints.structural_zeros).bounds
    problem = replace(problem, constraints=replace(problem.constraints, bounds=bounds))
    n = len(problem.spine.levels[level])
    cut = Cut(level, tuple((i, min(i + 2, n)) for i in range(0, n, 2)))
    whole, told = released(problem)
    parts, told_by_part = by_subtrees(problem, cut)
    for one, other in zip(whole, parts, strict=True):
        assert np.array_equal(one, other)
    # What the manifest tells of the solvers does not show the cut either.
    for report, other_report in zip(told, told_by_part, strict=True):
        assert report.public() == other_report.public()


def test_parts_hold_every_subtree_once_and_as_many_as_fit() -> None:
    spine = random_spine(np.random.default_rng(1), 6, most=4)
    for most, part in ((200, 50), (60, 60), (1, 1), (10_000, 100)):
        cut = cut_of(spine, 2, most, part)
        if spine.n_leaves * 2 <= most:
            assert cut is None
            continue
        assert cut is not None
        leaves = spine.leaf_offsets(cut.level)
        assert [first for first, _ in cut.parts] == [0, *(last for _, last in cut.parts[:-1])]
        assert cut.parts[-1][1] == len(spine.levels[cut.level])
        sizes = [2 * int(leaves[last] - leaves[first]) for first, last in cut.parts]
        for (first, last), size in zip(cut.parts, sizes, strict=True):
            assert size <= part or last == first + 1
        assert all(one + other > part for one, other in pairwise(sizes) if max(one, other) < part)
        # Another cut would leave a larger subtree, or more above it.
        held = {
            level: max(int(np.diff(spine.leaf_offsets(level)).max()), ABOVE * len(spine.levels[level]))
            for level in range(1, spine.n_levels - 1)
        }
        assert held[cut.level] == min(held.values())


DRAWS = 3000


def subtree(seed: int, *, zeros: bool, invariants: bool, complete: bool) -> tuple[Problem, Basis, np.ndarray]:
    """One subtree of a random problem, without answers, its basis, and what is counted at its top."""
    problem, truth = random_problem(
        seed, zeros=zeros, invariants=invariants, complete=complete, shape=(3, 2, 2), n_levels=4
    )
    bounds = propagation(problem.spine, problem.constraints.bounds, problem.constraints.structural_zeros).bounds
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
        found = estimates(part, basis, top, level_terms(part, basis, 0, top))
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
