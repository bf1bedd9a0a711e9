"""A release has the same whole numbers whichever of the solvers finds its solutions, in whatever form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles.random_problems import ESTIMATORS, KINDS, random_problem

from postprocess.bounds.declare import propagate
from postprocess.downward import assembly, tasks
from postprocess.downward.level import downward_level
from postprocess.families import solve, stack, wide
from postprocess.linear.upward import basis_of, upward_pass
from postprocess.problem import Problem


def released(problem: Problem) -> list[np.ndarray]:
    """Of every level, without a second solver's opinion."""
    basis = basis_of(problem)
    above, out = None, []
    for level, estimate in enumerate(upward_pass(problem, basis)):
        unchecked = np.zeros(len(problem.spine.levels[max(level - 1, 0)]), dtype=bool)
        above, _ = downward_level(problem, basis, level, estimate, above, checked=unchecked)
        out.append(above.toarray())
    return out


def counting(patch: pytest.MonkeyPatch, module: object, name: str) -> list[str]:
    """Count the calls of a function or class."""
    calls, real = list[str](), getattr(module, name)

    def call(*given: Any, **named: Any) -> Any:
        calls.append(name)
        return real(*given, **named)

    patch.setattr(module, name, call)
    return calls


def by_projection(patch: pytest.MonkeyPatch) -> list[str]:
    """All families that can be, on few sums."""
    patch.setattr(assembly, "is_projected", lambda *_, **__: True)
    patch.setattr(assembly, "MOST_SUMS", 10.0)
    return counting(patch, solve, "solve_by_projection")


def wide_at_the_top(patch: pytest.MonkeyPatch) -> list[str]:
    """As if the schema had too many cells for matrices."""
    patch.setattr(tasks, "WIDE", 0)
    patch.setattr(assembly, "WIDE", 0)
    return counting(patch, assembly, "positive_cells")


def in_blocks(patch: pytest.MonkeyPatch, widest: int) -> list[str]:
    """Families leave their precisions in blocks and count as large."""
    patch.setattr(tasks, "WIDE", widest)
    patch.setattr(assembly, "LEAST_IN_BLOCKS", 0)
    patch.setattr(stack, "ALONE", 0)
    patch.setattr(stack, "LARGE_NUMBERS", 0)
    return counting(patch, assembly, "InBlocks")


WAYS: list[Callable[[pytest.MonkeyPatch], list[str]]] = [
    by_projection,
    wide_at_the_top,
    lambda patch: in_blocks(patch, 0),  # of a wide schema, and of one whose other families have matrices
    lambda patch: in_blocks(patch, wide.WIDE),
]


@settings(max_examples=5)
@example(seed=1, zeros=False, invariants=False, complete=True, estimator="full", roots=1)
@example(seed=2, zeros=False, invariants=True, complete=True, estimator="topdown", roots=2)
@given(**KINDS, estimator=ESTIMATORS, roots=st.integers(1, 2))
def test_a_release_has_the_same_numbers(
    seed: int, zeros: bool, invariants: bool, complete: bool, estimator: str, roots: int
) -> None:
    problem, _ = random_problem(
        seed,
        zeros=zeros,
        invariants=invariants,
        complete=complete,
        estimator=estimator,
        roots=roots,
        shape=(3, 4, 5),
        mean=1.0,
    )
    bounds = propagate(problem.spine, problem.constraints.bounds, problem.constraints.structural_zeros)
    problem = replace(problem, constraints=replace(problem.constraints, bounds=bounds))
    expected = released(problem)
    for way in WAYS:
        with pytest.MonkeyPatch.context() as patch:
            used, found = way(patch), released(problem)
        assert all(np.array_equal(one, other) for one, other in zip(expected, found, strict=True))
        assert used or zeros or not complete  # impossible cells can leave nothing to solve
