"""Statements: as the 2020 certificates print them, from the measurements concerned, and the sound bound stated."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.model.exact import epsilon_text
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.composition import (
    advanced_composition,
    advanced_epsilon,
    basic_epsilon,
    gaussian_epsilon,
    group_budget,
    moments_epsilon,
)
from pipeline.privacy.accounting.conversion import zcdp_epsilon, zcdp_epsilon_textbook
from pipeline.privacy.accounting.statements import PrivacyAccount, Statement, privacy_statements
from pipeline.privacy.accounting.uses import measurements_of
from pipeline.spec.release_spec import parse_spec

DELTA = Fraction(1, 10**10)
US = ("US", "State", "County", "Tract", "Block_Group", "Block")
PERSONS = """
hhgq = ["household", "correctional", "juvenile", "nursing", "other_institutional", "college", "military",
        "other_noninstitutional"]
votingage = ["under18", "18plus"]
hispanic = ["no", "yes"]
cenrace = ["white", "black", "other"]
"""


def universe(preset: str, levels: tuple[str, ...] = US, attributes: str = PERSONS, more: str = "") -> Universe:
    lengths = ", ".join(f"{level} = {i + 1}" for i, level in enumerate(levels))
    return parse_spec(f"""
name = "x"
[geography]
file = "f.csv"
column = "b"
levels = {{ {lengths} }}
[schema.attributes]
{attributes}
[strategy]
preset = "{preset}"
{more}""").universes()[0]  # fmt: skip


@pytest.fixture(scope="module")
def persons() -> PrivacyAccount:
    return privacy_statements(universe("pl94-2020-us"))


def two_digits(statements: tuple[Statement, ...]) -> dict[str, float]:
    """The converted epsilon to the nearest hundredth, as printed in the certificates; stated is the next one above."""
    exact = {s.of: zcdp_epsilon(Fraction(s.budget), DELTA) for s in statements}
    assert [s.zcdp for s in statements] == [epsilon_text(value) for value in exact.values()]
    return {of: round(value, 2) for of, value in exact.items()}


# Published figures


def test_the_certificates_of_2020_for_persons(persons: PrivacyAccount) -> None:
    assert two_digits((persons.record,)) == {"": 17.14}
    assert persons.record.budget == "293764/114921"
    assert two_digits(persons.attributes) == {"hhgq": 7.24, "votingage": 7.57, "hispanic": 10.04, "cenrace": 10.08}
    assert two_digits(persons.places) == {
        "US": 16.89, "State": 13.05, "County": 11.70, "Tract": 9.38, "Block_Group": 2.93,
    }  # fmt: skip


def test_the_certificates_of_2020_for_puerto_rico() -> None:
    account = privacy_statements(universe("pl94-2020-pr", US[1:]))
    assert two_digits(account.attributes) == {"hhgq": 8.69, "votingage": 9.49, "hispanic": 11.65, "cenrace": 11.69}


def test_the_certificates_of_2020_for_housing_units() -> None:
    account = privacy_statements(universe("pl94-2020-us-units", attributes='occupied = ["yes", "no"]'))
    assert two_digits((account.record,)) == {"": 2.47}
    found = two_digits(account.places)
    assert {k: found[k] for k in US[1:5]} == {"State": 2.46, "County": 2.35, "Tract": 1.81, "Block_Group": 0.82}


def test_the_textbook_example() -> None:
    """rho = 2.63, delta = 1e-6: 14.686 by the textbook, 13.792 tight, 12.993 exactly (of a real-valued Gaussian)."""
    rho, delta = Fraction("2.63"), Fraction(1, 10**6)
    assert round(zcdp_epsilon_textbook(rho, delta), 3) == 14.686
    assert round(zcdp_epsilon(rho, delta), 3) == 13.792
    assert round(gaussian_epsilon(rho, delta), 3) == 12.993


# What is stated


def test_the_smaller_sound_bound_is_stated_and_the_others_are_shown(persons: PrivacyAccount) -> None:
    everything = (persons.record, *persons.attributes, *persons.places, *persons.groups)
    for statement in everything:
        assert statement.zcdp is not None
        bounds = [statement.zcdp] if statement.losses is None else [statement.zcdp, statement.losses]
        assert float(statement.epsilon) == min(map(float, bounds))
        assert statement.words.endswith(f"epsilon = {statement.epsilon} at delta = 1e-10")
    assert all(s.losses is not None for s in (persons.record, *persons.attributes, *persons.places))
    assert persons.record.epsilon == "16.47"
    other = persons.comparison
    assert other is not None
    assert float(persons.record.epsilon) < float(persons.record.zcdp or 0) < float(other.moments) < float(other.basic)
    assert abs(float(other.one_number or 0) - float(other.gaussian)) < 0.01


def test_statements_count_the_measurements_that_they_concern(persons: PrivacyAccount) -> None:
    """By hand, from the shares: sequential over levels and queries, and once a level however many geounits it has."""
    found = universe("pl94-2020-us")
    budgets = {s.of: Fraction(s.budget) for s in (*persons.attributes, *persons.places)}
    share = {level.level: level.share for level in found.strategy.levels}
    assert budgets["County"] == found.budget * (share["Tract"] + share["Block_Group"] + share["Block"])
    by_terms = {
        (level.level, m.query.terms): level.share * m.share for level in found.strategy.levels for m in level.queries
    }
    hhgq = sum(s for (_, terms), s in by_terms.items() if {"hhgq", "hhinstlevels"} & set(terms))
    assert budgets["hhgq"] == found.budget * hhgq
    assert budgets["cenrace"] == found.budget * sum(s for (_, terms), s in by_terms.items() if "cenrace" in terms)
    assert sum((m.use.rho(2) for m in measurements_of(found)), Fraction(0)) == found.budget


def test_adding_or_removing_a_record_moves_one_number_but_changing_a_value_moves_two() -> None:
    units: dict[str, Any] = {"attributes": 'occupied = ["yes", "no"]'}
    changed = universe("pl94-2020-us-units", more='[privacy]\nrho = "1"', **units)
    added = universe("pl94-2020-us-units", more='[privacy]\nrho = "1"\nneighbours = "add-remove"', **units)
    one, two = privacy_statements(changed), privacy_statements(added)
    assert (one.record.budget, two.record.budget) == ("1", "1")
    assert Fraction(two.attributes[0].budget) == 2 * Fraction(one.attributes[0].budget)
    assert "effect of changing one record:" in one.record.words
    assert "effect of adding or removing one record:" in two.record.words
    assert float(two.record.losses or 0) == pytest.approx(float(one.record.losses or 0), rel=0.01)


def test_the_pure_framework_adds_epsilons() -> None:
    found = privacy_statements(universe("pl94-2020-us", more='[privacy]\nframework = "pure"\nepsilon = "7/2"'))
    assert (found.delta, found.record.budget, found.record.epsilon) == ("0", "7/2", "3.5")
    assert found.record.words == "the effect of changing one record: epsilon = 3.5"
    assert found.places[-1].budget == str(Fraction(7, 2) * Fraction(165, 4099))
    assert found.comparison is None
    assert [group.budget for group in found.groups] == ["7", "21/2", "14", "35/2"]


def test_a_level_that_nothing_is_measured_below_tells_nothing() -> None:
    only = universe("pl94-2020-us")
    levels = tuple(replace(level, share=Fraction(0), queries=()) for level in only.strategy.levels[1:])
    first = replace(only.strategy.levels[0], share=Fraction(1))
    strategy = replace(only.strategy, levels=(first, *levels))
    account = privacy_statements(replace(only, strategy=strategy))
    assert {statement.epsilon for statement in account.places} == {"0"}
    assert float(account.record.epsilon) > 16


# Other ways of counting


def test_groups_cost_the_square_of_their_size_in_rho(persons: PrivacyAccount) -> None:
    rho = Fraction(293764, 114921)
    assert [Fraction(group.budget) for group in persons.groups] == [rho * g * g for g in (2, 3, 4, 5)]
    assert float(persons.groups[0].epsilon) == pytest.approx(zcdp_epsilon(4 * rho, DELTA), rel=1e-3)
    assert group_budget("pure", Fraction(1, 2), 6) == 3
    with pytest.raises(InputError, match="a group of 0 records"):
        group_budget("zcdp", rho, 0)


def test_moments_are_the_best_order_of_renyi_composition() -> None:
    """Against a search over orders of Mironov's conversion."""
    rho, delta = Fraction(7, 5), Fraction(1, 10**8)
    orders = [1 + i / 1000 for i in range(1, 50_000)]
    best = min(alpha * float(rho) + math.log(1 / delta) / (alpha - 1) for alpha in orders)
    assert moments_epsilon(rho, delta) == pytest.approx(best, rel=1e-6)


