"""Statements about a person, a unit and a household, proved by enumeration of all neighbours in a small world.

What a pair of neighbours costs is computed from the noise as the manifest states it: the sum over all answers at all
levels of their squared differences / (2 sigma^2), which is the rho of these answers, or of their differences / b.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from geography.build import spine_from_prefixes
from geography.spine import Spine
from pipeline.model.measure import ProtectedUnit
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.statement_models import Statement
from pipeline.privacy.accounting.statements import household_statement, joint_statement, privacy_statements
from pipeline.privacy.units import kept_records
from pipeline.release.privacy_statement import drawn_of
from pipeline.spec.release_spec import parse_spec

LEVELS = {"town": 1, "block": 2}
SPINE = spine_from_prefixes(("11", "12", "21"), LEVELS)
VISITS, HOUSEHOLDS = 3, 2

SPEC = f"""
name = "x"
privacy = {{ BUDGET, neighbours = "NEIGHBOURS" }}
geography = {{ file = "f.csv", column = "b", levels = {{ town = 1, block = 2 }} }}
schema.attributes = {{ sex = ["f", "m"] }}
strategy = {{ queries = {{ sex = "1" }}, levels = {{ town = "1/3", block = "2/3" }} }}
[companions.visits]
privacy = {{ AMOUNT, unit = "patient", at_most = {VISITS} }}
schema.attributes.reason = ["fall", "fever"]
strategy.levels.town = {{ share = "1/4", queries = {{ reason = "1" }} }}
strategy.levels.block = {{ share = "3/4", queries = {{ reason = "2/3", total = "1/3" }} }}
[companions.households]
records_per_person = {HOUSEHOLDS}
privacy = {{ AMOUNT }}
schema.attributes.size = ["1", "2", "3+"]
strategy = {{ queries = {{ size = "1" }}, levels = {{ town = "1/2", block = "1/2" }} }}
"""


def universes(framework: str, neighbours: str) -> tuple[Universe, ...]:
    """Persons, visits and households, each with the budget 2."""
    amount = 'rho = "2"' if framework == "zcdp" else 'epsilon = "2"'
    text = SPEC.replace("AMOUNT", amount).replace("NEIGHBOURS", neighbours)
    return parse_spec(text.replace("BUDGET", f'framework = "{framework}", {amount}')).universes()


def answers(universe: Universe, spine: Spine) -> Iterator[tuple[Fraction, NDArray[np.int64]]]:
    """The scale of each measurement's noise, and its answers as a matrix, `(n_geounits * size, leaves * cells)`."""
    stated = {(use.level, use.query): use.mechanism.scale for use in drawn_of(universe)}
    cells = universe.schema.n_cells
    for number, level in enumerate(universe.strategy.levels):
        geounit = np.repeat(spine.leaf_ancestors(number), cells)
        for measured in level.queries:
            answer = np.tile(measured.query.cell_answer, spine.n_leaves)
            matrix = np.zeros((len(spine.levels[number]) * measured.query.size, len(answer)), dtype=np.int64)
            matrix[geounit * measured.query.size + answer, np.arange(len(answer))] = 1
            yield stated[level.level, measured.query.name], matrix


def worst(universe: Universe, before: NDArray[np.int64], after: NDArray[np.int64]) -> Fraction:
    """The largest cost of any pair of a histogram in `before` and one in `after`, `(n, leaves * cells)` each; exact."""
    zcdp = universe.framework == "zcdp"
    parts = list(answers(universe, SPINE))
    whole = math.lcm(*(scale.numerator for scale, _ in parts)) * 2
    cost = np.zeros((len(before), len(after)), dtype=np.int64)
    for scale, matrix in parts:
        weight = whole / (2 * scale) if zcdp else whole / scale
        assert weight.denominator == 1
        for one, other in zip(matrix @ before.T, matrix @ after.T, strict=True):
            moved = np.abs(one[:, None] - other[None, :])
            cost += int(weight) * (moved**2 if zcdp else moved)
    return Fraction(int(cost.max()), whole)


def histograms(universe: Universe, sizes: Sequence[int]) -> NDArray[np.int64]:
    """Every way to place so many records in the cells of the leaves, `(n, leaves * cells)`."""
    cells = SPINE.n_leaves * universe.schema.n_cells
    placed = [
        np.bincount(np.array(one, dtype=np.int64), minlength=cells)
        for size in sizes
        for one in itertools.combinations_with_replacement(range(cells), size)
    ]
    return np.array(placed)


