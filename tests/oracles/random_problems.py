"""Small random problems: spines, schemas, strategies, constraints, whole-number truths and noisy answers."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Final

import numpy as np
from hypothesis import strategies as st

from geography.spine import Level, Spine, last_levels
from postprocess.downward.batch import SolverReport
from postprocess.downward.level import downward_level
from postprocess.linear.upward import basis_of, upward_pass
from postprocess.marginal import Marginal
from postprocess.problem import Constraints, GroupBounds, MeasuredAnswers, Problem

#: Of a test, what problems of all kinds are drawn by; further strategies are given beside it.
KINDS: Final = {
    "seed": st.integers(0, 10**6),
    "zeros": st.booleans(),
    "invariants": st.booleans(),
    "complete": st.booleans(),
}
ESTIMATORS = st.sampled_from(["full", "topdown"])


def random_spine(rng: np.random.Generator, n_levels: int, *, roots: int = 1, most: int = 3) -> Spine:
    """Codes increase below each parent, and begin anew below the next, as those of states do below regions."""
    levels = [Level("level0", np.array([f"{i:0{len(str(roots - 1))}}" for i in range(roots)]), np.full(roots, -1))]
    for depth in range(1, n_levels):
        children = rng.integers(1, most + 1, len(levels[-1].geocodes))
        parents = np.repeat(np.arange(len(children)), children)
        codes = [f"{i:02}.{levels[-1].geocodes[p]}" for p, n in enumerate(children) for i in range(n)]
        levels.append(Level(f"level{depth}", np.array(codes), parents.astype(np.int64)))
    return Spine(tuple(levels))


def random_marginals(rng: np.random.Generator, shape: tuple[int, ...], *, recode: bool) -> list[Marginal]:
    """All products of keeping an attribute whole, summing it out, and one recode of the first attribute."""
    choices = []
    for j, n in enumerate(shape):
        options = [np.zeros(n, dtype=np.int64), np.arange(n)]
        if j == 0 and recode and n > 2:
            options.append(np.concatenate([[0, 1], rng.integers(0, 2, n - 2)]))
        choices.append(options)
    return [Marginal(f"q{i}", groups) for i, groups in enumerate(itertools.product(*choices))]


def level_sums(spine: Spine, leaves: np.ndarray) -> list[np.ndarray]:
    """Counts `(n_leaves, n_cells)` added up at every level, top first."""
    sums = [leaves]
    for level in range(spine.n_levels - 1, 0, -1):
        above = np.zeros((len(spine.levels[level - 1].geocodes), leaves.shape[1]), dtype=leaves.dtype)
        np.add.at(above, spine.levels[level].parents, sums[0])
        sums.insert(0, above)
    return sums


def random_problem(
    seed: int,
    *,
    shape: tuple[int, ...] = (3, 2, 3),
    n_levels: int = 3,
    roots: int = 1,
    recode: bool = True,
    complete: bool = True,
    zeros: bool = False,
    invariants: bool = False,
    estimator: str = "full",
    mean: float = 3.0,
) -> tuple[Problem, list[np.ndarray]]:
    """A problem and the truth of every level. Not `complete`: whole levels and the detail may go unmeasured."""
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, n_levels, roots=roots)
    n_cells = int(np.prod(shape))
    leaves = rng.poisson(mean * rng.gamma(0.7, 1.0, (spine.n_leaves, n_cells))).astype(np.int64)
    structural = np.zeros(shape, dtype=bool)
    total = Marginal("total", tuple(np.zeros(n, dtype=np.int64) for n in shape))
    first = Marginal("first", (np.arange(shape[0]), *(np.zeros(n, dtype=np.int64) for n in shape[1:])))
    if zeros:
        structural[0, 0] = True
        leaves[:, structural.ravel()] = 0
        absent = rng.random((spine.n_leaves, shape[0])) < 0.3
        leaves.reshape(-1, *shape)[absent] = 0
    truth = level_sums(spine, leaves)
    bounds: list[list[GroupBounds]] = [[] for _ in truth]
    if zeros:
        for level, counts in enumerate(level_sums(spine, (~absent).astype(np.int64))):
            bounds[level].append(GroupBounds("facilities", first, 0 * counts, 10_000 * counts))
    if invariants:
        chosen = int(rng.integers(0, n_levels))
        for level in range(chosen + 1):
            answer = total.answer(truth[level])
            bounds[level].append(GroupBounds("total", total, answer, answer))
    marginals = random_marginals(rng, shape, recode=recode)
    detailed = next(m for m in marginals if m.size == n_cells)
    measured: list[tuple[MeasuredAnswers, ...]] = []
    for counts in truth:
        picked = [m for m in marginals if rng.random() < 0.4]
        if complete and detailed not in picked:
            picked.append(detailed)
        if not complete and rng.random() < 0.25:
            picked = []
        taken: list[MeasuredAnswers] = []
        for marginal in picked:
            variance = float(rng.choice([0.5, 2.0, 9.0, 40.0]))
            noise = np.rint(rng.normal(0, variance**0.5, (len(counts), marginal.size))).astype(np.int64)
            taken.append(MeasuredAnswers(marginal, marginal.answer(counts) + noise, variance))
        measured.append(tuple(taken))
    problem = Problem(
        spine=spine,
        shape=shape,
        measured=tuple(measured),
        constraints=Constraints(structural.ravel(), tuple(tuple(level) for level in bounds)),
        passes=(total,),
        estimator=estimator,
    )
    return problem, truth


def released(problem: Problem, *, checked: bool = True) -> tuple[list[np.ndarray], list[SolverReport]]:
    """The whole numbers of every level, and what is told of each; not `checked`: without a second solver's opinion."""
    basis = basis_of(problem)
    above, counts, told = None, [], []
    for level, estimate in enumerate(upward_pass(problem, basis)):
        unchecked = None if checked else np.zeros(len(problem.spine.levels[max(level - 1, 0)]), dtype=bool)
        above, report = downward_level(problem, basis, level, estimate, above, checked=unchecked)
        counts.append(above.toarray())
        told.append(report)
    return counts, told


def bypassed(problem: Problem) -> Problem:
    """The problem with geounits without siblings measured once: more precisely above, and not at all below."""
    last = last_levels(problem.spine, [bool(level) for level in problem.measured])
    kinds, measured = [], []
    for number, (ends, level) in enumerate(zip(last, problem.measured, strict=True)):
        kind = np.where(ends < 0, -1, ends - number).astype(np.int8)
        factors = [1.0 / (1.0 + 0.7 * extra) for extra in range(1, problem.spine.n_levels)]
        again = [replace(one, others=tuple(one.variance * factor for factor in factors)) for one in level]
        measured.append(tuple(replace(one, values=np.where(kind[:, None] < 0, 0, one.values)) for one in again))
        kinds.append(kind if level else None)
    return replace(problem, measured=tuple(measured), kinds=tuple(kinds))
