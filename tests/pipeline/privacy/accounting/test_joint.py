"""What one person's change costs over persons and companions, and how much noise several records of his need."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import pytest

from pipeline.model.exact import epsilon_text
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.joint import household_statement, joint_statement
from pipeline.privacy.accounting.statement_models import Statement
from pipeline.privacy.accounting.statements import privacy_statements
from pipeline.privacy.budget import budget_of_one, noise_for
from pipeline.release.privacy_statement import privacy_statement
from pipeline.spec.release_spec import parse_spec

SPEC = """
name = "x"
[privacy]
BUDGET
[geography]
file = "f.csv"
column = "b"
levels = { town = 1, block = 2 }
[schema.attributes]
sex = ["f", "m"]
[strategy]
queries = { sex = "1" }
levels = { town = "1/2", block = "1/2" }
[companions.households]
MORE
privacy = { BUDGET }
schema.attributes.size = ["1", "2", "3", "4+"]
strategy = { queries = { size = "1" }, levels = { town = "1/2", block = "1/2" } }
"""


def universes(budget: str = 'rho = "1"', more: str = "records_per_person = 2", main: str = "") -> tuple[Universe, ...]:
    text = SPEC.replace("privacy = { BUDGET }", f"privacy = {{ {budget} }}").replace("MORE", more)
    framework = 'framework = "pure"\n' if "epsilon" in budget else ""
    return parse_spec(text.replace("BUDGET", framework + budget + main)).universes()


def joint(found: tuple[Universe, ...]) -> Statement:
    return joint_statement(found, [privacy_statements(one) for one in found])


def moved_by_moving() -> int:
    """The largest squared change of households by size, over all moves of one person between two households."""
    largest = 0
    for left, joined in itertools.product(range(1, 9), repeat=2):
        counts: Counter[int] = Counter()
        counts.subtract([left, joined])
        counts.update([joined + 1] + ([left - 1] if left > 1 else []))
        largest = max(largest, sum(n * n for n in counts.values()))
    return largest


def moved_by_any(k: int, cells: int = 4) -> tuple[int, int]:
    """Largest squared and absolute change of a histogram, k records of which change as they like."""
    squares, absolute = 0, 0
    for before in itertools.combinations_with_replacement(range(cells), k):
        for after in itertools.combinations_with_replacement(range(cells), k):
            counts = Counter(after)
            counts.subtract(before)
            squares = max(squares, sum(n * n for n in counts.values()))
            absolute = max(absolute, sum(abs(n) for n in counts.values()))
    return squares, absolute


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_noise_is_made_for_what_all_records_of_a_person_can_move(k: int) -> None:
    """By enumeration; sigma^2 = D / (2 rho), b = s / epsilon, rho or epsilon being the companion's whole budget."""
    squares, absolute = moved_by_any(k)
    assert (squares, absolute) == (2 * k * k, 2 * k)
    households = universes(more=f"records_per_person = {k}")[1]
    noise = noise_for("zcdp", households.strategy_budget, Fraction(1, 2), Fraction(1), "change-one")
    assert noise.scale == Fraction(squares) / (2 * Fraction(1, 2))
    pure = universes('epsilon = "1"', f"records_per_person = {k}")[1]
    assert noise_for("pure", pure.strategy_budget, Fraction(1, 2), Fraction(1), "change-one").scale == 2 * absolute


def test_a_person_who_moves_changes_six_and_the_noise_is_for_more() -> None:
    """Two households change: three rows by size move, one of them by two; noise for one changed record has D = 2."""
    assert moved_by_moving() == 6
    households = universes()[1]
    rho = Fraction(1, 2)  # of each level
    scales = {n.level: Fraction(n.scale) for n in privacy_statement(households).noise}
    assert all(6 / (2 * scale) <= rho for scale in scales.values())
    one = universes(more="")[1]
    assert all(6 / (2 * Fraction(n.scale)) > rho for n in privacy_statement(one).noise)


def test_one_record_has_the_noise_and_the_streams_of_before() -> None:
    found, stated = universes(more="")[1], universes(more="records_per_person = 1")[1]
    assert found.privacy_fingerprint() == stated.privacy_fingerprint() != universes()[1].privacy_fingerprint()
    assert [n.scale for n in privacy_statement(found).noise] == ["2", "2"]


def test_a_person_costs_the_sum_of_the_budgets() -> None:
    found = universes()
    statement = joint(found)
    assert (statement.about, statement.budget, statement.records) == ("person", "2", 1)
    assert "changing one person's data, at most 2 records of households" in statement.words
    assert statement.losses is None
    accounts = [privacy_statements(one) for one in found]
    assert Fraction(accounts[1].record.budget) == Fraction(1, 4)  # a household's own record is protected better
    assert float(statement.epsilon) > float(accounts[0].record.epsilon)


