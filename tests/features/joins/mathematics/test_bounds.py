"""The bounds from households are exactly the persons that these can consist of: against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from features.joins.mathematics.composition import Composition, joined_bounds
from features.joins.mathematics.membership import NO_MOST, Membership
from postprocess.arrays import IntArray
from postprocess.marginal import Marginal

#: Persons: residence (household, quarters) x age (3 groups); households: kinds 0 .. 3.
HOUSEHOLD, AGES, KINDS = 2, 3, 4


def query(name: str, residence: list[int], age: list[int]) -> Marginal:
    return Marginal(name, (np.array(residence), np.array(age)))


def kinds() -> Marginal:
    return Marginal("kind", (np.arange(KINDS),))


def membership(name: str, persons: Marginal, least: IntArray, most: IntArray, inside: list[bool]) -> Membership:
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
        membership("size", query("residence", [0, 1], [0, 0, 0]), low, high, [True, False]),
        membership("pair", pairs, np.zeros((4, KINDS), dtype=np.int64), pair_most, [True, False, False, False]),
        membership("age", query("residence * age", [0, 1], [0, 1, 2]), least, most, [True] * 3 + [False] * 3),
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
