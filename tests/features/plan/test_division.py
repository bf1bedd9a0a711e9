"""The best division of a budget: as dense algebra finds it, and no random division is better."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

from features.plan.division import LEAST_SHARE, Objective, check_objective, descend
from features.plan.targets import Aim, parse_targets, parse_weights
from pipeline.errors import InputError
from pipeline.estimation.expectation import Expectation
from pipeline.inputs.geography import read_spine
from pipeline.model.query import Query
from pipeline.spec.release_spec import load_spec
from postprocess.arrays import FloatArray

LITTLE = """
name = "little"
privacy = { rho = "1" }
geography = { file = "blocks.csv", column = "block", levels = { county = 1, tract = 2, block = 3 } }
schema.attributes = { age = ["child", "adult", "old"], sex = ["f", "m"] }
schema.recodes.grown = { attribute = "age", groups = { young = ["child"], grown = ["adult", "old"] } }
invariants = { county = ["total"] }

[strategy]
levels = { county = "1/3", tract = "1/3", block = "1/3" }
queries = { total = "1/3", "grown * sex" = "1/3", detailed = "1/3" }
"""


def little(folder: Path, *changes: tuple[str, str], estimator: str = "full") -> Expectation:
    """Two counties, four tracts of 1, 2, 2 and 3 blocks."""
    text = LITTLE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "little.toml").write_text(text)
    (folder / "blocks.csv").write_text("block\nA11\nA21\nA22\nB11\nB12\nB21\nB22\nB23\n")
    spec = load_spec(folder / "little.toml")
    return Expectation.of(spec.universes()[0], read_spine(spec.geography), [], estimator)


def dense_errors(expectation: Expectation, aims: Sequence[Aim], shares: FloatArray) -> FloatArray:
    """Error of each aim at rho = 1 by least squares on all cells of all leaves, given the exact totals of counties."""
    spine = expectation.spine

    def answers(level: str, query: Query) -> FloatArray:
        below = np.zeros((len(spine.level(level)), spine.n_leaves))
        below[spine.leaf_ancestors(spine.index_of(level)), np.arange(spine.n_leaves)] = 1.0
        return np.asarray(np.kron(below, np.eye(query.size)[:, query.cell_answer]), dtype=np.float64)

    queries = {query.name: query for query in expectation.universe.strategy.distinct_queries()}
    free = scipy.linalg.null_space(answers("county", queries["total"]))
    # One record that changes moves two answers: the noise of a share has the variance 2 / (2 rho share).
    precision = sum(
        share * (rows := answers(level, queries[name]) @ free).T @ rows
        for share, (level, name) in zip(shares, expectation.measured, strict=True)
    )
    covariance = free @ np.linalg.inv(precision) @ free.T
    found = []
    for aim in aims:
        rows = answers(aim.level, aim.query)
        deviations = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", rows, covariance, rows), 0.0))
        found.append(np.sqrt(2 / np.pi) * deviations.sum() / len(spine.level(aim.level)) / aim.numbers)
    return np.array(found)


def dense_best(expectation: Expectation, aims: Sequence[Aim], goal: str) -> float:
    """The least objective that a general solver finds by differences of `dense_errors`."""
    n, numbers = len(expectation.measured), np.array([aim.number for aim in aims])

    def terms(shares: FloatArray) -> FloatArray:
        errors = dense_errors(expectation, aims, shares)
        return errors / numbers if goal == "largest" else errors * numbers

    start = np.full(n, 1 / n)
    simplex = [{"type": "eq", "fun": lambda x: x[:n].sum() - 1}]
    within = [{"type": "ineq", "fun": lambda x: x[n] - terms(x[:n])}] if goal == "largest" else []
    solution = scipy.optimize.minimize(
        (lambda x: x[n]) if goal == "largest" else (lambda x: terms(x[:n]).sum()),
        np.append(start, terms(start).max()),
        bounds=[(LEAST_SHARE, 1.0)] * n + [(0.0, None)],
        constraints=[*simplex, *within],
        method="SLSQP",
        options={"ftol": 1e-9, "maxiter": 300},
    )
    assert solution.success
    return float(solution.fun)


@pytest.mark.parametrize(
    ("goal", "text"),
    [
        ("largest", "tract: total <= 2; county: sex <= 5; block: age * sex <= 30"),
        ("largest", "block: grown <= 4"),
        ("sum", "tract: total = 3; county: sex = 1 each; block: detailed = .1"),
    ],
)
def test_the_division_is_that_of_dense_algebra(tmp_path: Path, goal: Literal["largest", "sum"], text: str) -> None:
    """Recodes (blocks of 2 x 2), an exact total, single children: the errors at the division, and its optimum."""
    expectation = little(tmp_path)
    aims = (parse_targets if goal == "largest" else parse_weights)(text, expectation.universe)
    found = descend(Objective(expectation, aims, goal))
    numbers, errors = np.array([aim.number for aim in aims]), dense_errors(expectation, aims, found.shares)
    assert found.value == pytest.approx((errors / numbers).max() if goal == "largest" else errors @ numbers, rel=1e-6)
    assert found.value == pytest.approx(dense_best(expectation, aims, goal), rel=1e-3)
    assert found.gap < 1e-3


def test_what_cannot_be_divided(tmp_path: Path) -> None:
    expectation = little(tmp_path)
    universe = expectation.universe
    exact = Objective(expectation, parse_targets("county: total <= 1", universe), "largest")
    with pytest.raises(InputError, match="county: total: these numbers are exact"):
        check_objective(exact)
    pure = little(tmp_path, ('{ rho = "1" }', '{ framework = "pure", epsilon = "1" }'))
    with pytest.raises(InputError, match='framework "zcdp" only'):
        check_objective(Objective(pure, parse_targets("tract: total <= 1", pure.universe), "largest"))
    stands = little(tmp_path, ('column = "block"', 'column = "block", bypass = true'))
    with pytest.raises(InputError, match=r"geography\.bypass: found true"):
        check_objective(Objective(stands, parse_targets("tract: total <= 1", stands.universe), "largest"))
    coarse = little(tmp_path, ('"grown * sex" = "1/3", detailed = "1/3"', 'sex = "2/3"'))
    with pytest.raises(InputError, match="tract: age: the measurements of the spec do not determine"):
        check_objective(Objective(coarse, parse_targets("tract: age <= 1", coarse.universe), "largest"))
    with pytest.raises(InputError, match=r"at most 0\.111"):
        descend(Objective(expectation, parse_targets("tract: total <= 1", universe), "largest"), least=0.2)


def test_targets(tmp_path: Path) -> None:
    universe = little(tmp_path).universe
    first, second = parse_targets("tract: total <= 2.0;  county: age*sex<=.5 each ;", universe)
    assert (first.name, first.number, first.each, first.numbers) == ("tract: total", 2.0, False, 1)
    assert (second.name, second.number, second.each, second.numbers) == ("county: age * sex", 0.5, True, 6)
    for text, told in (
        ("tract total <= 2", "found 'tract total <= 2'; allowed is"),
        ("village: total <= 2", "no level 'village'; the levels are county, tract, block"),
        ("tract: colour <= 2", "'colour' in the query"),
        ("tract: total <= nothing", "found 'nothing'; a number above 0 is needed"),
        ("tract: total <= 0", "found '0'; a number above 0 is needed"),
        ("tract: total <= 1; tract: total <= 2", "tract: total occurs twice"),
        (" ; ", "nothing is given"),
    ):
        with pytest.raises(InputError, match=f"--target.*{told}"):
            parse_targets(text, universe)
