"""A sampled simulation has the errors of a full one, at every level and size; a biased sample has not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from oracles.random_problems import level_sums, random_marginals
from oracles.sampled_runs import Seen, rounded_normal, sampled_runs, see

from geography.spine import Level, Spine
from postprocess.downward.level import downward_level
from postprocess.downward.samples import Rates
from postprocess.downward.simulated_margins import PublishedTable
from postprocess.downward.simulation import simulate_run
from postprocess.downward.subtrees import cut_level
from postprocess.downward.summaries import factors_of
from postprocess.linear.downward import LevelVariances, variances_of
from postprocess.linear.upward import basis_of, upward_pass
from postprocess.problem import Constraints, GroupBounds, Measured, Problem

SHAPE = (2, 4)
#: Standard errors by which two shares may differ; errors in one family are correlated.
FAR = 4.5
FULL = Rates(4, (4.0, 4.0, 4.0, 4.0), 1)
SAMPLED = Rates(4, (4.0, 4.0, 0.8, 0.8), 1)

Key = tuple[str, int]


@dataclass(frozen=True, eq=False)
class Release:
    problem: Problem
    released: list[sp.csr_array]
    variances: list[LevelVariances]
    tables: list[PublishedTable]


@cache
def release(estimator: str) -> Release:
    """Fifty tracts of very different density, with 24 blocks each."""
    rng = np.random.default_rng(5)
    state = Level("state", np.array(["1"]), np.array([-1]))
    tract = Level("tract", np.array([f"1{t:02}" for t in range(50)]), np.zeros(50, dtype=np.int64))
    group = Level("group", np.array([f"{t}{g}" for t in tract.geocodes for g in range(4)]), np.repeat(np.arange(50), 4))
    block = Level(
        "block", np.array([f"{g}{b}" for g in group.geocodes for b in range(6)]), np.repeat(np.arange(200), 6)
    )
    spine = Spine((state, tract, group, block))
    dense = np.where(np.arange(50) % 2 == 0, 60.0, 2.0)[np.repeat(np.arange(50), 24)]
    leaves = rng.poisson(rng.gamma(0.5, dense)[:, None] * rng.dirichlet(np.full(8, 0.5), 1200)).astype(np.int64)
    truth = level_sums(spine, leaves)
    marginals = [m for m in random_marginals(rng, SHAPE, recode=False) if m.size in (1, 8)]
    measured = tuple(
        tuple(
            Measured(m, m.answer(counts) + np.rint(rng.normal(0, v**0.5, (len(counts), m.size))).astype(np.int64), v)
            for m in marginals
        )
        for counts, v in zip(truth, (60.0, 40.0, 12.0, 8.0), strict=True)
    )
    total = marginals[0]
    known = total.answer(truth[0])
    bounds: tuple[tuple[GroupBounds, ...], ...] = ((GroupBounds("total", total, known, known),), (), (), ())
    problem = Problem(
        spine=spine,
        shape=SHAPE,
        measured=measured,
        constraints=Constraints(np.zeros(8, dtype=bool), bounds),
        passes=(total,),
        estimator=estimator,
        solver="batched",
    )
    basis = basis_of(problem)
    upward = upward_pass(problem, basis)
    released: list[sp.csr_array] = []
    for level, estimate in enumerate(upward):
        released.append(downward_level(problem, basis, level, estimate, released[-1] if released else None)[0])
    tables = [PublishedTable(m.name, level, m) for level in range(4) for m in marginals]
    return Release(problem, released, list(variances_of(problem, upward)), tables)


def seen(
    made: Release,
    rates: Rates,
    key: int,
    choose: Callable[[list[np.ndarray]], list[np.ndarray]] = lambda flags: flags,
    scale: float = 1.0,
) -> dict[Key, Seen]:
    """All errors of some runs, by table and level."""
    out = {(table.name, table.level): Seen() for table in made.tables}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("postprocess.downward.simulation.count_errors", see)
        patch.setattr("postprocess.downward.simulation.factors_of", lambda info: scale * factors_of(info))
        runs = sampled_runs(made.problem, made.released, made.tables, made.variances, rates, key, choose)
        for run in runs:
            errors = simulate_run(run, rounded_normal(made.problem, key))
            for table, one in zip(made.tables, errors, strict=True):
                out[table.name, table.level] += one  # type: ignore[operator]
    return out


@cache
def full(estimator: str) -> dict[Key, Seen]:
    return seen(release(estimator), FULL, 1)


def farthest(sampled: dict[Key, Seen], whole: dict[Key, Seen]) -> float:
    """By how many standard errors the shares of errors within the 90 % quantile differ, at most.

    Per table, level and size, and over all sizes together.
    """
    worst = 0.0
    for key, one in whole.items():
        other = sampled[key]
        for low, high in ((0, 1), (1, 5), (5, 20), (20, 100), (0, 10**9)):
            errors, mine = (
                np.abs(found.errors[(found.released >= low) & (found.released < high)]) for found in (one, other)
            )
            if min(len(errors), len(mine)) < 150:
                continue
            limit = np.quantile(errors, 0.9)
            for share, own in (((errors <= limit).mean(), (mine <= limit).mean()),):
                spread = np.sqrt(max(share * (1 - share), 0.01) * (1 / len(errors) + 1 / len(mine)))
                worst = max(worst, abs(share - own) / spread)
    return worst


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["full", "topdown"])
def test_a_sample_has_the_errors_of_a_full_simulation(estimator: str) -> None:
    made = release(estimator)
    assert cut_level(made.problem.spine) == 1
    whole, sampled = full(estimator), seen(made, SAMPLED, 2)
    # Above the cut all is simulated, below it a fifth.
    assert len(sampled[made.tables[0].name, 1].errors) == len(whole[made.tables[0].name, 1].errors)
    share = len(sampled[made.tables[0].name, 3].errors) / len(whole[made.tables[0].name, 3].errors)
    assert share == pytest.approx(0.2, abs=0.03)
    assert farthest(sampled, whole) < FAR


@pytest.mark.slow
def test_summaries_with_too_little_noise_are_noticed() -> None:
    assert farthest(seen(release("full"), SAMPLED, 2, scale=0.3), full("full")) > FAR + 1


def test_a_sample_of_the_small_subtrees_is_noticed() -> None:
    made = release("full")

    def smallest(flags: list[np.ndarray]) -> list[np.ndarray]:
        people = made.released[1].sum(axis=1)
        chosen = np.zeros_like(flags[1])
        chosen[:, np.argsort(people)[:10]] = True
        return [flags[0], chosen, *flags[2:]]

    assert farthest(seen(made, SAMPLED, 2, smallest), full("full")) > FAR + 1
