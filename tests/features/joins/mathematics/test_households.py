"""Who lives where, which persons households can have, and what persons say of them: by enumeration."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracles.dense import subtree_gls
from oracles.households import HOUSEHOLDS, PERSONS, drawn_town, marginal, records
from oracles.joined_homes import broken, compositions, membership, town_joins
from oracles.random_problems import random_problem

from features.joins.mathematics import assignment
from features.joins.mathematics.assignment import AssignmentError, assigned_spans
from features.joins.mathematics.composition import LEAST_VARIANCE, Composition, counted_of, implied_by, joined_bounds
from features.joins.mathematics.membership import NO_MOST, Membership
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.errors import InfeasibleError
from postprocess.linear.upward import basis_of, upward_pass
from postprocess.marginal import Marginal
from postprocess.members import BETWEEN, Implied, MemberSums


def assign(joins: list[Membership], persons: sp.csr_array, households: sp.csr_array, seed: int) -> IntArray:
    """The household of every person, of all spans of leaves together."""
    return np.concatenate([numbers for _, numbers in assigned_spans(joins, persons, households, seed)])


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


def members_of(
    persons: sp.csr_array, households: sp.csr_array, number: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Leaf, cell and cell of the household of each person who lives in one."""
    leaf, cell = records(persons)
    house_leaf, house_cell = records(households)
    inside = number >= 0
    first = np.searchsorted(house_leaf, leaf[inside])
    return leaf[inside], cell[inside], house_cell[first + number[inside]]


def test_who_lives_where_does_not_follow_the_order_of_cells() -> None:
    """Sex is in no join and tenure neither: the share of women is the same in owned and rented households."""
    joins = town_joins()
    persons, households = drawn_town(400, 5, mean=15)
    _, cell, home = members_of(persons, households, assign(joins, persons, households, 0))
    woman = cell % 2
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
    leaf, cell, home = members_of(persons, households, assign(joins, persons, households, 0))
    age, other = cell // 2 % 4, cell // 8 % 2 == 1
    # Households of three and more with children; a third member may be either.
    these = other & (home // 2 % 2 == 1) & (home // 8 >= 2)
    kind = leaf * 40 + home // 4
    members = np.bincount(kind[these], minlength=4000)
    children = np.bincount(kind[these & (age < 2)], minlength=4000)
    share = children.reshape(100, 40).sum(axis=1) / np.maximum(members.reshape(100, 40).sum(axis=1), 1)
    far = np.abs(children / np.maximum(members, 1) - np.repeat(share, 40))[members >= 8]
    assert len(far) > 200
    assert far.mean() < 0.1


#: Persons: residence (household, quarters) x age (3 groups); households: kinds 0 .. 3.
AGES, KINDS = 3, 4


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


def of_one_household(memberships: list[Membership], kind: int) -> set[tuple[int, ...]]:
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
            own = of_one_household(memberships, kind)
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
    possible = [kind for kind in range(KINDS) if of_one_household(memberships, kind)]
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


#: Where (home, quarters), age (three), role (two); households of four kinds.
PERSON_SHAPE, HOUSEHOLD_SHAPE = (2, 3, 2), (2, 2)
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
        persons = marginal(f"q{number}", PERSON_SHAPE, **kept)
        households = marginal(
            "kind", HOUSEHOLD_SHAPE, **({"a0": None, "a1": None} if rng.random() < 0.5 else {"a0": None})
        )
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


#: Members of a household of sizes 1, 2, 3 and "4+".
LEAST, EXPECTED, MOST = np.array([1, 2, 3, 4]), np.array([1.0, 2.0, 3.0, 4.5]), np.array([1, 2, 3, 9])


def counted(persons: Marginal, *, others: bool = False, inside: int = 0) -> MemberSums:
    """Of a join of sizes with one answer of a query on persons."""
    rows = np.arange(persons.size) == inside
    sizes = Marginal("size", (np.arange(4),))
    join = Membership(
        "size",
        persons,
        sizes,
        np.where(rows[:, None], LEAST, 0),
        np.where(rows[:, None], MOST, 1 << 40),
        rows,
        others,
        np.where(rows[:, None], EXPECTED, np.nan),
    )
    found = counted_of(Composition.of([join]))
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(6))
def test_sums_of_persons_are_those_of_dense_least_squares(seed: int) -> None:
    problem, _ = random_problem(seed, n_levels=3, shape=(2, 3))
    persons = Marginal("residence", (np.arange(2), np.zeros(3, dtype=np.int64)))
    problem = replace(problem, further=(persons,))
    basis = basis_of(problem)
    estimates = upward_pass(problem, basis)
    sums = counted(persons)
    for level in range(3):
        implied = implied_by(sums, problem, basis, level, estimates[level])
        for row in range(len(implied.values)):
            dense = subtree_gls(problem, level, row)
            cells = (persons.cell_answer == 0).astype(np.float64)
            assert implied.values[row] == pytest.approx(np.full(2, cells @ dense.mean))
            variance = max(cells @ dense.covariance @ cells, LEAST_VARIANCE)
            assert implied.variances[row] == pytest.approx(np.full(2, variance))


