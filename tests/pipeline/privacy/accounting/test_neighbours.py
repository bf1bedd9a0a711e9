"""Which changes keep the invariants, and what a swap moves: compared with all changes of small inputs, one by one."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from pipeline.model.exact import epsilon_text
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.neighbours import attribute_changes, place_changes, record_change
from pipeline.privacy.accounting.statement_models import Statement
from pipeline.privacy.accounting.statements import privacy_statements
from pipeline.spec.release_spec import parse_spec

LEVELS = ("state", "county", "block")
#: Geounits of every level above each block: two states, four counties, eight blocks.
PLACES = [(i // 4, i // 2, i) for i in range(8)]
SPEC = """
name = "x"
privacy = { rho = "1" }
geography = { file = "f.csv", column = "b", levels = { state = 1, county = 2, block = 3 } }
schema.attributes = { sex = ["f", "m"], age = ["0", "1", "2"], home = ["yes", "no"] }
schema.recodes.young = { attribute = "age", groups = { young = ["0"], old = ["1", "2"] } }
schema.recodes.middle = { attribute = "age", groups = { middle = ["1"], other = ["0", "2"] } }
[strategy]
queries = { total = "1/4", sex = "1/4", detailed = "1/2" }
levels = { state = "1/2", county = "1/4", block = "1/4" }
"""
QUERIES = ["total", "sex", "age", "young", "middle", "sex * age", "sex * young", "age * home", "sex * home", "detailed"]

Record = tuple[int, ...]  # block, sex, age, home


def universe(invariants: dict[str, list[str]], zeros: str = "", neighbours: str = "change-one") -> Universe:
    lines = "\n".join(f"{level} = {queries}".replace("'", '"') for level, queries in invariants.items())
    text = SPEC.replace('name = "x"', f'name = "x"\n{zeros}') + f"[invariants]\n{lines}\n"
    found = parse_spec(text).universes()[0]
    return replace(found, neighbours=neighbours)  # type: ignore[arg-type]


def answers(found: Universe, record: Record) -> list[tuple[int, ...]]:
    """What a record adds one to, in each invariant."""
    return [
        (
            number,
            PLACES[record[0]][LEVELS.index(level)],
            *(int(g[v]) for g, v in zip(q.groups, record[1:], strict=True)),
        )
        for number, (level, q) in enumerate(found.invariants)
    ]


def records(found: Universe) -> list[Record]:
    possible = (~found.structural_zeros).reshape(2, 3, 2)
    cells = itertools.product(range(2), range(3), range(2))
    return [(block, *cell) for cell in cells if possible[cell] for block in range(8)]


def keeps(found: Universe, before: Sequence[Record], after: Sequence[Record]) -> bool:
    return Counter(a for r in before for a in answers(found, r)) == Counter(a for r in after for a in answers(found, r))


def singles(found: Universe) -> Iterator[tuple[Record, Record]]:
    for one, other in itertools.combinations(records(found), 2):
        if keeps(found, [one], [other]):
            yield one, other


def swapped(one: Record, other: Record, coordinates: Sequence[int]) -> tuple[Record, Record]:
    return (
        tuple(other[i] if i in coordinates else one[i] for i in range(4)),
        tuple(one[i] if i in coordinates else other[i] for i in range(4)),
    )


def swaps(found: Universe, coordinates: Sequence[int]) -> Iterator[tuple[Record, Record]]:
    """Pairs that swap these coordinates, become others by it, and keep the invariants."""
    everybody = records(found)
    there = set(everybody)
    for one, other in itertools.combinations(everybody, 2):
        after = swapped(one, other, coordinates)
        if set(after) <= there and set(after) != {one, other} and keeps(found, (one, other), after):
            yield one, other


def some_invariants(seed: int) -> dict[str, list[str]]:
    rng = random.Random(seed)
    return {level: rng.sample(QUERIES, rng.randint(1, 3)) for level in rng.sample(LEVELS, rng.randint(1, 3))}


#: Of invariants; the rest of them in the slow suite.
SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 12))]
SUBSETS = [subset for n in (1, 2) for subset in itertools.combinations(range(4), n)]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_unit_of_protection_is_that_of_all_changes_one_by_one(seed: int) -> None:
    found = universe(some_invariants(seed))
    change = record_change(found)
    alone, swapping = any(singles(found)), any(any(swaps(found, subset)) for subset in SUBSETS)
    expected = 1 if alone else 2 if swapping else 0
    assert (0 if change is None else change.records) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_attributes_and_places_have_the_changes_that_there_are(seed: int) -> None:
    found = universe(some_invariants(seed))
    alone = list(singles(found))
    for number, name in enumerate(found.schema.names, start=1):
        units = set()
        if any(all(a == b for i, (a, b) in enumerate(zip(x, y, strict=True)) if i != number) for x, y in alone):
            units.add(1)
        apart = (  # of values that no single record can change between
            (one, other)
            for one, other in swaps(found, [number])
            if not keeps(found, [one], [swapped(one, other, [number])[0]])
        )
        if any(apart):
            units.add(2)
        assert {change.records for change in attribute_changes(found, name)} == units, name
    for number, level in enumerate(LEVELS[:-1]):
        moves = [(x, y) for x, y in alone if x[1:] == y[1:] and PLACES[x[0]][number] == PLACES[y[0]][number]]
        below = [(x, y) for x, y in moves if PLACES[x[0]][number + 1] != PLACES[y[0]][number + 1]]
        pairs = (
            (x, y)
            for x, y in swaps(found, [0])
            if PLACES[x[0]][number] == PLACES[y[0]][number] and PLACES[x[0]][number + 1] != PLACES[y[0]][number + 1]
        )
        # A move within a county is about "county", the level next above the places moved between.
        expected = {1} if below else {2} if any(pairs) else set()
        assert {change.records for change in place_changes(found, level)} == expected, level


@pytest.mark.parametrize("seed", SEEDS[:8])
def test_with_impossible_cells_no_change_is_claimed_that_there_is_not(seed: int) -> None:
    zeros = 'structural_zeros = [ { sex = "m", age = ["0", "1"] }, { age = "2", home = "no" } ]'
    found = universe(some_invariants(seed), zeros)
    change = record_change(found)
    alone = any(singles(found))
    assert alone == (change is not None and change.records == 1)
    if change is not None and change.records == 2:
        assert any(any(swaps(found, subset)) for subset in SUBSETS)
    for number, name in enumerate(found.schema.names, start=1):
        for one in attribute_changes(found, name):
            if one.records == 2:
                assert any(swaps(found, [number])), name


def _moved(before: Sequence[Record], after: Sequence[Record], kept: Sequence[int], level: int) -> list[int]:
    def answer(r: Record) -> tuple[int, ...]:
        return (PLACES[r[0]][level], *(v for v, k in zip(r[1:], kept, strict=True) if k))

    counts = Counter(answer(r) for r in after)
    counts.subtract(answer(r) for r in before)
    return list(counts.values())


# What is stated


def by_unit(statements: Sequence[Statement]) -> dict[tuple[str, int], Fraction]:
    return {(s.of, s.records): Fraction(s.budget) for s in statements}


def test_an_attribute_that_is_invariant_is_promised_to_two_that_swap_at_twice_the_cost() -> None:
    """sex of each state is published: nothing is promised about one record's sex, whatever the noise."""
    free, fixed = privacy_statements(universe({})), privacy_statements(universe({"state": ["sex"]}))
    assert by_unit(free.attributes)["sex", 1] == Fraction(3, 4)
    assert ("sex", 1) not in by_unit(fixed.attributes)
    assert by_unit(fixed.attributes)["sex", 2] == 2 * Fraction(3, 4)
    assert by_unit(fixed.attributes)["age", 1] == by_unit(free.attributes)["age", 1]
    (words,) = [s.words for s in fixed.attributes if s.of == "sex"]
    assert words.startswith("what can be learnt about which of two records of the same state has which sex")
    assert "the effect of changing one record within the same state and the same sex: " in fixed.record.words