def changes(universe: Universe, records: int, fewer: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What so many records may be before and after; units may have `fewer`, and with add-remove are there or not."""
    sizes = range(records + 1) if fewer else (records,)
    placed = histograms(universe, sizes)
    return placed, placed if universe.neighbours == "change-one" else np.zeros_like(placed[:1])


def cost_of(found: Sequence[Universe], persons: int, households: int) -> Fraction:
    """The largest cost of the change of so many persons and so many records of households, over all universes."""
    own, visits, homes = found
    return (
        worst(own, *changes(own, persons, fewer=False))
        + worst(visits, *changes(visits, persons * VISITS, fewer=True))
        + worst(homes, *changes(homes, households, fewer=False))
    )


CASES = [(f, n) for f in ("zcdp", "pure") for n in ("change-one", "add-remove")]
#: Two of them in the fast suite, between them both frameworks and both kinds of neighbours.
SOME = [CASES[0], CASES[3], *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES[1:3])]


@pytest.mark.parametrize(("framework", "neighbours"), CASES)
def test_one_person_costs_what_the_joint_statement_says(framework: str, neighbours: str) -> None:
    """His own record, all his visits and two households: no neighbours cost more, and some as much."""
    found = universes(framework, neighbours)
    stated = Fraction(joint_statement(found, [privacy_statements(one) for one in found]).budget)
    assert stated == 6
    assert cost_of(found, 1, HOUSEHOLDS) == stated


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize(("framework", "neighbours"), SOME)
def test_a_household_costs_what_its_statement_says(framework: str, neighbours: str, members: int) -> None:
    """All its members with all their visits, and its own record."""
    found = universes(framework, neighbours)
    accounts = [privacy_statements(one) for one in found]
    statement = household_statement(found, accounts, "households", members)
    assert statement is not None
    assert cost_of(found, members, 1) == Fraction(statement.budget)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(("framework", "neighbours"), SOME)
def test_noise_made_for_one_of_several_records_would_cost_more(framework: str, neighbours: str, number: int) -> None:
    """A household counted once where a person alters two; a patient's three visits counted as one."""
    found = list(universes(framework, neighbours))
    records = found[number].unit.records
    found[number] = replace(found[number], unit=ProtectedUnit(1))
    stated = Fraction(joint_statement(found, [privacy_statements(one) for one in found]).budget)
    times = records**2 if framework == "zcdp" else records
    assert cost_of(found, 1, HOUSEHOLDS) == stated + 2 * (times - 1)


@pytest.mark.parametrize("secret", ["one", "two"])
def test_a_unit_with_any_records_costs_the_budget_whatever_is_left_out_of_it(secret: str) -> None:
    """Up to five visits, of which three are counted by the keyed choice, beside another patient's."""
    visits = universes("zcdp", "change-one")[1]
    cells = SPINE.n_leaves * visits.schema.n_cells

    def counted(own: Sequence[int]) -> NDArray[np.int64]:
        placed = np.array([*own, 0, 1, 1, 4, 5], dtype=np.int64)
        units = np.array([0] * len(own) + [1] * 5, dtype=np.int64)
        names = ["p", "other"]
        kept = kept_records(units, placed, names, VISITS, lambda d: hmac.digest(secret.encode(), d, hashlib.sha256))
        return np.bincount(placed[kept], minlength=cells)

    every = np.array(
        [counted(own) for size in range(6) for own in itertools.combinations_with_replacement(range(cells), size)]
    )
    assert len(every) == 462
    assert worst(visits, every, every) == visits.budget


# Persons and households alone

TWO = """
name = "x"
privacy = { rho = "1" }
geography = { file = "f.csv", column = "b", levels = { town = 1, block = 2 } }
schema.attributes = { sex = ["f", "m"] }
strategy = { queries = { sex = "1" }, levels = { town = "1/2", block = "1/2" } }
INVARIANTS
[companions.households]
MORE
privacy = { rho = "1" }
schema.attributes.size = ["1", "2", "3", "4+"]
strategy = { queries = { size = "1" }, levels = { town = "1/2", block = "1/2" } }
"""
#: With these no record of a person can change alone.
FIXED = 'invariants = { town = ["sex"], block = ["total"] }'


def of_two(more: str = "", invariants: str = "") -> tuple[Universe, ...]:
    return parse_spec(TWO.replace("MORE", more).replace("INVARIANTS", invariants)).universes()


def joint(found: tuple[Universe, ...]) -> Statement:
    return joint_statement(found, [privacy_statements(one) for one in found])


def test_with_one_record_each_the_losses_of_all_noise_are_composed() -> None:
    statement = joint(of_two())
    assert statement.losses is not None
    assert float(statement.losses) < float(statement.zcdp or "nan")
    assert statement.epsilon == statement.losses


def test_two_persons_who_swap_alter_twice_as_many_households() -> None:
    """Persons: 2 rho of a swap. Households: any four records, 4 times the rho that any two cost."""
    statement = joint(of_two(invariants=FIXED))
    assert (statement.records, statement.budget) == (2, "6")
    assert "two people swapping" in statement.words


def test_a_selection_in_a_companion_is_paid_for_all_records() -> None:
    more = 'records_per_person = 2\nselect.detail = { level = "block", versions = ["total", "size"], '
    more += 'thresholds = [0, 9], share = "1/4", choice_share = "1/2" }'
    households = of_two(more)[1]
    assert sum(use.cost for use in drawn_of(households)) == households.budget
    (selection,) = households.selections
    cost = selection.select.mechanism.rho(2) + Fraction(2) / (2 * selection.noise.scale)
    assert 4 * cost == Fraction(1, 4)


def test_no_household_is_promised_anything_where_none_of_its_records_can_change_alone() -> None:
    found = of_two(invariants=FIXED)
    assert household_statement(found, [privacy_statements(one) for one in found], "households", 3) is None
