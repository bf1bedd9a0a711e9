"""The bounds from households are exactly the persons that these can consist of: against enumeration and assignment."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from oracles.households import marginal
from oracles.joined_homes import broken, membership

from features.joins.mathematics.assignment import AssignmentError, assign
from features.joins.mathematics.composition import Composition, joined_bounds
from features.joins.mathematics.membership import NO_MOST, Membership
from postprocess.arrays import BoolArray, IntArray
from postprocess.errors import InfeasibleError
from postprocess.marginal import Marginal

#: Persons: residence (household, quarters) x age (3 groups); households: kinds 0 .. 3.
HOUSEHOLD, AGES, KINDS = 2, 3, 4


def query(name: str, residence: list[int], age: list[int]) -> Marginal:
    return Marginal(name, (np.array(residence), np.array(age)))


def kinds() -> Marginal:
    return Marginal("kind", (np.arange(KINDS),))


def limits_of(name: str, persons: Marginal, least: IntArray, most: IntArray, inside: list[bool]) -> Membership:
    expected = np.full(least.shape, np.nan)
    return Membership(name, persons, kinds(), least, most, np.array(inside), others=False, expected=expected)


def drawn(rng: np.random.Generator) -> list[Membership]:
    """A size for each kind, and random limits on two sets of ages and on single ages, all of which can be met."""
    size = rng.integers(1, 4, KINDS)
    one = rng.multinomial(1, [1 / 3] * 3, KINDS).T * (rng.random(KINDS) < 0.7)  # (ages, kinds): who is there at least
    low = np.zeros((2, KINDS), dtype=np.int64)
    high = low.copy()
    low[0], high[0] = size, size + rng.integers(0, 2, KINDS)
    least = np.concatenate([one, np.zeros((3, KINDS))]).astype(np.int64)
    most = np.where(rng.random((6, KINDS)) < 0.5, least + rng.integers(0, 3, (6, KINDS)), NO_MOST)
    pairs = query("residence * pair", [0, 1], [0, 0, 1])
    pair_most = np.full((4, KINDS), NO_MOST)
    pair_most[0] = np.where(rng.random(KINDS) < 0.5, one[:2].sum(axis=0) + rng.integers(0, 2, KINDS), NO_MOST)
    return [
        limits_of("size", query("residence", [0, 1], [0, 0, 0]), low, high, [True, False]),
        limits_of("pair", pairs, np.zeros((4, KINDS), dtype=np.int64), pair_most, [True, False, False, False]),
        limits_of("age", query("residence * age", [0, 1], [0, 1, 2]), least, most, [True] * 3 + [False] * 3),
    ]


def compositions(memberships: list[Membership], kind: int) -> set[tuple[int, ...]]:
    """All members by age of one household of a kind, by trying."""
    out = set()
    for members in itertools.product(range(6), repeat=AGES):
        cells = np.array([*members, 0, 0, 0])
        if all(
            m.least[a, kind] <= cells[m.persons.cell_answer == a].sum() <= m.most[a, kind]
            for m in memberships
            for a in np.flatnonzero(m.inside)
        ):
            out.add(members)
    return out


def sums(memberships: list[Membership], households: IntArray) -> set[tuple[int, ...]]:
    """All persons by age that the households can consist of."""
    reached = {(0,) * AGES}
    for kind, count in enumerate(households):
        for _ in range(count):
            own = compositions(memberships, kind)
            reached = {tuple(a + b for a, b in zip(x, y, strict=True)) for x in reached for y in own}
    return reached


def allowed(memberships: list[Membership], households: IntArray) -> set[tuple[int, ...]]:
    """All persons by age that the bounds allow."""
    composition = Composition.of(memberships)
    bounds = joined_bounds(composition, sp.csr_array(households[None, :]))
    most = int(households.sum()) * 6 + 1
    grid = np.array(list(itertools.product(range(most), repeat=AGES)))
    cells = np.concatenate([grid, np.zeros_like(grid)], axis=1)
    kept = np.ones(len(grid), dtype=bool)
    for bound in bounds:
        answers = bound.marginal.answer(cells)
        kept &= ((answers >= bound.lower) & (answers <= bound.upper)).all(axis=1)
    return set(map(tuple, grid[kept].tolist()))


@pytest.mark.parametrize("seed", range(40))
def test_they_allow_what_households_can_consist_of_and_nothing_else(seed: int) -> None:
    rng = np.random.default_rng(seed)
    memberships = drawn(rng)
    possible = [kind for kind in range(KINDS) if compositions(memberships, kind)]
    composition = Composition.of(memberships)
    assert np.flatnonzero(composition.possible).tolist() == possible
    households = np.zeros(KINDS, dtype=np.int64)
    for kind in rng.choice(possible, 3) if possible else []:
        households[kind] += 1
    assert allowed(memberships, households) == sums(memberships, households)


def test_bounds_of_children_add_up_to_their_parents() -> None:
    memberships = drawn(np.random.default_rng(5))
    composition = Composition.of(memberships)
    children = np.random.default_rng(1).integers(0, 5, (4, KINDS))
    above = joined_bounds(composition, sp.csr_array(children.sum(axis=0, keepdims=True)))
    below = joined_bounds(composition, sp.csr_array(children))
    for one, other in zip(above, below, strict=True):
        assert (other.lower.sum(axis=0) == one.lower[0]).all()
        bounded = one.upper[0] < 1 << 40
        assert (other.upper.sum(axis=0)[bounded] == one.upper[0][bounded]).all()


# -- who keeps the bounds can be assigned, and nobody else ------------------------------------------------------------


#: Where (home, quarters), age (three), role (two); households of four kinds.
PERSONS, HOUSEHOLDS = (2, 3, 2), (2, 2)
#: Queries from coarse to fine, and the answers of each that are at home.
QUERIES = (
    ({"a0": None}, 1),
    ({"a0": None, "a1": (0, 1, 1)}, 2),
    ({"a0": None, "a1": None}, 3),
    ({"a0": None, "a1": None, "a2": None}, 6),
)


def drawn_joins(rng: np.random.Generator, *, others: bool) -> list[Membership]:
    """Joins on some of the nested queries, with limits at random; many contradict each other."""
    joins = []
    for number in np.sort(rng.choice(4, rng.integers(1, 4), replace=False)).tolist():
        kept, inside = QUERIES[number]
        persons = marginal(f"q{number}", PERSONS, **kept)
        households = marginal("kind", HOUSEHOLDS, **({"a0": None, "a1": None} if rng.random() < 0.5 else {"a0": None}))
        least = rng.integers(0, 3 if number < 2 else 2, (persons.size, households.size))
        most = least + rng.integers(0, 3, least.shape)
        most[rng.random(most.shape) < 0.3] = NO_MOST
        if rng.random() < 0.3:  # only some answers are stated
            stated = rng.choice(inside, rng.integers(1, inside + 1), replace=False).tolist()
        else:
            stated = list(range(inside))
        joins.append(
            membership(f"j{number}", persons, households, np.stack([least, most], -1), sorted(stated), others=others)
        )
    return joins


def keeping(composition: Composition, households: sp.csr_array, people: IntArray) -> BoolArray:
    """Which of many numbers of persons `(n, n_cells)` keep the bounds of the households."""
    kept = np.ones(len(people), dtype=np.bool_)
    for bound in joined_bounds(composition, households):
        answers = bound.marginal.answer(people)
        kept &= ((bound.lower <= answers) & (answers <= bound.upper)).all(axis=1)
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("others", [False, True])
def test_bounds_say_exactly_who_can_be_assigned(others: bool) -> None:
    """Also for persons who keep them but for one: added, gone, or of another kind."""
    rng = np.random.default_rng(11)
    found = {True: 0, False: 0}
    for _ in range(250):
        joins = drawn_joins(rng, others=others)
        composition = Composition.of(joins)
        households = sp.csr_array(rng.integers(0, 3, (1, 4)) * (rng.random((1, 4)) < 0.7))
        people = rng.integers(0, rng.integers(2, 6), (300, 12)) * (rng.random((300, 12)) < rng.uniform(0.1, 0.7))
        kind = composition.households.cell_answer[households.indices]
        if not composition.possible[kind].all():
            kept = np.zeros(300, dtype=np.bool_)
        else:
            try:
                kept = keeping(composition, households, people)
            except InfeasibleError:  # a set of groups that no query can state
                continue
            if kept.any():
                near = people[[int(np.flatnonzero(kept)[0])] * 3]
                near[[0, 1], rng.integers(0, 12, 2)] += 1
                near[[1, 2], near[[1, 2]].argmax(axis=1)] -= 1
                fewest = people[kept][[people[kept].sum(axis=1).argmin()]]
                people = np.concatenate([fewest, np.maximum(near, 0)])
                kept = keeping(composition, households, people)
        for those, allowed in zip(people[:4], kept[:4].tolist(), strict=True):
            persons = sp.csr_array(those[None, :])
            found[allowed] += int(households.sum()) > 1
            if allowed:
                assert broken(joins, persons, households, assign(joins, persons, households, 0)) == []
            else:
                with pytest.raises(AssignmentError):
                    assign(joins, persons, households, 0)
    assert min(found.values()) > 100
