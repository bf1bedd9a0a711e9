"""Every person lives in a household that its joins allow; where that is impossible, the leaf is named."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracles.households import HOUSEHOLDS, PERSONS, drawn_town, marginal, records
from oracles.joined_homes import broken, compositions, membership, town_joins

from features.joins.mathematics import assignment
from features.joins.mathematics.assignment import AssignmentError, assign, assigned_spans
from features.joins.mathematics.membership import NO_MOST, Membership


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_a_population_that_was_made_of_households_is_made_of_them_again(seed: int) -> None:
    joins = town_joins()
    persons, households = drawn_town(40, seed)
    number = assign(joins, persons, households, seed)
    assert number.shape == (persons.sum(),)
    assert broken(joins, persons, households, number) == []
    _, cell = records(persons)
    assert ((number < 0) == (cell >= 16)).all()  # those in dormitories


def _tiny() -> list[Membership]:
    """Three kinds of persons (householder, child, other) in households of two sizes, with children or without."""
    shape, kinds = (3,), (2, 2)
    total, child = marginal("total", shape), marginal("role", shape, a0=None)
    size = np.array([[(1, 2), (3, 3)]])
    roles = np.zeros((3, 2, 2), dtype=np.int64)
    roles[0] = (1, 1)
    roles[1] = [(0, 0), (1, 2)]
    roles[2] = (0, NO_MOST)
    return [
        membership("size", total, marginal("size", kinds, a0=None), size, (0,), others=False),
        membership("roles", child, marginal("children", kinds, a1=None), roles, (0, 1, 2), others=False),
    ]


def _possible(joins: list[Membership], persons: NDArray[np.int64], homes: list[int]) -> bool:
    """By enumeration of what each household may hold."""
    options = [list(compositions(joins, cell, (0, 1, 2), 3)) for cell in homes]
    return any(
        np.array_equal(np.sum(choice, axis=0) if choice else np.zeros(3, int), persons)
        for choice in itertools.product(*options)
    )


def test_an_assignment_is_found_exactly_where_enumeration_finds_one() -> None:
    joins = _tiny()
    rng = np.random.default_rng(5)
    found = {True: 0, False: 0}
    for _ in range(300):
        homes = np.sort(rng.integers(0, 4, rng.integers(0, 4)))
        held = [list(compositions(joins, home, (0, 1, 2), 3)) for home in homes.tolist()]
        people = np.sum([options[rng.integers(len(options))] for options in held] or [(0, 0, 0)], axis=0)
        if rng.random() < 0.6:
            people = np.maximum(people + rng.integers(-1, 2, 3), 0)
        households = sp.csr_array(np.bincount(homes, minlength=4)[None, :])
        persons = sp.csr_array(people[None, :])
        possible = _possible(joins, people, homes.tolist())
        found[possible] += 1
        if possible:
            assert broken(joins, persons, households, assign(joins, persons, households, 1)) == []
        else:
            with pytest.raises(AssignmentError):
                assign(joins, persons, households, 1)
    assert min(found.values()) > 50


def test_the_same_seed_gives_the_same_households_and_another_seed_others(monkeypatch: pytest.MonkeyPatch) -> None:
    joins = town_joins()
    persons, households = drawn_town(300, 4)
    number = assign(joins, persons, households, 7)
    assert np.array_equal(number, assign(joins, persons, households, 7))
    other = assign(joins, persons, households, 8)
    assert broken(joins, persons, households, other) == []
    assert (number != other).mean() > 0.2
    # A later span does not depend on those before it.
    monkeypatch.setattr(assignment, "LEAVES_AT_ONCE", 100)
    whole = assign(joins, persons, households, 7)
    emptied = persons.toarray(), households.toarray()
    for dense in emptied:
        dense[:100] = 0
    rest = assign(joins, sp.csr_array(emptied[0]), sp.csr_array(emptied[1]), 7)
    assert np.array_equal(whole[int(persons[:100].sum()) :], rest)


def test_a_span_has_no_more_persons_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for a leaf that has more by itself; spans join up, and every leaf is in one."""
    joins = town_joins()
    persons, households = drawn_town(50, 9)
    monkeypatch.setattr(assignment, "PERSONS_AT_ONCE", 40)
    monkeypatch.setattr(assignment, "LEAVES_AT_ONCE", 7)
    spans = list(assigned_spans(joins, persons, households, 7))
    assert sum(leaves for leaves, _ in spans) == 50
    assert all(leaves <= 7 for leaves, _ in spans)
    assert all(leaves == 1 or len(numbers) <= 40 for leaves, numbers in spans)
    assert len(spans) > 10
    number = np.concatenate([numbers for _, numbers in spans])
    assert broken(joins, persons, households, number) == []


def test_who_lives_where_does_not_follow_the_order_of_cells() -> None:
    """Sex is in no join and tenure neither: the share of women is the same in owned and rented households."""
    joins = town_joins()
    persons, households = drawn_town(400, 5, mean=15)
    number = assign(joins, persons, households, 0)
    leaf, cell = records(persons)
    house_leaf, house_cell = records(households)
    first = np.searchsorted(house_leaf, np.arange(400))
    inside = number >= 0
    home = house_cell[first[leaf[inside]] + number[inside]]
    woman = cell[inside] % 2
    for attribute in (home % 2, home // 4 % 2, home // 8 == 4):
        share = [woman[attribute == value].mean() for value in (0, 1)]
        error = np.sqrt(0.25 * sum(1 / (attribute == value).sum() for value in (0, 1)))
        assert abs(share[0] - share[1]) < 4 * error
    assert persons.shape[1] == np.prod(PERSONS)
    assert households.shape[1] == np.prod(HOUSEHOLDS)


def test_mixtures_are_about_proportional() -> None:
    """Children of a leaf live in all kinds of households with children, not in as few as the bounds allow.

    Of the members of such a kind who are not householders, the share of children is about that of its leaf: where the
    flow has no costs, it differs by 0.33 on average, with them by 0.08.
    """
    joins = town_joins()
    persons, households = drawn_town(100, 6, mean=60)
    number = assign(joins, persons, households, 0)
    leaf, cell = records(persons)
    house_leaf, house_cell = records(households)
    first = np.searchsorted(house_leaf, np.arange(100))
    inside = number >= 0
    home = house_cell[first[leaf[inside]] + number[inside]]
    age, other = cell[inside] // 2 % 4, cell[inside] // 8 % 2 == 1
    # Households of three and more with children; a third member may be either.
    these = other & (home // 2 % 2 == 1) & (home // 8 >= 2)
    kind = leaf[inside] * 40 + home // 4
    members = np.bincount(kind[these], minlength=4000)
    children = np.bincount(kind[these & (age < 2)], minlength=4000)
    share = children.reshape(100, 40).sum(axis=1) / np.maximum(members.reshape(100, 40).sum(axis=1), 1)
    far = np.abs(children / np.maximum(members, 1) - np.repeat(share, 40))[members >= 8]
    assert len(far) > 200
    assert far.mean() < 0.1
