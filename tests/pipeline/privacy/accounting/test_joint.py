"""What one person's change costs over persons and companions, and how much noise several records of his need."""

from __future__ import annotations

from fractions import Fraction

from pipeline.model.universe import Universe
from pipeline.privacy.accounting.joint import household_statement, joint_statement
from pipeline.privacy.accounting.statement_models import Statement
from pipeline.privacy.accounting.statements import privacy_statements
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