def test_basic_and_advanced_composition() -> None:
    """By hand; advanced beats basic for many small mechanisms and never loses to the plain sum."""
    rhos, delta = [Fraction(1, 100)] * 4, Fraction(1, 10**6)
    assert basic_epsilon(rhos, delta) == pytest.approx(4 * zcdp_epsilon(Fraction(1, 100), delta / 4))
    assert advanced_composition([1.0], Fraction(1, 10**6)) == 1.0
    e, slack = 0.01, Fraction(1, 10**6)
    by_hand = 1000 * e * (math.exp(e) - 1) / (math.exp(e) + 1) + math.sqrt(2 * math.log(10**6) * 1000 * e * e)
    assert advanced_composition([e] * 1000, slack) == pytest.approx(by_hand)
    many = [Fraction(1, 10**5)] * 1000
    assert zcdp_epsilon(Fraction(1, 100), delta) < advanced_epsilon(many, delta) < basic_epsilon(many, delta)
    assert basic_epsilon([], delta) == advanced_epsilon([Fraction(0)], delta) == 0


def test_the_gaussian_mechanism_at_the_ends() -> None:
    assert gaussian_epsilon(Fraction(0), DELTA) == 0
    assert gaussian_epsilon(Fraction(1, 10**12), Fraction(1, 10**4)) == 0
    assert gaussian_epsilon(Fraction(1000), Fraction(1, 10**300)) < zcdp_epsilon(Fraction(1000), Fraction(1, 10**300))
