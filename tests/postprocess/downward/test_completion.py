"""What nothing measures of children is completed from their parent's table: of maximum entropy, exact, and kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from oracles.random_problems import level_sums, random_problem

from geography.spine import Level, Spine
from postprocess.algebra import Basis
from postprocess.downward.completion import Sums, determined, fitted
from postprocess.downward.level import downward_level
from postprocess.linear.upward import basis_of, upward_pass
from postprocess.marginal import Marginal
from postprocess.problem import Constraints, Measured, Problem

DATA = Path(__file__).resolve().parents[4] / "shared/data"


def marginal(name: str, *groups: list[int]) -> Marginal:
    return Marginal(name, tuple(np.array(group, dtype=np.int64) for group in groups))


DETAIL = marginal("age * sex", [0, 1], [0, 1])
AGE, SEX, TOTAL = marginal("age", [0, 1], [0, 0]), marginal("sex", [0, 0], [0, 1]), marginal("total", [0, 0], [0, 0])


def spine_of(codes: list[str], lengths: list[int]) -> Spine:
    """Levels by the first characters of sorted codes."""
    levels: list[Level] = []
    for depth, length in enumerate(lengths):
        units = np.array(sorted({code[:length] for code in codes}))
        above = [unit[: lengths[depth - 1]] for unit in units]
        parents = np.searchsorted(levels[-1].geocodes, above) if levels else np.full(len(units), -1)
        levels.append(Level(f"level{depth}", units, parents.astype(np.int64)))
    return Spine(tuple(levels))


def measured_problem(
    spine: Spine, leaves: np.ndarray, shape: tuple[int, ...], queries: list[list[Marginal]], variance: float = 1e-6
) -> Problem:
    """The queries of each level, answered without an error."""
    truth = level_sums(spine, leaves)
    measured = tuple(
        tuple(Measured(query, query.answer(counts), variance) for query in own)
        for own, counts in zip(queries, truth, strict=True)
    )
    none = Constraints(np.zeros(leaves.shape[1], dtype=bool), tuple(() for _ in queries))
    total = Marginal("total", tuple(np.zeros(n, dtype=np.int64) for n in shape))
    completed = tuple(query for own in queries for query in own)
    return Problem(spine, shape, measured, none, (total,), completed=completed)


def released(problem: Problem) -> list[np.ndarray]:
    basis = basis_of(problem)
    out, above = [], None
    for level, estimate in enumerate(upward_pass(problem, basis)):
        above, _ = downward_level(problem, basis, level, estimate, above)
        out.append(above.toarray())
    return out


def test_detail_that_is_proportional_is_released_exactly() -> None:
    """The state measures age by sex, counties age and sex: each county has the state's odds ratio, and 4,000 people."""
    leaves = np.array([[400, 1200, 1800, 600], [800, 2400, 3600, 1200], [200, 600, 900, 300]])
    spine = spine_of(["1001", "1002", "1003"], [1, 4])
    problem = measured_problem(spine, leaves, (2, 2), [[DETAIL], [AGE, SEX]])
    assert np.array_equal(released(problem)[1], leaves)
    even = released(replace(problem, completed=()))[1]
    assert np.abs(even - leaves).sum() > 1000
    assert even[2].tolist() == [0, 850, 1150, 0]


def test_nothing_is_completed_where_everything_is_measured() -> None:
    for seed in range(3):
        problem, _ = random_problem(seed, complete=True)
        queries = tuple(one.marginal for level in problem.measured for one in level)
        for ours, before in zip(released(replace(problem, completed=queries)), released(problem), strict=True):
            assert ours.tobytes() == before.tobytes()


def family(seed: int, n_children: int = 3) -> tuple[np.ndarray, list[Sums]]:
    """Tables 3 x 2 x 2 of children, and sums of theirs that cross: first by second, second by third, first."""
    rng = np.random.default_rng(seed)
    leaves = rng.integers(1, 40, (n_children, 12))
    queries = [
        marginal("ab", [0, 1, 2], [0, 1], [0, 0]),
        marginal("bc", [0, 0, 0], [0, 1], [0, 1]),
        marginal("c", [0, 0, 0], [0, 0], [0, 1]),
    ]
    given = np.ones(n_children, dtype=bool)
    return leaves, [Sums(query, query.answer(leaves).astype(float), given) for query in queries]