def stacked(
    precision: FloatArray, linear: FloatArray, members: FloatArray, value: float, variance: float
) -> FloatArray:
    """Dense least squares of households and of the persons in them, who are their members, as two unknowns."""
    n = len(linear)
    rows = [np.linalg.cholesky(precision).T, np.hstack([members / np.sqrt(variance)])[None, :]]
    right = [np.linalg.solve(np.linalg.cholesky(precision), linear), np.array([value / np.sqrt(variance)])]
    solution, *_ = np.linalg.lstsq(np.vstack(rows), np.concatenate(right), rcond=None)
    assert len(solution) == n
    return np.asarray(solution)


def test_families_have_the_persons_as_a_further_measurement() -> None:
    rng = np.random.default_rng(3)
    sums = counted(Marginal("total", (np.zeros(2, dtype=np.int64),)))
    root = rng.normal(size=(4, 4))
    precision, linear = root @ root.T + np.eye(4), rng.normal(size=(3, 4)) * 5
    values, variances = rng.normal(20, 3, (3, 2)), np.array([[2.0, 2.0], [0.5, 0.5], [2.0, 2.0]])
    implied = Implied(sums, values, variances, np.ones((3, 2)))
    members = sums.least + sums.excess
    use = np.tile([True, False], (3, 1))
    kind, matrices, terms = implied.terms(
        members, slice(0, 3), np.zeros(3, dtype=np.int64), precision[None], linear, use
    )
    assert kind[0] == kind[2] != kind[1]
    for child in range(3):
        mine = np.linalg.solve(matrices[kind[child]], terms[child])
        dense = stacked(precision, linear[child], members[0], values[child, 0], variances[child, 0])
        assert mine == pytest.approx(dense)


def test_open_ended_sizes_are_learned_from_the_level_above() -> None:
    """A parent with 100 households of 4+ and 600 persons: an excess of two each, where half a person was expected."""
    sums = counted(Marginal("total", (np.zeros(2, dtype=np.int64),)))
    above = Implied(sums, np.full((1, 2), 600.0), np.full((1, 2), 4.0), np.ones((1, 2)))
    below = Implied(sums, np.array([[400.0] * 2, [200.0] * 2]), np.full((2, 2), 4.0), np.ones((2, 2)))
    parents = sp.csr_array(np.array([[0, 0, 0, 100]]))
    learned = below.below(parents, above, np.array([0, 0]), np.zeros(2))
    weight = 50.0**2 / 4.0
    assert learned.factors[:, 0] == pytest.approx((1 + weight * 4.0) / (1 + weight))
    assert learned.factors[:, 1] == pytest.approx(1.0)  # the least members are what they are
    assert learned.variances[:, 1] == pytest.approx(4.0)
    # The more persons, the more households of open-ended size, and the less is known of their members.
    assert learned.variances[0, 0] > learned.variances[1, 0] > 4.0
    assert np.isinf(above.at_top().variances[0, 0])
    assert above.at_top().variances[0, 1] == 4.0