def test_with_one_record_each_the_losses_of_all_noise_are_composed() -> None:
    statement = joint(universes(more=""))
    assert statement.losses is not None
    assert float(statement.losses) < float(statement.zcdp or "nan")
    assert statement.epsilon == statement.losses


def test_pure_budgets_add_up() -> None:
    statement = joint(universes('epsilon = "1"'))
    assert (statement.budget, statement.epsilon) == ("2", "2")


def test_two_persons_who_swap_alter_twice_as_many_households() -> None:
    """Persons: 2 rho of a swap. Households: any four records, 4 times the rho that any two cost."""
    text = SPEC.replace("privacy = { BUDGET }", 'privacy = { rho = "1" }').replace("BUDGET", 'rho = "1"')
    found = parse_spec(text.replace("MORE", "") + '[invariants]\ntown = ["sex"]\nblock = ["total"]\n').universes()
    statement = joint(found)
    assert (statement.records, statement.budget) == (2, "6")
    assert "two people swapping" in statement.words


def test_alone_the_headline_is_that_of_a_record() -> None:
    main = universes()[:1]
    record = privacy_statements(main[0]).record
    assert joint(main) == record.model_copy(update={"about": "person"})


def test_an_epsilon_has_four_digits_rounded_up() -> None:
    given = (16.4802, Fraction(3, 100), Fraction(7, 2), math.inf, Fraction("123.4501"), 12341.2, 0.0, 1e-9)
    assert [epsilon_text(value) for value in given] == [
        "16.49", "0.03", "3.5", "infinity", "123.5", "12350", "0", "0.0001"
    ]  # fmt: skip


def test_a_selection_in_a_companion_is_paid_for_all_records() -> None:
    more = 'records_per_person = 2\nselect.detail = { level = "block", versions = ["total", "size"], '
    more += 'thresholds = [0, 9], share = "1/4", choice_share = "1/2" }'
    households = universes(more=more)[1]
    uses = privacy_statement(households)
    assert sum(Fraction(n.share) for n in uses.noise) == 1
    (selection,) = households.selections
    cost = selection.select.mechanism.rho(2) + Fraction(2) / (2 * selection.noise.scale)
    assert 4 * cost == Fraction(1, 4)


def test_the_budget_of_one_record() -> None:
    assert budget_of_one("pure", Fraction(1), 3) == Fraction(1, 3)


def household(found: tuple[Universe, ...], members: int) -> Statement | None:
    return household_statement(found, [privacy_statements(one) for one in found], "households", members)


def largest_change(members: int, groups: int) -> int:
    """The largest squared change of counts by group, over all ways in which all members of a household are others."""
    largest = 0
    for before, after in itertools.product(itertools.combinations_with_replacement(range(groups), members), repeat=2):
        counts: Counter[int] = Counter(after)
        counts.subtract(before)
        largest = max(largest, sum(n * n for n in counts.values()))
    return largest


@pytest.mark.parametrize("members", [1, 2, 3, 4])
def test_a_household_costs_its_members_as_a_group_and_one_record(members: int) -> None:
    """The sensitivity by enumeration: 2 m^2 of the persons' queries, 2 of the households'; of one record each 2."""
    assert largest_change(members, 3) == 2 * members**2
    statement = household(universes(more=""), members)
    assert statement is not None
    assert Fraction(statement.budget) == Fraction(largest_change(members, 3) + largest_change(1, 4), 2)
    assert (statement.about, statement.of, statement.records) == ("household", "households", members)
    assert f"at most {members} members" in statement.words


def test_a_household_record_is_protected_better_where_persons_alter_two() -> None:
    statement = household(universes(), 3)
    assert statement is not None
    assert Fraction(statement.budget) == 9 + Fraction(1, 4)


def test_pure_budgets_of_a_household_grow_with_its_members() -> None:
    statement = household(universes('epsilon = "1"', more=""), 3)
    assert statement is not None
    assert (statement.budget, statement.epsilon, statement.zcdp) == ("4", "4", None)


def test_no_household_is_promised_anything_where_none_of_its_records_can_change_alone() -> None:
    text = SPEC.replace("privacy = { BUDGET }", 'privacy = { rho = "1" }').replace("BUDGET", 'rho = "1"')
    found = parse_spec(text.replace("MORE", "") + '[invariants]\ntown = ["sex"]\nblock = ["total"]\n').universes()
    assert household(found, 3) is None
