"""Other ways to protect counts do what is stated of them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from features.fitness.methods import Apart, CellKeyParameters, CellKeys, probabilities, summed_up, swapped
from geography.spine import Level, Spine
from pipeline.model.query import Query
from pipeline.model.universe import Table, Universe
from pipeline.spec.release_spec import parse_spec

SPEC = """
name = "made-up"
tables = { age = "age", detail = { query = "detailed", levels = ["block"] } }
invariants.state = ["total"]
geography = { file = "none.csv", column = "block", levels = { state = 1, county = 2, block = 4 } }
schema.attributes = { age = ["child", "adult", "old"], sex = ["f", "m"] }
[privacy]
rho = "1/2"
key = "insecure-test:1"
[strategy]
queries = { total = "1/2", detailed = "1/2" }
levels = { state = "1/4", county = "1/4", block = "1/2" }
"""
COUNTIES, BLOCKS = 4, 200


@pytest.fixture(scope="module")
def universe() -> Universe:
    return parse_spec(SPEC).universes()[0]


@pytest.fixture(scope="module")
def spine() -> Spine:
    counties = np.array([f"s{number}" for number in range(COUNTIES)])
    parents = np.repeat(np.arange(COUNTIES), BLOCKS // COUNTIES)
    blocks = np.array([f"{counties[parent]}{number % 50:02d}" for number, parent in enumerate(parents)])
    return Spine(
        (
            Level("state", np.array(["s"]), np.array([-1])),
            Level("county", counties, np.zeros(COUNTIES, dtype=np.int64)),
            Level("block", blocks, parents),
        )
    )


@pytest.fixture(scope="module")
def truth(spine: Spine) -> list[sp.csr_array]:
    rng = np.random.default_rng(6)
    leaves = rng.poisson(rng.uniform(0, 9, (BLOCKS, 1)) * [1, 2, 0.3, 0.3, 0.1, 0.05])
    return summed_up(sp.csr_array(leaves), spine)


def table_of(universe: Universe, name: str) -> Table:
    return next(table for table in universe.tables if table.name == name)


@pytest.mark.parametrize("parameters", [CellKeyParameters(), CellKeyParameters(3, 1.5, 0), CellKeyParameters(8, 6, 3)])
def test_perturbation_tables(parameters: CellKeyParameters) -> None:
    """No error on average, none too large, no count below 0 or from 1 to js, the variance within V, and V if it can."""
    for count in range(30):
        errors, shares = probabilities(count, parameters)
        assert shares.sum() == pytest.approx(1)
        assert shares @ errors == pytest.approx(0, abs=1e-8)
        assert shares @ errors**2 <= parameters.variance + 1e-6
        assert np.abs(errors).max() <= parameters.most
        published = count + errors
        assert ((published == 0) | (published > parameters.unpublished)).all()
        if count > parameters.most + parameters.unpublished:
            uniform = np.mean(np.arange(-parameters.most, parameters.most + 1) ** 2)
            assert shares @ errors**2 == pytest.approx(min(parameters.variance, uniform), abs=1e-6)
    assert probabilities(0, parameters)[0].tolist() == [0]


def test_the_same_records_have_the_same_error(truth: list[sp.csr_array], spine: Spine, universe: Universe) -> None:
    """A cell is published alike in every table; tables do not add up; empty cells stay empty; the spread is V."""
    keys = CellKeys.of(truth, spine, 1)
    everything = slice(0, BLOCKS)
    detail = keys.answers(table_of(universe, "detail"), 2, everything)
    parts = [keys.answers(table_of(universe, "detail"), 2, slice(start, start + 50)) for start in range(0, BLOCKS, 50)]
    assert (np.concatenate(parts) == detail).all()
    again = Table("again", Query.parse("age * sex", universe.schema), ("block",))
    assert (keys.answers(again, 2, everything) == detail).all()
    true = truth[2].toarray()
    assert (detail[true == 0] == 0).all()
    assert not np.isin(detail, [1, 2]).any()
    ages = keys.answers(table_of(universe, "age"), 2, everything)
    assert (ages != detail.reshape(BLOCKS, 3, 2).sum(axis=2)).any()
    large = true >= 8
    errors = (detail - true)[large]
    assert abs(errors.mean()) < 4 * (3 / large.sum()) ** 0.5
    assert errors.var() == pytest.approx(3, rel=0.25)
    age = table_of(universe, "age").query
    counted = (age.answer_csr(keys.keys[2]) % 2**32)[age.answer_csr(truth[2]) > 0] / 2**32
    assert np.histogram(counted, 5, (0, 1))[0] == pytest.approx(np.full(5, len(counted) / 5), rel=0.25)


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
def test_as_many_records_move_as_are_to(spine: Spine, rate: float) -> None:
    """Every record has a cell of its own, by which it is found again: in another block of its county, or its own."""
    each = 20
    home = np.repeat(np.arange(BLOCKS), each)
    people = np.ones(len(home), dtype=np.int64)
    leaves = sp.csr_array(sp.coo_array((people, (home, np.arange(len(home)))), shape=(BLOCKS, len(home))).tocsr())
    after = swapped(leaves, spine, 1, rate, 3).tocoo()
    now = np.empty(len(home), dtype=np.int64)
    now[after.col] = after.row
    assert np.bincount(now, minlength=BLOCKS).tolist() == [each] * BLOCKS
    assert (spine.leaf_ancestors(1)[now] == spine.leaf_ancestors(1)[home]).all()
    assert (now != home).mean() == pytest.approx(rate, abs=4 * (rate * (1 - rate) / len(home)) ** 0.5 + 0.002)


def test_noise_apart_has_the_scale_that_its_budget_buys(truth: list[sp.csr_array], universe: Universe) -> None:
    """rho = 1/2 over four tables of levels, for the change of one record: sigma^2 = 2 / (2 rho / 4) = 8."""
    way = Apart(universe, truth, 1)
    assert way.noise.scale == Fraction(8)
    table = table_of(universe, "age")
    found = way.answers(table, 2, slice(0, BLOCKS))
    true = table.query.answer_csr(truth[2])
    assert (found >= 0).all()
    parts = [way.answers(table, 2, slice(start, start + 50)) for start in range(0, BLOCKS, 50)]
    assert (np.concatenate(parts) == found).all()
    many = sp.csr_array(np.full((3000, 6), 100))
    errors = Apart(universe, [many, many, many], 1).answers(table, 2, slice(0, 3000)) - 200
    assert errors.var() == pytest.approx(8, rel=0.06)
    assert abs(errors.mean()) < 0.15
    assert found[true == 0].mean() > 0.5  # negative numbers are lifted to 0


@pytest.mark.parametrize("framework", ["zcdp", "pure"])
def test_opendp_has_the_same_budget_by_its_own_account(truth: list[sp.csr_array], framework: str) -> None:
    """OpenDP's privacy maps of all tables add up to the release's budget, and its errors have the scale of ours."""
    pytest.importorskip("opendp")
    from features.fitness.methods import mechanism, opendp_noise

    spec = SPEC.replace('rho = "1/2"', 'framework = "pure"\nepsilon = "1/2"') if framework == "pure" else SPEC
    universe = parse_spec(spec).universes()[0]
    apart = Apart(universe, truth, 1)
    # One changed record moves two numbers of a table by one.
    one = mechanism(apart, BLOCKS).map(2 if framework == "pure" else math.sqrt(2))
    assert 4 * one == pytest.approx(0.5, rel=1e-6)
    assert 4 * one > 0.95 * 0.5
    many = sp.csr_array(np.full((3000, 6), 100))
    way = opendp_noise(universe, [many, many, many])
    assert way is not None
    table = table_of(universe, "age")
    found = way.answers(table, 2, slice(0, 3000))
    assert (way.answers(table, 2, slice(10, 20)) == found[10:20]).all()
    ours = Apart(universe, [many, many, many], 1).answers(table, 2, slice(0, 3000))
    assert (found - 200).var() == pytest.approx((ours - 200).var(), rel=0.12)
    assert (way.answers(table, 1, slice(0, 3000)) >= 0).all()