def test_simulated_sums_have_the_stated_variance_and_the_same_noise_for_both_comparisons() -> None:
    sums = counted(Marginal("total", (np.zeros(2, dtype=np.int64),)))
    n = 20_000
    implied = Implied(sums, np.zeros((n, 2)), np.full((n, 2), 9.0), np.ones((n, 2)))
    released = sp.csr_array(np.tile([2, 1, 0, 2], (n, 1)))
    excess = np.tile([1.0, 0.0], (n, 1))
    drawn = implied.measured_anew(released, excess, np.arange(n), (3, 99)).values
    assert (drawn[:, 0] == drawn[:, 1]).all()
    assert drawn[:, 0].mean() == pytest.approx(2 + 2 + 2 * 4.5, abs=4 * 3 / np.sqrt(n))
    assert drawn[:, 0].std() == pytest.approx(3.0, rel=0.03)
    some = np.array([5, 6, 7, 100, 3_000])
    again = implied.of_rows(some).measured_anew(released[some], excess[some], some, (3, 99)).values
    assert (again == drawn[some]).all()
    assert not np.array_equal(implied.measured_anew(released, excess, np.arange(n), (4, 99)).values, drawn)


@pytest.mark.parametrize("open_ended", [1, 20, 400])
def test_simulated_members_of_open_sizes_vary_as_is_allowed_for_and_add_up(open_ended: int) -> None:
    """The more households of "4+", the more their members vary: pairs of alike children of many parents."""
    sums = counted(Marginal("total", (np.zeros(2, dtype=np.int64),)))
    n, children = 4_000, 8
    parent_of, rows = np.repeat(np.arange(n), children), np.arange(n * children)
    nothing = np.zeros((n * children, 2))
    implied = Implied(sums, nothing, nothing + 1.0, nothing + 1.0)
    released = sp.csr_array(np.tile([2, 1, 0, open_ended], (n * children, 1)))
    above = np.tile([children * 0.5 * open_ended, 0.0], (n, 1))
    drawn = implied.excess_below(released, parent_of, above, rows, (7, 99))
    assert (drawn >= 0).all()
    assert (drawn[:, 1] == 0).all()
    of_parents = drawn[:, 0].reshape(n, children)
    assert of_parents.sum(axis=1) == pytest.approx(above[:, 0])
    mean = 0.5 * open_ended
    allowed = mean * (1 + 0.5) + (BETWEEN * mean) ** 2
    # Given their sum, 1 - 1/8 of it is left, and of gamma variables with few members a little less.
    shape = mean**2 / allowed
    expected = allowed * (1 - 1 / children) / (1 + 1 / (children * shape))
    assert of_parents.std() == pytest.approx(np.sqrt(expected), rel=0.03)
    # Some families alone have the same numbers.
    some = np.flatnonzero(np.isin(parent_of, [3, 4, 900]))
    again = implied.of_rows(some).excess_below(
        released[some], np.repeat(np.arange(3), children), above[[3, 4, 900]], some, (7, 99)
    )
    assert (again == drawn[some]).all()


def test_variances_with_the_persons_are_those_of_dense_least_squares() -> None:
    """As of one more row of measurements; none where nothing is known of the members."""
    rng = np.random.default_rng(4)
    sums = counted(Marginal("total", (np.zeros(2, dtype=np.int64),)))
    root = rng.normal(size=(4, 4))
    covariance = root @ root.T + np.eye(4)
    noise = np.array([0.5, 30.0, np.inf])
    implied = Implied(sums, np.zeros((3, 2)), np.repeat(noise[:, None], 2, axis=1), np.ones((3, 2)))
    answers = np.array([[1.0, 1, 1, 1], [0, 1, 0, 0]])
    with_members = covariance @ EXPECTED
    every = np.arange(3)
    found = implied.variances_given(
        every,
        np.tile(np.diag(answers @ covariance @ answers.T), (3, 1)),
        np.tile((answers @ with_members)[:, None], (3, 1, 1)),
        np.tile(with_members[:, None], (3, 1, 1)),
    )
    for variances, v in zip(found, noise, strict=True):
        expected = np.linalg.inv(np.linalg.inv(covariance) + np.outer(EXPECTED, EXPECTED) / v)
        assert variances == pytest.approx(np.diag(answers @ expected @ answers.T))
    assert (found[0] < found[1]).all()
    assert (found[1] < found[2]).all()
