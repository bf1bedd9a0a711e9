"""A private choice: what it means, costs and leaves to the strategy; noise on counts that are made of mixed numbers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import ReleaseError
from pipeline.estimation.measurement_files import MeasurementSource
from pipeline.model.measure import Counts
from pipeline.model.mixed import MixedNoise, Unmixed
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.statements import privacy_statements
from pipeline.privacy.budget import Neighbours
from pipeline.privacy.ledger.dataset import cost_of
from pipeline.privacy.ledger.events import Group
from pipeline.privacy.noise.choices import affordable_epsilon
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.mechanisms import noise_for
from pipeline.release.measurements import MeasurementHeader, MeasurementWriter, read_measurement
from pipeline.release.privacy_statement import drawn_of, privacy_statement
from pipeline.spec.release_spec import ReleaseSpec, parse_spec
from pipeline.storage.paths import unchecked

SELECT = """
[select.detail]
level = "tract"
versions = ["total", "some", "race * sex"]
thresholds = [0, 50, 500]
share = "1/10"
choice_share = "1/4"
"""
SPEC = """
name = "x"
[privacy]
{privacy}
[geography]
file = "blocks.csv"
column = "b"
levels = {{ county = 2, tract = 4, block = 6 }}
{geography}
[schema.attributes]
race = ["a", "b", "c"]
sex = ["f", "m"]
[schema.recodes.some]
attribute = "race"
groups = {{ ab = ["a", "b"], c = ["c"] }}
[strategy]
queries = {{ total = "1/3", race = "2/3" }}
levels = {{ county = "1/4", tract = "1/4", block = "1/2" }}
"""
FRAMEWORKS = [
    ('rho = "2.56"', "zcdp"),
    ('rho = "1/7"\nneighbours = "add-remove"', "zcdp"),
    ('framework = "pure"\nepsilon = "3/7"', "pure"),
    ('framework = "pure"\nepsilon = "4"\nneighbours = "add-remove"', "pure"),
]


def spec(privacy: str = 'rho = "2.56"', select: str = SELECT, geography: str = "") -> ReleaseSpec:
    return parse_spec(SPEC.format(privacy=privacy, geography=geography) + select)


def universe(*arguments: str, **others: str) -> Universe:
    return spec(*arguments, **others).universes()[0]


@pytest.mark.parametrize(("privacy", "framework"), FRAMEWORKS)
def test_all_that_is_charged_adds_up_to_the_budget_exactly(privacy: str, framework: str) -> None:
    one = universe(privacy)
    groups = {
        (m.level, m.query): Group(m.level, m.query, m.mechanism.mechanism, m.mechanism.scale, 1) for m in one.uses
    }
    costs = {key: cost_of(group, framework, one.neighbours) for key, group in groups.items()}
    assert sum(costs.values()) == one.budget
    choice, measured = costs["tract", "select detail"], costs["tract", "selected detail"]
    assert choice + measured == one.budget / 10
    assert choice <= one.budget / 40
    assert choice > one.budget / 40 * Fraction("0.9999")
    assert one.strategy_budget == one.budget * 9 / 10


@pytest.mark.parametrize("privacy", [privacy for privacy, _ in FRAMEWORKS])
def test_the_strategy_measures_as_with_what_is_left_of_the_budget(privacy: str) -> None:
    """The noise that measuring uses and what is accounted for are one."""
    one = universe(privacy)
    (noise,) = next(draw.drawn for draw in one.draws() if (draw.level, draw.query.name) == ("block", "total"))
    assert noise == noise_for(one.framework, one.budget * 9 / 10, Fraction(1, 2), Fraction(1, 3), one.neighbours)
    drawn = {(use.level, use.query): use for use in drawn_of(one)}
    assert drawn["block", "total"].mechanism == noise
    assert sum(use.cost for use in drawn.values()) == one.budget
    assert drawn["tract", "select detail"].mechanism.mechanism == "exponential"
    statement = privacy_statement(one)
    assert statement.budget == str(one.budget)
    assert "select" in statement.words


def test_what_a_choice_may_cost_is_spent_to_the_millionth() -> None:
    # rho = m e^2 / 8: with m = 2, 1/100 buys e = 1/5 exactly; 1/50 buys the root of 2/25.
    assert affordable_epsilon("zcdp", Fraction(1, 100), "change-one") == Fraction(1, 5)
    assert affordable_epsilon("zcdp", Fraction(1, 50), "change-one") == Fraction(282_842, 10**6)
    assert affordable_epsilon("pure", Fraction(1, 50), "change-one") == Fraction(1, 100)


def test_statements_count_the_choice_where_it_can_tell_something() -> None:
    """A choice is made by the number of persons in a tract: another race does not move it, another tract does."""
    plain, chosen = universe(select=""), universe()
    rest = {s.of: Fraction(s.budget) for s in privacy_statements(plain).attributes}
    account = privacy_statements(chosen)
    choice, measured = (use.mechanism.rho(2) for use in chosen.uses if use.chosen)
    assert Fraction(account.record.budget) == chosen.budget == plain.budget
    for statement in account.attributes:
        assert Fraction(statement.budget) == rest[statement.of] * Fraction(9, 10) + measured
    places = {s.of: Fraction(s.budget) for s in account.places}
    assert places["county"] == chosen.budget * Fraction(9, 10) * Fraction(3, 4) + choice + measured
    assert places["tract"] == chosen.budget * Fraction(9, 10) * Fraction(1, 2)
    assert account.comparison is not None
    assert account.comparison.one_number is None
    bypassed = privacy_statements(universe(geography="bypass = true"))
    assert Fraction(bypassed.record.budget) == chosen.budget
    assert {s.of: Fraction(s.budget) for s in bypassed.places} == places
    bounds = {s.of: Fraction(s.budget) for s in account.attributes}
    assert all(Fraction(s.budget) == bounds[s.of] for s in bypassed.attributes), "as many queries at every level"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("detail]", "other]"),
        ('"tract"', '"block"'),
        ('"race * sex"', '"race"'),
        ("500", "501"),
        ('"1/10"', '"1/11"'),
        ('"1/4"', '"1/5"'),
    ],
)
def test_whatever_differs_in_a_selection_makes_other_noise(old: str, new: str) -> None:
    assert SELECT.count(old) == 1
    assert universe(select=SELECT.replace(old, new)).privacy_fingerprint() != universe().privacy_fingerprint()
    assert universe(select="").privacy_fingerprint() != universe().privacy_fingerprint()


class _FiveFold(Counts):
    """A made-up measure: a record moves numbers by up to five."""

    def reach(self, neighbours: Neighbours) -> int:  # noqa: ARG002
        return 5


def test_no_choice_has_a_price_where_records_move_numbers_by_more_than_one() -> None:
    """Its noise and its cost are those of counts, so a measure that reaches further would pay too little."""
    assert universe().selections
    with pytest.raises(ValueError, match="a record of '' moves numbers by 5"):
        _ = replace(universe(), measure=_FiveFold()).selections


DRAWN = DiscreteGaussian(Fraction(5000))
NOISE = MixedNoise(DRAWN, (-3, 11), Fraction(1, 100))


def _header(row: tuple[int, ...] = NOISE.row) -> MeasurementHeader:
    return MeasurementHeader("block", "sex", 2, NOISE.mechanism, NOISE.scale, NOISE.variance, row=row)


def test_a_file_of_mixed_numbers_is_read_back_as_counts(tmp_path: Path) -> None:
    path, codes = tmp_path / "sex.parquet", np.array(["1", "2", "3"])
    numbers = np.array([[110, 55], [-11, 0], [22, 33]])
    with MeasurementWriter.open(path, tmp_path, _header()) as writer:
        writer.write(codes, numbers)
    assert read_measurement(unchecked(path)).header == _header()
    query = Query.parse("sex", Schema((Attribute("sex", ("f", "m")),)))
    read = MeasurementSource(unchecked(path), _header(), query, to_counts=Unmixed(11)).read(codes)
    assert read.values.tolist() == [[10, 5], [-1, 0], [2, 3]]
    assert read.variance == pytest.approx(50)
    with pytest.raises(ReleaseError, match=r"its row is \[-3, 11\], and \[-2, 11\] is expected"):
        MeasurementSource(unchecked(path), _header((-2, 11)), query).read(codes)


@pytest.mark.parametrize(("mechanism", "row"), [("mixed", ()), ("discrete_gaussian", (1,)), ("mixed", (1.5,))])
def test_mixed_numbers_alone_have_a_row(mechanism: str, row: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="mixed numbers, and they alone, have a row"):
        MeasurementHeader("block", "sex", 2, mechanism, Fraction(1), 1.0, row=row)
