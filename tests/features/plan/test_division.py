"""The best division of a budget: the descent equals the whole stated in cvxpy, and no random division is better."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from releases.small import write_town

from features.plan.cvxpy_reference import divide_with_cvxpy
from features.plan.division import (
    LEAST_SHARE,
    Objective,
    check_objective,
    descend,
    equal_shares,
    own_shares,
)
from features.plan.targets import Aim, parse_targets, parse_weights
from pipeline.errors import InputError
from pipeline.estimation.expectation import Expectation
from pipeline.inputs.area_numbers import read_facilities
from pipeline.inputs.geography import read_spine
from pipeline.model.query import Query
from pipeline.spec.release_spec import load_spec

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


@pytest.mark.parametrize(
    "targets", ["tract: total <= 2", "tract: total <= 2; county: sex <= 5; block: age * sex <= 30", "block: grown <= 4"]
)
def test_descent_equals_cvxpy(tmp_path: Path, targets: str) -> None:
    """Recodes (blocks of 2 x 2), an exact total, single children: value and errors as cvxpy finds them."""
    expectation = little(tmp_path)
    objective = Objective(expectation, parse_targets(targets, expectation.universe), "largest")
    ours, theirs = descend(objective), divide_with_cvxpy(objective)
    assert ours.value == pytest.approx(theirs.bound, rel=2e-4), "cvxpy's own value of the objective"
    assert ours.value == pytest.approx(theirs.value, rel=2e-3), "the value at cvxpy's shares, by the recursions"
    assert ours.gap < 1e-3
    assert ours.bound <= theirs.value


def test_weighted_sum_equals_cvxpy(tmp_path: Path) -> None:
    expectation = little(tmp_path)
    aims = parse_weights("tract: total = 3; county: sex = 1; block: detailed = .1", expectation.universe)
    objective = Objective(expectation, aims, "sum")
    ours, theirs = descend(objective), divide_with_cvxpy(objective)
    assert ours.value == pytest.approx(theirs.bound, rel=2e-4)
    assert ours.gap < 1e-3


@pytest.mark.parametrize("estimator", ["full", "topdown"])
@pytest.mark.parametrize("goal", ["largest", "sum"])
def test_no_random_division_is_better(tmp_path: Path, estimator: str, goal: str) -> None:
    """Nor is the spec's own or the equal one; and the bound is below all of them."""
    expectation = little(tmp_path, estimator=estimator)
    text = "tract: total <= 2; county: sex <= 5; block: detailed <= 40"
    aims = parse_targets(text, expectation.universe)
    objective = Objective(expectation, aims, "largest" if goal == "largest" else "sum")
    found = descend(objective)
    rng = np.random.default_rng(1)
    n = len(expectation.measured)
    others = [own_shares(expectation), equal_shares(expectation)]
    others += [0.7 * found.shares + 0.3 * rng.dirichlet(np.full(n, 0.3)) for _ in range(40)]
    for shares in others:
        kept = LEAST_SHARE + (1 - n * LEAST_SHARE) * shares
        value = objective.value(objective.terms(kept / kept.sum())[0])
        assert value > found.value * (1 - 1e-9)
        assert value > found.bound


def test_errors_of_single_answers_are_divided_for_as_cvxpy_does(tmp_path: Path) -> None:
    """Of two groups of unlike size, in a query with a recode and in one with none."""
    expectation = little(tmp_path)
    schema = expectation.universe.schema
    by_age = Query.parse("age * sex", schema, where="test")
    aims = (
        Aim("tract", by_age, 2.0, each=True, answer=0),
        Aim("tract", by_age, 40.0, each=True, answer=5),
        Aim("block", Query.parse("grown", schema, where="test"), 9.0, each=True, answer=1),
    )
    objective = Objective(expectation, aims, "largest")
    ours, theirs = descend(objective), divide_with_cvxpy(objective)
    assert ours.value == pytest.approx(theirs.value, rel=2e-3)
    # The sum over the answers is the error of the query.
    planned = expectation.planned()
    errors = expectation.errors(planned, "tract", by_age)
    assert sum(map(errors.of_answer, range(by_age.size))) == pytest.approx(errors.per_geounit)
    # And its gradient that of differences: a share moved a little.
    shares = own_shares(expectation)
    values, gradients = objective.terms(shares)
    for place in range(len(shares)):
        step = np.zeros(len(shares))
        step[place] = 1e-5
        after, before = objective.terms(shares + step)[0], objective.terms(shares - step)[0]
        assert (after - before) / 2e-5 == pytest.approx(gradients[:, place], rel=1e-3, abs=1e-6)
    assert (values > 0).all()


def test_a_division_for_one_number_spends_on_it(tmp_path: Path) -> None:
    """With one target at the leaves of a flat spine, nearly all goes to the query itself: known in closed form."""
    expectation = little(tmp_path, ('invariants = { county = ["total"] }\n', ""))
    objective = Objective(expectation, parse_targets("county: total <= 1", expectation.universe), "largest")
    found = descend(objective, least=1e-5)
    shares = dict(zip(expectation.measured, found.shares, strict=True))
    assert shares["county", "total"] > 0.999
    # One number with variance 1 / rho: an expected absolute error of sqrt(2 / pi) at rho = 1.
    assert found.value == pytest.approx(np.sqrt(2 / np.pi), rel=1e-3)


def test_facilities_and_zeros(tmp_path: Path) -> None:
    """The town, with bounds, impossible cells and a recode, is divided to within a thousandth of its bound."""
    spec = load_spec(write_town(tmp_path))
    spine = read_spine(spec.geography)
    universe = spec.universes()[0]
    facilities = [read_facilities(bound, spine) for bound in universe.bounds]
    expectation = Expectation.of(universe, spine, facilities, "full")
    objective = Objective(expectation, parse_targets("tract: sex <= 4; block: total <= 3", universe), "largest")
    assert descend(objective).gap < 1e-3


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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tract total <= 2", "found 'tract total <= 2'; allowed is"),
        ("village: total <= 2", "no level 'village'; the levels are county, tract, block"),
        ("tract: colour <= 2", "'colour' in the query"),
        ("tract: total <= nothing", "found 'nothing'; a number above 0 is needed"),
        ("tract: total <= 0", "found '0'; a number above 0 is needed"),
        ("tract: total <= 1; tract: total <= 2", "tract: total occurs twice"),
        (" ; ", "nothing is given"),
    ],
)
def test_targets_that_are_none(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InputError, match="--target") as caught:
        parse_targets(text, little(tmp_path).universe)
    assert told in str(caught.value)


def test_targets(tmp_path: Path) -> None:
    universe = little(tmp_path).universe
    first, second = parse_targets("tract: total <= 2.0;  county: age*sex<=.5 each ;", universe)
    assert (first.name, first.number, first.each, first.numbers) == ("tract: total", 2.0, False, 1)
    assert (second.name, second.number, second.each, second.numbers) == ("county: age * sex", 0.5, True, 6)
