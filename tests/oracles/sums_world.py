"""Made-up problems of four levels, the lower two of which measure few sums."""

from __future__ import annotations

import numpy as np
import pytest

from geography.spine import Level, Spine
from oracles.random_problems import level_sums
from postprocess.arrays import FloatArray, IntArray
from postprocess.families import solve
from postprocess.families.active_set import ExactSolution
from postprocess.families.family import Family
from postprocess.families.projected import solve_by_projection
from postprocess.marginal import Marginal, detail_of
from postprocess.problem import Constraints, MeasuredAnswers, Problem
from postprocess.sums.downward import downward_sums
from postprocess.sums.upward import KnownSums

#: Areas of each level, and the number of sums that levels below the second are measured by at most.
COUNTS, MOST = (1, 3, 5, 12), 60
PARENTS = ([-1], [0, 0, 0], [0, 0, 1, 2, 2], [0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4])


def grouped(rng: np.random.Generator, n: int, size: int) -> IntArray:
    """A grouping of n values into so many groups, none of them empty."""
    group = np.concatenate([np.arange(size), rng.integers(0, size, n - size)])
    return np.asarray(rng.permutation(group), dtype=np.int64)


def world(seed: int) -> Problem:
    """Two attributes with groups that do not nest, and two without; wide queries at the two upper levels."""
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(4, 7)), 2, int(rng.integers(5, 8)), 3)
    kept, none = [np.arange(n) for n in shape], [np.zeros(n, dtype=np.int64) for n in shape]
    few = [grouped(rng, shape[0], 2), grouped(rng, shape[2], 2)]
    # Groups of the wide queries are of pieces that have several values.
    more = [few[0] * 2 + grouped(rng, shape[0], 2), few[1] * 2 + grouped(rng, shape[2], 2)]
    more = [np.unique(one, return_inverse=True)[1].ravel() for one in more]
    total = Marginal("total", tuple(none))
    narrow = (
        Marginal("few", (few[0], none[1], few[1], none[3])),
        Marginal("values", (kept[0] if seed % 2 else few[0], kept[1], none[2], none[3])),
        Marginal("groups", (none[0], kept[1], more[1], none[3])),
    )
    wide = (
        Marginal("wide", (more[0], kept[1], more[1], kept[3])),
        Marginal("half", (kept[0], kept[1], more[1], kept[3])),
    )
    queries = ((detail_of(shape), *wide, narrow[0]), (detail_of(shape), wide[0], narrow[1]), narrow, narrow)
    levels = tuple(
        Level(f"l{i}", np.array([f"{k:02d}" for k in range(n)]), np.array(parents))
        for i, (n, parents) in enumerate(zip(COUNTS, PARENTS, strict=True))
    )
    cells = int(np.prod(shape))
    true = level_sums(Spine(levels), rng.poisson(1.2, (COUNTS[3], cells)) * (rng.random(cells) < 0.5))
    measured = []
    for level, of_level in enumerate(queries):
        own = []
        for number, query in enumerate(of_level):
            deviation = 1.0 + number + level
            noise = np.rint(rng.normal(0.0, deviation, (COUNTS[level], query.size)))
            own.append(MeasuredAnswers(query, query.answer(true[level]) + noise.astype(np.int64), deviation**2))
        measured.append(tuple(own))
    constraints = Constraints(np.zeros(cells, dtype=bool), ((),) * 4)
    return Problem(Spine(levels), shape, tuple(measured), constraints, (total,), completed=narrow)


def solved(seed: int) -> list[tuple[Family, FloatArray]]:
    """All families of a made-up problem that are solved on sums, with their solutions."""
    found: list[tuple[Family, FloatArray]] = []

    def noted(family: Family) -> ExactSolution | None:
        exact = solve_by_projection(family)
        if exact is not None:
            found.append((family, exact.x))
        return exact

    known, parents = KnownSums(world(seed), most=MOST), None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solve, "solve_by_projection", noted)
        for level in range(4):
            nobody = np.zeros(COUNTS[max(level - 1, 0)], dtype=bool)
            parents, _ = downward_sums(known, level, parents, nobody)
    return found