def most_entropy(leaves: np.ndarray, sums: list[Sums]) -> np.ndarray:
    """Of all tables with these sums and this parent the one of most entropy, by a conic solver."""
    x = cp.Variable(leaves.shape)
    limits = [cp.sum(x, axis=0) == leaves.sum(axis=0)]
    for one in sums:
        indicator = np.eye(one.marginal.size)[one.marginal.cell_answer]
        limits.append(x @ indicator == one.values)
    cp.Problem(cp.Maximize(cp.sum(cp.entr(x))), limits).solve(solver="CLARABEL")
    return np.asarray(x.value)


@pytest.mark.parametrize("seed", range(2))
def test_it_is_the_completion_of_maximum_entropy(seed: int) -> None:
    leaves, sums = family(seed)
    possible = np.ones((len(leaves), 1), dtype=bool)
    parents = sp.csr_array(leaves.sum(axis=0)[None, :])
    tables = fitted(parents, np.array([0, len(leaves)]), sums, possible, np.zeros(12, dtype=np.int64))
    oracle = most_entropy(leaves, sums)
    assert np.abs(tables - oracle).max() < 0.01
    assert np.abs(tables - leaves.sum(axis=0) / 3).max() > 1.0  # the oracle tells it from an even split
    np.testing.assert_allclose(tables.sum(axis=0), leaves.sum(axis=0), rtol=1e-12)
    for one in sums:
        np.testing.assert_allclose(one.marginal.answer(tables), one.values, atol=0.01)


def test_which_queries_are_determined() -> None:
    """Those whose answers are in the row space of what is measured, and only the finest."""
    bands = marginal("bands", [0, 0, 1, 2], [0, 0])
    halves, sex = marginal("halves", [0, 0, 1, 1], [0, 0]), marginal("sex", [0, 0, 0, 0], [0, 1])
    detail = marginal("detail", [0, 1, 2, 3], [0, 1])
    queries = [bands, halves, sex, detail]
    basis = Basis.of((4, 2), queries)
    rows = np.concatenate([np.eye(one.size)[one.cell_answer].T for one in (bands, sex)])
    # The dense projector on what these two do not see, against the one of the blocks.
    dense = np.eye(8) - np.linalg.pinv(rows) @ rows
    blocks = basis.precision([(bands, 1.0), (sex, 1.0)])
    values, vectors = np.linalg.eigh(blocks)
    unmeasured = (vectors * (values < 1e-9)[:, None, :]) @ np.swapaxes(vectors, -1, -2)
    np.testing.assert_allclose(basis.restricted(unmeasured[None], np.arange(8))[0], dense, atol=1e-9)
    assert determined(basis, unmeasured[None], queries).tolist() == [[True, False, True, False]]
    same = marginal("the same bands", [2, 2, 0, 1], [0, 0])
    assert determined(basis, unmeasured[None], [bands, same, sex]).tolist() == [[True, False, True]]


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data")
def test_ages_of_block_groups_are_closer_than_an_even_split() -> None:
    """Virginia in 2000: eight ages are measured of counties, three bands of tracts and block groups."""
    import pyarrow.parquet as pq

    table = pq.read_table(DATA / "us_2000_block_groups.parquet").to_pandas()
    table = table[table["block_group"].str.startswith("51")].sort_values("block_group")
    leaves = table[[name for name in table.columns if name.startswith("age_")]].to_numpy(np.int64)
    spine = spine_of(table["block_group"].tolist(), [2, 5, 11, 12])
    detail, bands = marginal("ages", list(range(8))), marginal("bands", [0, 0, 1, 1, 1, 1, 2, 2])
    problem = measured_problem(spine, leaves, (8,), [[detail], [detail], [bands], [bands]], variance=9.0)
    truth = level_sums(spine, leaves)
    ours, even = released(problem), released(replace(problem, completed=()))
    for level in (2, 3):
        ratio = np.abs(ours[level] - truth[level]).sum() / np.abs(even[level] - truth[level]).sum()
        assert ratio < 0.75
    assert np.array_equal(ours[1], even[1])
