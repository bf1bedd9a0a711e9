"""Costs and what is said of them, as literals: a square that is left out, or a figure rounded down, is seen here."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction

import pytest

from pipeline.model.exact import epsilon_text
from pipeline.privacy.accounting.local import _decimal as _of_reports
from pipeline.privacy.accounting.statement_models import odds
from pipeline.privacy.budget import Framework, Neighbours, reach_of_total, rounded_text
from pipeline.privacy.ledger.events import Group, by_up_to, cost_of, numbers_of_unit, per_person
from pipeline.privacy.ledger.refusals import amount_text
from pipeline.privacy.ledger.report import _text as _in_report
from pipeline.questions.resolved import Part
from pipeline.questions.sensitivity import scale_for
from pipeline.release.privacy_statement import decimal_text
from pipeline.spec.update import AddedSection, _cost


@pytest.mark.parametrize(
    ("part", "framework", "neighbours", "people", "scale"),
    [
        (Part("sum", 0, 600), "zcdp", "change-one", (1, 1), 360_000),
        (Part("sum", 0, 600), "zcdp", "add-remove", (1, 1), 180_000),
        (Part("sum", 0, 600), "zcdp", "change-one", (3, 1), 3_240_000),
        (Part("sum", -300, 300), "zcdp", "change-one", (1, 1), 425**2),
        (Part("sum", 0, 600), "pure", "change-one", (3, 1), 3600),
        (Part("sum", -100, 500, 0, "total"), "zcdp", "change-one", (3, 1), 360_000),
        (Part("count", 1, 1), "zcdp", "change-one", (3, 1), 9),
        (Part("count", 1, 1, 0, "unit"), "zcdp", "change-one", (3, 3), 3),
        (Part("count", 1, 1, 0, "unit"), "pure", "add-remove", (3, 2), 2),
    ],
)
def test_the_scale_of_noise_has_the_square_of_what_a_person_moves(
    part: Part, framework: Framework, neighbours: Neighbours, people: tuple[int, int], scale: int
) -> None:
    """For a budget of 1: sigma^2 = m R^2 k^2 / 2, b = m R k; of units n in place of k^2 and of k."""
    assert scale_for(part, framework, neighbours, Fraction(1), people)[1] == scale
    assert scale_for(part, framework, neighbours, Fraction(scale), people)[1] == 1


@pytest.mark.parametrize(
    ("query", "mechanism", "scale", "cost"),
    [
        ("count: count", "discrete_gaussian", 9, Fraction(1, 9)),
        ("count: count" + per_person(3), "discrete_gaussian", 9, Fraction(1)),
        ("sum: sum wages" + by_up_to(600), "discrete_gaussian", 360_000, Fraction(1)),
        ("sum: sum wages" + by_up_to(600) + per_person(3), "discrete_gaussian", 3_240_000, Fraction(1)),
        ("count: count units" + numbers_of_unit(3), "discrete_gaussian", 3, Fraction(1)),
    ],
)
def test_the_ledger_counts_the_same_squares(query: str, mechanism: str, scale: int, cost: Fraction) -> None:
    group = Group("county", query, mechanism, Fraction(scale), 2)  # type: ignore[arg-type]
    assert cost_of(group, "zcdp", "change-one") == cost


@pytest.mark.parametrize(
    ("mechanism", "scale", "neighbours", "records", "cost"),
    [
        ("discrete_gaussian", "9", "change-one", 1, Fraction(1, 9)),
        ("discrete_gaussian", "9", "change-one", 3, Fraction(1)),
        ("discrete_gaussian", "9", "add-remove", 3, Fraction(1, 2)),
        ("discrete_gaussian", "8", "change-one", 2, Fraction(1, 2)),
        ("discrete_laplace", "6", "change-one", 3, Fraction(1)),
        ("discrete_laplace", "6", "add-remove", 3, Fraction(1, 2)),
    ],
)
def test_an_answer_of_a_version_costs_the_square_of_its_records_per_person(
    mechanism: str, scale: str, neighbours: Neighbours, records: int, cost: Fraction
) -> None:
    added = AddedSection.model_construct(mechanism=mechanism, scale=Fraction(scale))
    assert _cost(added, neighbours, records) == cost


@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(10_001, 100_000), Fraction(1, 10**9), 0.1, 1.00001, 2.0])
def test_what_is_stated_is_never_less_than_what_is_so(value: float | Fraction) -> None:
    stated = Fraction(epsilon_text(value))
    assert Fraction(value) <= stated < Fraction(value) + max(Fraction(1, 10_000), Fraction(value) / 1000)


@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(2, 3), Fraction(1, 7 * 10**8), Fraction(10**15 + 1, 3)])
def test_a_decimal_in_the_manifest_is_never_less_than_the_fraction(value: Fraction) -> None:
    stated = Fraction(Decimal(decimal_text(value)))
    assert value < stated <= value * (1 + Fraction(1, 10**11))


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        (epsilon_text(16.4802), "16.49"),
        (epsilon_text(Fraction("1.00001")), "1.001"),
        (odds("1.5"), "4.5"),
        (odds("1"), "2.8"),
        (odds("1000"), "10^435"),
        (_of_reports(Fraction(1, 3)), "0.333333333334"),
        (_of_reports(Fraction(2, 3)), "0.666666666667"),
        (amount_text(Fraction(1, 3), up=True), "0.333334 (1/3)"),
        (amount_text(Fraction(2, 3)), "0.666666 (2/3)"),
        (rounded_text(Fraction(200, 3), 3), "66.7"),
        (rounded_text(Fraction(10) ** 400, 3), "1.00e+400"),
        (rounded_text(Fraction(1, 10**400), 3), "1.00e-400"),
    ],
)
def test_figures_for_people_are_rounded_to_the_side_that_promises_less(stated: str, said: str) -> None:
    """Epsilons, odds and what is spent up, what is left down, also of what no float holds; by hand."""
    assert stated == said


@pytest.mark.parametrize(("rounding", "last"), [(ROUND_CEILING, "4"), (ROUND_FLOOR, "3")])
def test_a_fraction_too_long_to_read_is_rounded_as_it_is_told(rounding: str, last: str) -> None:
    """The ledger's report: what is spent up, what is left down; exact as long as the fraction is short."""
    long = Fraction(1, 3) + Fraction(1, 7**500)
    assert _in_report(long, rounding) == "0." + 39 * "3" + last
    assert _in_report(Fraction(1, 3), rounding) == "1/3"


def test_the_reach_of_a_total_is_from_end_to_end() -> None:
    assert (reach_of_total(0, 600), reach_of_total(-100, 500)) == (600, 600)
