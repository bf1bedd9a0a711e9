"""How far a record and a unit move sums and counts, all pairs enumerated; and the noise that it needs."""

from __future__ import annotations

import hashlib
import hmac
import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipeline.privacy.budget import MOVED, Framework, Neighbours, budget_of_one, reach_between, reach_of_total
from pipeline.privacy.noise.mechanisms import mechanism, noise_for
from pipeline.privacy.units import kept_records, within_ends

CELLS = 4
#: Each query as a matrix: every cell, areas, groups, all.
QUERIES = (
    np.eye(4, dtype=np.int64),
    np.array([[1, 1, 0, 0], [0, 0, 1, 1]]),
    np.array([[1, 0, 1, 0], [0, 1, 0, 1]]),
    np.ones((1, 4), dtype=np.int64),
)

Ints = NDArray[np.int64]
#: What of a unit's cells and amounts is added.
Rule = Callable[[Ints, Ints], tuple[Ints, Ints]]


def keyed(data: bytes) -> bytes:
    return hmac.digest(b"key", data, hashlib.sha256)


def capped(at_most: int) -> Rule:
    def rule(cells: Ints, amounts: Ints) -> tuple[Ints, Ints]:
        kept = kept_records(np.zeros(len(cells), dtype=np.int64), cells, ["p"], at_most, keyed, (amounts,))
        return cells[kept], amounts[kept]

    return rule


def in_all(low: int, high: int) -> Rule:
    return lambda cells, amounts: (cells, within_ends(np.zeros(len(cells), dtype=np.int64), amounts, low, high))


def added(rule: Rule, amounts: range, most: int = 3) -> Ints:
    """What each unit adds to each cell, one row a unit: all units with up to `most` records."""
    found = {(0,) * CELLS}
    for size in range(1, most + 1):
        records = itertools.product(range(CELLS), amounts)
        for unit in itertools.combinations_with_replacement(records, size):
            cells, units = rule(*(np.array(column, dtype=np.int64) for column in zip(*unit, strict=True)))
            vector = np.zeros(CELLS, dtype=np.int64)
            np.add.at(vector, cells, units)
            found.add(tuple(vector.tolist()))
    return np.array(sorted(found), dtype=np.int64)


def moves(vectors: Ints, neighbours: Neighbours) -> Iterator[tuple[int, int]]:
    """The largest L1, and the largest squared L2, of the numbers of each query."""
    for query in QUERIES:
        numbers = np.unique(vectors @ query.T, axis=0)
        others = numbers if neighbours == "change-one" else np.zeros((1, len(query)), dtype=np.int64)
        apart = np.abs(numbers[:, None, :] - others[None, :, :])
        yield int(apart.sum(axis=2).max()), int((apart**2).sum(axis=2).max())


def furthest(rule: Rule, amounts: range, neighbours: Neighbours) -> tuple[int, int]:
    found = list(moves(added(rule, amounts), neighbours))
    return max(l1 for l1, _ in found), max(l2 for _, l2 in found)


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize(("low", "high"), [(0, 3), (-2, 3), (-3, 0)])
def test_a_unit_moves_sums_as_its_total_may(low: int, high: int, neighbours: Neighbours) -> None:
    reach, moved = reach_of_total(low, high), MOVED[neighbours]
    l1, l2 = furthest(in_all(low, high), range(low, high + 1), neighbours)
    assert l1 == moved * reach
    assert l2 <= moved * reach**2
    if neighbours == "change-one" or 0 in (low, high):
        assert l2 == moved * reach**2


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("at_most", [1, 2])
@pytest.mark.parametrize(("low", "high"), [(0, 3), (-3, 3)])
def test_a_unit_moves_sums_as_so_many_records_may(low: int, high: int, at_most: int, neighbours: Neighbours) -> None:
    reach, moved = at_most * reach_between(low, high, neighbours), MOVED[neighbours]
    l1, l2 = furthest(capped(at_most), range(low, high + 1), neighbours)
    assert l1 <= moved * reach
    assert l2 <= moved * reach**2
    if low == 0:
        assert (l1, l2) == (moved * reach, moved * reach**2)


def _uncapped(cells: Ints, amounts: Ints) -> tuple[Ints, Ints]:
    return cells, amounts


def _sum_alone(cells: Ints, amounts: Ints) -> tuple[Ints, Ints]:
    """Taken down only where gains and losses together are above the ends."""
    total = int(amounts.sum())
    return (cells, amounts) if -2 <= total <= 3 else (cells, within_ends(np.zeros_like(cells), amounts, -2, 3))


def _up(cells: Ints, amounts: Ints) -> tuple[Ints, Ints]:
    """Each amount rounded up: together they are more than they may be."""
    total = int(amounts.sum())
    return cells, amounts if total <= 3 else -(-amounts * 3 // total)


@pytest.mark.parametrize(
    ("rule", "low", "high"), [(_uncapped, 0, 3), (capped(2), 0, 3), (_up, 0, 3), (_sum_alone, -2, 3)]
)
def test_a_total_that_is_not_kept_to_would_be_noticed(rule: Rule, low: int, high: int) -> None:
    reach = reach_of_total(low, high)
    l1, l2 = furthest(rule, range(low, high + 1), "change-one")
    assert l1 > 2 * reach
    assert l2 > 2 * reach**2


RECORDS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, CELLS - 1), st.integers(-7, 9)), max_size=14)


