"""The sensitivity of every question by enumeration: all neighbours of all small sets of records, nothing sampled."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
import scipy.sparse as sp

from pipeline.model.promise import Promise
from pipeline.model.schema import AmountAttribute, Attribute, Schema
from pipeline.privacy.budget import MOVED, Framework, Neighbours
from pipeline.questions.domain import Domain
from pipeline.questions.resolve import resolve
from pipeline.questions.resolved import Part, Resolved
from pipeline.questions.sensitivity import measured, reach
from pipeline.questions.text import parse

#: Two areas with a leaf each; a record is a leaf and a value of each attribute.
LEAVES = np.arange(2)
SCHEMA = Schema((Attribute("sex", ("f", "m")),))


def domain(low: int, high: int) -> Domain:
    amount = AmountAttribute.of("pay", Fraction(low), Fraction(high), Fraction(1))
    return Domain(("block",), SCHEMA, {"pay": amount})


def question(text: str, low: int = 0, high: int = 2) -> Resolved:
    return resolve(parse(text), domain(low, high))


#: Each operator with and without where and by, over amounts on either side of zero, on one, and around it.
QUESTIONS = [
    question("count"),
    question("count by block"),
    question("count by block, sex"),
    question("count by sex where sex = f"),
    question("count where pay >= 1"),
    question("sum pay"),
    question("sum pay where sex = f"),
    question("sum pay by block, sex"),
    question("sum pay by block", -1, 1),
    question("sum pay", -2, 1),
    question("sum pay by sex", 1, 3),
    question("sum pay by sex", -3, -1),
    question("mean pay by block", 0, 3),
    question("mean pay by sex where sex = m", -1, 2),
]

Record = tuple[int, int]


def records_of(asked: Resolved) -> list[Record]:
    """Every record there can be: leaf and cell."""
    return list(product(range(len(LEAVES)), range(asked.schema.n_cells)))


def numbers(asked: Resolved, records: Iterable[Record]) -> dict[str, np.ndarray]:
    counts = np.zeros((len(LEAVES), asked.schema.n_cells), dtype=np.int64)
    for leaf, cell in records:
        counts[leaf, cell] += 1
    places = LEAVES if asked.level else np.zeros(2, dtype=np.int64)
    return asked.answers(sp.csr_array(counts), places, 2 if asked.level else 1)


@cache
def moved(asked: Resolved, neighbours: Neighbours, at_once: int) -> dict[str, tuple[int, int]]:
    """The largest L1 and squared L2 distance between neighbours: up to `at_once` records differ, beside one more."""
    records = records_of(asked)
    parts = {part.name: [0, 0] for part in asked.parts}
    if neighbours == "add-remove":
        before: list[tuple[Record, ...]] = [()]
        after = [some for n in range(at_once + 1) for some in combinations_with_replacement(records, n)]
    else:
        before = after = list(combinations_with_replacement(records, at_once))
    others = [(), (records[0],), (records[-1],)]
    rests = others if at_once == 1 else [()]
    answers = {(*rest, *some): numbers(asked, (*rest, *some)) for rest in rests for some in {*before, *after}}
    for one, two, rest in product(before, after, rests):
        first, second = answers[(*rest, *one)], answers[(*rest, *two)]
        for name, worst in parts.items():
            difference = first[name] - second[name]
            worst[0] = max(worst[0], int(np.abs(difference).sum()))
            worst[1] = max(worst[1], int((difference**2).sum()))
    return {name: (worst[0], worst[1]) for name, worst in parts.items()}


def violations(
    asked: Resolved, neighbours: Neighbours, at_once: int, far: Callable[[Part, Neighbours], int] = reach
) -> list[str]:
    """Parts that a neighbour moves further than `far` says."""
    found = []
    for part in asked.parts:
        l1, squared = moved(asked, neighbours, at_once)[part.name]
        times = far(part, neighbours) * at_once
        if l1 > MOVED[neighbours] * times or squared > MOVED[neighbours] * times**2:
            found.append(part.name)
    return found


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: f"{asked.text}")
def test_no_neighbour_moves_a_number_further(asked: Resolved, neighbours: Neighbours) -> None:
    assert violations(asked, neighbours, 1) == []


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("asked", [QUESTIONS[2], QUESTIONS[3], QUESTIONS[8]], ids=lambda asked: f"{asked.text}")
def test_nor_does_a_person_with_two_records(asked: Resolved, neighbours: Neighbours) -> None:
    assert violations(asked, neighbours, 2) == []


def test_it_is_the_least_that_holds() -> None:
    """Where a record can go to another place and group, some neighbour moves the numbers just so far."""
    for asked, neighbours in product((QUESTIONS[2], QUESTIONS[7]), ("change-one", "add-remove")):
        ((_, squared),) = moved(asked, neighbours, 1).values()
        (part,) = asked.parts
        assert squared == MOVED[neighbours] * reach(part, neighbours) ** 2  # type: ignore[arg-type]


WRONG: dict[str, Callable[[Part, Neighbours], int]] = {
    "the clip of one side only": lambda part, _: max(part.high, 1),
    "as if signed amounts could not change sign": lambda part, _: max(abs(part.low), abs(part.high)),
    "a sum as a count": lambda _, __: 1,
    "half of the range": lambda part, _: max(1, (part.high - part.low) // 2),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_sensitivity_is_found(fault: str) -> None:
    found = [v for asked in QUESTIONS for near in MOVED for v in violations(asked, near, 1, WRONG[fault])]  # type: ignore[arg-type]
    assert found, f"{fault}: not noticed"


def test_a_partition_charged_as_one_number_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "MOVED", {"change-one": 1, "add-remove": 1})
    assert violations(QUESTIONS[2], "change-one", 1) == ["count"]


@pytest.mark.parametrize("framework", ["zcdp", "pure"])
@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("at_once", [1, 3])
def test_the_noise_costs_just_the_budget(framework: Framework, neighbours: Neighbours, at_once: int) -> None:
    """By the definitions: rho = L2 squared / (2 sigma^2), epsilon = L1 / b, added up over the parts."""
    budget = Fraction(7, 30)
    for asked in QUESTIONS:
        parts = measured(asked.parts, Promise(framework, neighbours, budget, at_once))
        cost = Fraction(0)
        for one in parts:
            moves, far = MOVED[neighbours], reach(one.part, neighbours) * at_once
            cost += (
                Fraction(moves * far**2) / (2 * one.mechanism.scale)
                if framework == "zcdp"
                else moves * far / one.mechanism.scale
            )
        assert cost == budget