def test_places_that_an_invariant_fixes_are_promised_to_two_that_swap() -> None:
    found = privacy_statements(universe({"county": ["total"]}))
    free = by_unit(privacy_statements(universe({})).places)
    assert by_unit(found.places) == {("state", 2): 2 * free["state", 1], ("county", 1): free["county", 1]}


def test_where_no_record_can_change_alone_two_that_swap_are_the_unit() -> None:
    """Totals of blocks and every cell of the state are public: a record alone can neither move nor change."""
    found = universe({"state": ["detailed"], "block": ["total"]})
    account = privacy_statements(found)
    assert (account.record.records, Fraction(account.record.budget)) == (2, 2 * found.budget)
    assert float(account.record.epsilon) > float(privacy_statements(universe({})).record.epsilon)
    assert "two records swapping places or values" in account.record.words
    pure = replace(found, framework="pure", delta=Fraction(0))
    assert privacy_statements(pure).record.epsilon == epsilon_text(2 * pure.budget)


def test_where_everything_is_published_nothing_is_promised() -> None:
    account = privacy_statements(universe({"block": ["detailed"]}))
    assert (account.record.records, account.record.epsilon) == (0, "infinity")
    assert account.record.words.startswith("nothing is promised")
    assert account.attributes == account.places == ()


def test_the_bound_of_a_swap_holds_and_one_of_a_single_record_would_not() -> None:
    """Renyi divergence of two Gaussian releases, from the numbers moved: rho alpha is reached by a swap at 2 rho."""
    found = universe({"state": ["detailed"], "block": ["total"]})
    budget = Fraction(privacy_statements(found).record.budget)
    worst = Fraction(0)
    everybody = records(found)
    for one, other in itertools.islice(swaps(found, [0]), 0, None, 7):
        after = swapped(one, other, [0])
        cost = Fraction(0)
        for level, measured in ((lv, m) for lv in found.strategy.levels for m in lv.queries):
            kept = [int(np.asarray(g).any()) for g in measured.query.groups]
            moved = _moved((one, other), after, kept, LEVELS.index(level.level))
            sigma2 = 1 / (found.budget * level.share * measured.share)
            cost += sum(n * n for n in moved) / (2 * sigma2)
        worst = max(worst, cost)
    assert found.budget * Fraction(1, 2) < worst <= budget
    assert len(everybody) == 96
