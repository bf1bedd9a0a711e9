"""What one person's change costs over persons and companions, and how much noise several records of his need."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import pytest

from pipeline.model.universe import Universe
from pipeline.privacy.accounting.joint import household_statement, joint_statement
from pipeline.privacy.accounting.statement_models import Statement
from pipeline.privacy.accounting.statements import privacy_statements
from pipeline.privacy.budget import noise_for
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


def test_with_one_record_each_the_losses_of_all_noise_are_composed() -> None:
    statement = joint(universes(more=""))
    assert statement.losses is not None
    assert float(statement.losses) < float(statement.zcdp or "nan")
    assert statement.epsilon == statement.losses


def test_two_persons_who_swap_alter_twice_as_many_households() -> None:
    """Persons: 2 rho of a swap. Households: any four records, 4 times the rho that any two cost."""
    text = SPEC.replace("privacy = { BUDGET }", 'privacy = { rho = "1" }').replace("BUDGET", 'rho = "1"')
    found = parse_spec(text.replace("MORE", "") + '[invariants]\ntown = ["sex"]\nblock = ["total"]\n').universes()
    statement = joint(found)
    assert (statement.records, statement.budget) == (2, "6")
    assert "two people swapping" in statement.words


def test_a_selection_in_a_companion_is_paid_for_all_records() -> None:
    more = 'records_per_person = 2\nselect.detail = { level = "block", versions = ["total", "size"], '
    more += 'thresholds = [0, 9], share = "1/4", choice_share = "1/2" }'
    households = universes(more=more)[1]
    uses = privacy_statement(households)
    assert sum(Fraction(n.share) for n in uses.noise) == 1
    (selection,) = households.selections
    cost = selection.select.mechanism.rho(2) + Fraction(2) / (2 * selection.noise.scale)
    assert 4 * cost == Fraction(1, 4)


def household(found: tuple[Universe, ...], members: int) -> Statement | None:
    return household_statement(found, [privacy_statements(one) for one in found], "households", members)


def test_no_household_is_promised_anything_where_none_of_its_records_can_change_alone() -> None:
    text = SPEC.replace("privacy = { BUDGET }", 'privacy = { rho = "1" }').replace("BUDGET", 'rho = "1"')
    found = parse_spec(text.replace("MORE", "") + '[invariants]\ntown = ["sex"]\nblock = ["total"]\n').universes()
    assert household(found, 3) is None
