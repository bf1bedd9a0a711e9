"""How far a unit moves the numbers of a question: all units with up to three records are gone through.

What is compared is what the measuring process counts (`counted_in`), for each kind of question, with others beside.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
from fractions import Fraction

import numpy as np
import pytest

import features.questions.confidential
from features.questions.confidential import units_counted
from pipeline.model.schema import AmountAttribute, Attribute, Schema
from pipeline.privacy.budget import Framework, Neighbours
from pipeline.questions.domain import Domain
from pipeline.questions.resolve import resolve
from pipeline.questions.resolved import Resolved, records_of_unit
from pipeline.questions.sensitivity import measured
from pipeline.questions.text import QuestionError, parse
from pipeline.records.units import UnitRecords

LEAVES = np.arange(2)
SCHEMA = Schema((Attribute("sex", ("f", "m")),))
AT_MOST = 2


def keyed(data: bytes) -> bytes:
    return hmac.digest(b"key", data, hashlib.sha256)


def asked(text: str, ends: tuple[int, int] = (0, 3), *, total: bool = True) -> Resolved:
    amount = AmountAttribute.of("pay", Fraction(ends[0]), Fraction(ends[1]), Fraction(1), total=total)
    return resolve(parse(text), Domain(("block",), SCHEMA, {"pay": amount}, units=records_of_unit(AT_MOST)))


QUESTIONS = [
    asked("count units"),
    asked("count units by block"),
    asked("count units by block, sex"),
    asked("count units by sex where sex = f"),
    asked("count units by records_per_unit"),
    asked("count units by block, records_per_unit where sex = f"),
    asked("count units by sex where records_per_unit >= 2"),
    asked("sum pay"),
    asked("sum pay by block, sex"),
    asked("sum pay by sex where pay >= 2"),
    asked("sum pay by block", (-2, 3)),
    asked("mean pay by block"),
    asked("count by block, sex"),
    asked("sum pay by sex", total=False),
]

#: Records of somebody else, who stays.
OTHERS = [(1, 0), (1, 1), (1, 1)]


def numbers(question: Resolved, own: tuple[int, ...], at_most: int = AT_MOST) -> dict[str, np.ndarray]:
    """The numbers where unit 0 has records with these keys, and unit 1 some others."""
    rows = [*((0, key) for key in own), *((unit, key % (2 * question.read.n_cells)) for unit, key in OTHERS)]
    units, keys = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    places = LEAVES if question.level else np.zeros(2, dtype=np.int64)
    kept = units_counted(question, UnitRecords(units, ["p", "q"], keys), places, at_most, keyed)
    counts = kept.counts(len(places), question.schema.n_cells)
    return question.answers(counts, places, 2 if question.level else 1)


def costs(question: Resolved, framework: Framework, neighbours: Neighbours, at_most: int = AT_MOST) -> Fraction:
    """What the dearest pair of neighbours costs, by the definitions, where all parts have a budget of 1 together."""
    places = 2 if question.level else 1
    parts = measured(question.parts, framework, neighbours, Fraction(1), AT_MOST, question.numbers_of_unit(places))
    keys = range(2 * question.read.n_cells)
    answers = {
        tuple(np.concatenate([numbers(question, own, at_most)[one.part.name].ravel() for one in parts]).tolist())
        for size in range(4)
        for own in itertools.combinations_with_replacement(keys, size)
    }
    scales = np.concatenate([np.full(places * question.size, float(one.scale)) for one in parts])
    table = np.array(sorted(answers), dtype=np.int64)
    none = np.concatenate([numbers(question, (), at_most)[one.part.name].ravel() for one in parts])[None, :]
    apart = np.abs(table[:, None, :] - (table if neighbours == "change-one" else none)[None, :, :])
    worst = (apart**2 / (2 * scales) if framework == "zcdp" else apart / scales).sum(axis=2).max()
    return Fraction(float(worst)).limit_denominator(10**9)


@pytest.mark.parametrize("framework", ["zcdp", "pure"])
@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one.text)
def test_no_unit_costs_more_than_the_budget(question: Resolved, neighbours: Neighbours, framework: Framework) -> None:
    assert costs(question, framework, neighbours) <= 1


@pytest.mark.parametrize("number", [2, 4, 8, 12])
def test_it_is_the_least_that_holds(number: int) -> None:
    """Where there are twice as many numbers as a unit can be in."""
    assert costs(QUESTIONS[number], "zcdp", "change-one") == 1


@pytest.mark.parametrize("number", [2, 12, 13])
def test_a_cap_that_is_forgotten_is_found(number: int) -> None:
    near: Neighbours = "change-one" if number == 12 else "add-remove"
    assert costs(QUESTIONS[number], "zcdp", near, at_most=9) > 1


@pytest.mark.parametrize("number", [7, 8, 10, 11])
def test_ends_that_are_forgotten_are_found(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features.questions.confidential, "taken_to_ends", lambda _units, amounts, _amount: (amounts, 0))
    assert costs(QUESTIONS[number], "zcdp", "add-remove") > 1


def test_what_is_counted_of_units_as_by_hand() -> None:
    """Unit 1 has three records: leaf 0 f, and leaf 0 m twice."""
    by_block = numbers(QUESTIONS[1], (2, 2, 3))["count"]
    assert by_block.tolist() == [[1], [1]]
    assert numbers(QUESTIONS[0], ())["count"].tolist() == [[1]]
    records = numbers(QUESTIONS[4], (0,))["count"][0]
    assert (records[0], records[2], records.sum()) == (1, 1, 2)
    (twice,) = numbers(QUESTIONS[6], (0, 2))["count"].tolist()
    assert twice == [2, 1], "both units have a woman's record, and unit 1 a man's"


def test_all_records_of_a_unit_are_in_its_total_but_not_in_a_mean() -> None:
    """Three records of 1 within an end of 3: a sum has all of them, a mean has two."""
    own = (1, 1, 1)  # leaf 0, f, 1
    before = {
        name: numbers(question, ())["sum"].sum() for name, question in (("s", QUESTIONS[7]), ("m", QUESTIONS[11]))
    }
    assert numbers(QUESTIONS[7], own)["sum"].sum() - before["s"] == 3
    assert numbers(QUESTIONS[11], own)["sum"].sum() - before["m"] == 2
    # A condition is about what an amount is before: two records of 3 within an end of 3 both count as at least 2.
    assert numbers(QUESTIONS[9], (3, 3))["sum"].sum() - numbers(QUESTIONS[9], ())["sum"].sum() == 2


@pytest.mark.parametrize(
    ("text", "said"), [("count units by pay", "it is an amount"), ("count by records_per_unit", "records_per_unit")]
)
def test_what_cannot_be_asked_is_refused(text: str, said: str) -> None:
    with pytest.raises(QuestionError, match=said):
        asked(text)