def columns(records: list[tuple[int, int, int]]) -> tuple[Ints, Ints, Ints]:
    table = np.array(records, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


@settings(max_examples=60)
@given(records=RECORDS, low=st.integers(-5, 0), high=st.integers(0, 8))
def test_totals_are_kept_within_their_ends_and_no_amount_grows(
    records: list[tuple[int, int, int]], low: int, high: int
) -> None:
    units, _, amounts = columns(records)
    within = within_ends(units, amounts, low, high)
    assert (np.abs(within) <= np.abs(amounts)).all()
    assert (within * amounts >= 0).all()
    for unit in range(4):
        own, before = within[units == unit], amounts[units == unit]
        for sign, most in ((1, high), (-1, -low)):
            total, was = int(np.maximum(sign * own, 0).sum()), int(np.maximum(sign * before, 0).sum())
            assert total <= most
            if was <= most:
                assert total == was
            else:
                # Where no two amounts are equal nothing is lost by rounding.
                part = [one for one in before.tolist() if sign * one > 0]
                assert total > most - len(part)
                assert total == most or len(set(part)) < len(part)
                # Nothing is more than one unit from its share.
                share = np.maximum(sign * before, 0) * most / was
                assert (np.abs(np.maximum(sign * own, 0) - share) < 1).all()


@settings(max_examples=50)
@given(records=RECORDS, other=RECORDS, number=st.sampled_from([0, 4]), order=st.randoms(use_true_random=False))
def test_what_a_unit_adds_depends_on_nobody_else_and_not_on_the_order(
    records: list[tuple[int, int, int]], other: list[tuple[int, int, int]], number: int, order: object
) -> None:
    """One unit, the first or the last, has `records`; the others are others. All that is counted of it stays."""
    own = [(number, cell, amount) for _, cell, amount in records]
    beside = [((number + 1 + unit) % 5, cell, amount) for unit, cell, amount in other]
    mixed = own + beside
    order.shuffle(mixed)  # type: ignore[attr-defined]
    found = []
    for rows in (own, mixed):
        units, cells, amounts = columns(rows)
        kept = kept_records(units, cells, [f"p{n}" for n in range(5)], 2, keyed, (amounts,))
        units, cells, amounts = units[kept], cells[kept], amounts[kept]
        within = within_ends(units, amounts, -4, 6)
        found.append(sorted(zip(cells[units == number].tolist(), within[units == number].tolist(), strict=True)))
    assert found[0] == found[1]


def test_equal_records_of_another_unit_decide_nothing() -> None:
    """Which of a unit's equal records are counted, with amounts of their own beside, is decided by the unit alone."""
    amounts = np.arange(40) % 4
    for unit in (0, 1):
        units, other = np.full(40, unit), np.full(40, 1 - unit)
        alone = kept_records(units, np.zeros(40, dtype=np.int64), ["a", "b"], 5, keyed, (amounts,))
        both = kept_records(
            np.append(other, units), np.zeros(80, dtype=np.int64), ["a", "b"], 5, keyed, (np.append(amounts, amounts),)
        )
        assert np.array_equal(both[40:], alone)


@settings(max_examples=50)
@given(amounts=st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_where_a_record_is_does_not_alter_what_others_are_taken_down_to(amounts: list[int]) -> None:
    """The statements about an attribute or a place need this: equal amounts become equal ones."""
    units, values = np.zeros(len(amounts), dtype=np.int64), np.array(amounts, dtype=np.int64)
    within = within_ends(units, values, 0, 6)
    for amount in set(amounts):
        assert len(set(within[values == amount].tolist())) == 1
    with pytest.raises(ValueError, match="0 must be between the ends"):
        within_ends(units, values, 1, 6)


@pytest.mark.parametrize("kind", ["change-one", "add-remove"])
@pytest.mark.parametrize("ends", [(0, 5), (4, 5), (0, 1), (2, 5), (-5, 0), (-3, 5), (-5, 5), (-1, 4)])
def test_the_reach_is_the_least_whole_one(ends: tuple[int, int], kind: Neighbours) -> None:
    """No record moves the sums of its cells further, and one less is broken by some record."""
    low, high = ends
    every = [units * np.eye(2, dtype=np.int64)[cell] for cell in range(2) for units in range(low, high + 1)]
    others = every if kind == "change-one" else [np.zeros(2, dtype=np.int64)]
    moves = [before - after for before, after in itertools.product(every, others)]
    absolute, squared = max(abs(move).sum() for move in moves), max((move**2).sum() for move in moves)
    reach, moved = reach_between(low, high, kind), MOVED[kind]
    assert absolute <= moved * reach
    assert squared <= moved * reach**2
    assert absolute > moved * (reach - 1) or squared > moved * (reach - 1) ** 2
    if low >= 0:
        assert reach == high


@pytest.mark.parametrize(("framework", "power"), [("zcdp", 2), ("pure", 1)])
@pytest.mark.parametrize("kind", ["change-one", "add-remove"])
def test_the_noise_of_a_companion_costs_its_budget_for_such_a_record(
    framework: Framework, power: int, kind: Neighbours
) -> None:
    budget, reach = Fraction(3, 10), reach_between(0, 120, kind)
    noise = noise_for(framework, budget_of_one(framework, budget, reach), Fraction(1), Fraction(1), kind)
    use = mechanism(noise.mechanism, noise.scale)
    one = use.rho(MOVED[kind]) if framework == "zcdp" else use.epsilon(MOVED[kind])
    assert one is not None
    assert one * reach**power == budget
