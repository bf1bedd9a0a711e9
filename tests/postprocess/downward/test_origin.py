"""Numbers that may be below 0 are those of the same problem, stated by hand above their least; and their wider ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from oracles.random_problems import random_problem

from postprocess.arrays import IntArray
from postprocess.downward.level import downward_level
from postprocess.downward.origin import Clipped, only_below, origin_of
from postprocess.linear.upward import basis_of, upward_pass
from postprocess.marginal import detail_of
from postprocess.problem import GroupBounds, Problem

LEAST, MOST = -3, 5


def released(problem: Problem) -> list[IntArray]:
    basis = basis_of(replace(problem, further=(detail_of(problem.shape),)))
    out: list[sp.csr_array] = []
    for level, estimate in enumerate(upward_pass(problem, basis)):
        out.append(downward_level(problem, basis, level, estimate, out[-1] if out else None)[0])
    return [counts.toarray() for counts in out]


def bounded(problem: Problem, counts: list[IntArray], least: int, most: int) -> Problem:
    cells = detail_of(problem.shape)
    bounds = tuple((GroupBounds("records", cells, least * n, most * n),) for n in counts)
    return replace(problem, joined=bounds, further=(cells,))


def signed(seed: int, estimator: str, *, above_least: bool) -> tuple[Problem, list[IntArray]]:
    """A problem whose truth counts records, measured as sums of -3 to 5 each; or as those above -3 each, by hand."""
    problem, counts = random_problem(seed, estimator=estimator, roots=1)
    rng = np.random.default_rng(seed)
    measured = []
    for level, n in zip(problem.measured, counts, strict=True):
        sums = rng.integers(LEAST * n, MOST * n + 1)  # each level's own: estimates have to agree, data need not
        noisy = [one.marginal.answer(sums) + rng.integers(-9, 10, (len(n), one.marginal.size)) for one in level]
        least = [one.marginal.answer(LEAST * n) if above_least else 0 for one in level]
        measured.append(tuple(replace(one, values=y - low) for one, y, low in zip(level, noisy, least, strict=True)))
    problem = replace(problem, measured=tuple(measured))
    if above_least:
        return bounded(problem, counts, 0, MOST - LEAST), counts
    return bounded(problem, counts, LEAST, MOST), counts


@pytest.mark.parametrize("estimator", ["full", "topdown"])
@pytest.mark.parametrize("seed", range(3))
def test_sums_below_0_are_those_of_the_problem_stated_above_their_least(seed: int, estimator: str) -> None:
    problem, counts = signed(seed, estimator, above_least=False)
    by_hand, _ = signed(seed, estimator, above_least=True)
    found, expected = released(problem), released(by_hand)
    for sums, above, n in zip(found, expected, counts, strict=True):
        assert (sums == above + LEAST * n).all()
        assert ((sums >= LEAST * n) & (sums <= MOST * n)).all()
    assert any((sums < 0).any() for sums in found)
    for level in range(1, len(found)):
        sums = np.zeros_like(found[level - 1])
        np.add.at(sums, problem.spine.levels[level].parents, found[level])
        assert (sums == found[level - 1]).all()


def test_bounds_from_0_on_have_no_origin() -> None:
    problem, _ = signed(1, "full", above_least=True)
    assert all(origin_of(problem, level) is None for level in range(problem.spine.n_levels))


def test_nothing_is_below_parents_that_are_not_solved() -> None:
    problem, _ = signed(2, "full", above_least=False)
    solved = np.arange(len(problem.spine.levels[1])) % 2 == 0
    (bound,) = only_below(problem, 2, solved).joined[2]
    (whole,) = problem.joined[2]
    kept = solved[problem.spine.levels[2].parents]
    assert (bound.lower[kept] == whole.lower[kept]).all()
    assert (bound.upper[kept] == whole.upper[kept]).all()
    assert not bound.lower[~kept].any()
    assert not bound.upper[~kept].any()


def test_ends_are_wider_by_what_a_wrong_number_of_records_does_where_the_clip_binds() -> None:
    """Sums of 10 records of -3 to 5 each: near the least, far from both ends, near the most."""
    sums = np.array([[-30, 10, 48]])
    tens = np.full((1, 3), 10)
    records = Clipped(tens, tens - 4.0, tens + 2.0, LEAST, MOST)
    free = (np.array([[False, True, True]]), np.array([[True, True, False]]))
    low, high = records.widened(sums, (sums - 8.0, sums + 5.0), free)
    # Two records more make the least 6 less; four fewer make it 12 more, and the most 20 less.
    assert low.tolist() == [[-30 - 10, 10 - 8, 48 - np.ceil(np.hypot(8, 20))]]
    assert high.tolist() == [[-30 + np.hypot(5, 12), 10 + 5, 48 + np.ceil(np.hypot(5, 10))]]
