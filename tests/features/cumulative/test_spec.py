"""Cumulative tables in a spec: what is understood, what is refused, and what is published of it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from releases.small import SPEC
from releases.wide import SPEC as WIDE

from features.cumulative.cumulated import cumulated_in
from pipeline.errors import SpecError
from pipeline.model.universe import Table
from pipeline.spec.release_spec import ReleaseSpec, parse_spec

#: Attributes that have an order, or none.
SCHEMA = """
[schema.attributes]
age = ["0_4", "5_9", "10_14", "15_plus"]
sex = ["f", "m"]
income = ["under_10k", "10k_100k", "100k_1m", "1m_plus"]
decade = ["10s", "90s", "00s"]
one = ["all"]

[schema.recodes.school]
attribute = "age"
groups = { before = ["0_4"], at = ["5_9", "10_14"], after = ["15_plus"] }

[schema.recodes.mixed]
attribute = "age"
groups = { ends = ["0_4", "15_plus"], middle = ["5_9", "10_14"] }

[schema.recodes.backwards]
attribute = "age"
groups = { old = ["10_14", "15_plus"], young = ["0_4", "5_9"] }
"""
BEGIN = """
name = "ages"
privacy = { rho = "1", key = "insecure-test:1" }
geography = { file = "blocks.csv", column = "block", levels = { county = 1, block = 5 } }
strategy = { queries = { detailed = "1" }, levels = { county = "1/2", block = "1/2" } }
"""


def table(stated: str) -> Table:
    """The table `people` of a spec that states it so."""
    (found,) = parse_spec(f"{BEGIN}{SCHEMA}\n[tables.people]\n{stated}\n").universes()[0].tables
    return found


@pytest.mark.parametrize(
    ("stated", "term", "labels"),
    [
        ('query = "age"\ncumulative = true', "age", ["up to 0_4", "up to 5_9", "up to 10_14", "up to 15_plus"]),
        ('query = "school"\ncumulative = true', "school", ["up to before", "up to at", "up to after"]),
        ('query = "sex * one"\ncumulative = true', "sex", ["up to f * all", "up to m * all"]),
        ('query = "school * sex"\ncumulative = "school"', "school", None),
        ('query = "sex * income"\ncumulative = "income"', "income", None),
        ('query = "sex"\ncumulative = "sex"', "sex", ["up to f", "up to m"]),
    ],
)  # fmt: skip
def test_numbers_are_those_up_to_each_value(stated: str, term: str, labels: list[str] | None) -> None:
    """The queries of a table are of the cells up to a value, by brute force over all cells."""
    found = table(stated)
    fact = cumulated_in(found)
    assert fact is not None
    assert fact.term == term
    query = fact.query(found)
    if labels is not None:
        assert list(query.answer_labels()) == labels
    assert query.size == found.query.size
    counts = np.random.default_rng(1).integers(0, 50, (3, len(query.cell_answer)))
    answers = np.stack([np.bincount(found.query.cell_answer, row, query.size) for row in counts]).astype(int)
    labels_of = found.query.labels_of(term)
    order = {label: number for number, label in enumerate(dict.fromkeys(labels_of))}
    rest = [found.query.labels_of(one) for one in found.query.terms if one != term]
    others = [tuple(str(labels[answer]) for labels in rest) for answer in range(query.size)]
    for one, columns in fact.answers_in_file(found):
        cut = np.stack([np.bincount(one.cell_answer, row, one.size) for row in counts]).astype(int)
        assert (columns >= 0).sum() == query.size // len(order)
        for answer, column in enumerate(columns.tolist()):
            if column >= 0:
                up_to = [
                    a for a in range(query.size)
                    if others[a] == others[column] and order[labels_of[a]] <= order[labels_of[column]]
                ]  # fmt: skip
                assert np.array_equal(cut[:, answer], answers[:, up_to].sum(axis=1))
    assert not {one.name for one in fact.tabulated(found)} & {"people"}


@pytest.mark.parametrize("stated", ["cumulative = false", ""])
def test_nothing_is_cumulated_where_it_is_not_asked_for(stated: str) -> None:
    found = table(f'query = "age"\n{stated}')
    assert cumulated_in(found) is None
    assert found.facts == ()


@pytest.mark.parametrize(
    ("query", "term", "told"),
    [
        ("age * sex", "true", "has 2 attributes with several values; say which"),
        ("total", "true", "the query 'total' has 0 attributes with several values"),
        ("age", '"sex"', "'sex' is not in the query 'age'; name one of age"),
        ("age", '""', "'' is not in the query 'age'; name one of age"),
        ("total", '"sex"', "'sex' is not in the query 'total'; name one of none"),
        ("one", '"one"', "'one' has one value; an attribute with several values"),
        ("mixed", "true", "'mixed' are in no order: 'ends' has '15_plus', which stands after '10_14' of 'middle'"),
        ("backwards", "true", "the groups of 'backwards' are in no order"),
        ("decade", "true", "the values of 'decade' are in no order: '00s' stands after '90s'"),
        ("age", "1", "found the number 1; true, or the name of an attribute"),
    ],
)  # fmt: skip
def test_what_has_no_order_is_refused_in_one_sentence(query: str, term: str, told: str) -> None:
    with pytest.raises(SpecError) as refused:
        table(f'query = "{query}"\ncumulative = {term}')
    (line,) = str(refused.value).splitlines()
    assert line.startswith("spec: tables.people.cumulative: ")
    assert told in line


def _labels_in_order(rng: np.random.Generator) -> list[str]:
    """Classes of rising numbers as offices write them: a minus, marks between thousands, a currency, an open end."""
    ends = np.unique(np.concatenate([rng.integers(-20_000, 20_000, 6), rng.integers(-50, 50, 4), [999, 1000]]))
    ends = ends if rng.random() < 0.5 else ends[ends >= 0]
    mark, currency = rng.choice(["", ",", ".", "'", " ", "\u202f"]), rng.choice(["", "$", "EUR "])
    minus, between = rng.choice(["-", "\u2212"]), rng.choice([" to ", "..", "-"])

    def text(number: int) -> str:
        digits = f"{abs(number):,}".replace(",", mark)
        return f"{minus}{digits}" if number < 0 else f"{currency}{digits}"

    classes = [f"{text(low)}{between}{text(high - 1)}" for low, high in pairwise(ends.tolist())]
    return [*classes, f"{text(int(ends[-1]))} and more"]


def test_numbers_in_order_are_taken_however_they_are_written() -> None:
    """And never the other way round, where every way to read them falls."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        labels = _labels_in_order(rng)
        stated = BEGIN + f"[schema.attributes]\nvalue = {json.dumps(labels, ensure_ascii=False)}\n"
        people = "[tables.people]\nquery = 'value'\ncumulative = true\n"
        (found,) = parse_spec(stated + people).universes()[0].tables
        assert cumulated_in(found) is not None, labels
        if any(label[0] in "-\u2212" for label in labels):
            continue  # turned round, and with no minus for a minus, these may rise
        turned = json.dumps(labels[::-1], ensure_ascii=False)
        with pytest.raises(SpecError, match="are in no order"):
            parse_spec(BEGIN + f"[schema.attributes]\nvalue = {turned}\n" + people)


def test_amounts_are_not_cumulated() -> None:
    wages = """
[companions.wages]
amount = "wage"
between = ["0", "100"]
unit = "1"
schema = { attributes = { age = ["child", "adult", "old"] } }
privacy = { rho = "1" }
strategy = { queries = { age = "1" }, levels = { county = "1/4", tract = "1/4", block = "1/2" } }
tables = { age = { query = "age", cumulative = true } }
"""
    pytest.importorskip("features.amounts")
    with pytest.raises(SpecError, match=r"companions\.wages\.tables\.age\.cumulative: only for counts"):
        parse_spec(SPEC + wages)


def test_tables_that_are_estimated_together_are_not_cumulated() -> None:
    pytest.importorskip("features.marginals")
    with pytest.raises(SpecError, match=r"^spec: tables\.age\.cumulative: not with \[marginals\]"):
        parse_spec(f"{WIDE}\n[tables]\nage = {{ query = 'age', cumulative = true }}\n")


def _stated(spec: ReleaseSpec) -> dict[str, Any]:
    return dict(spec.public_dict()["tables"])


def test_the_published_spec_has_it_as_it_was_stated() -> None:
    """What is measured, and with what noise, is the same with and without; old specs have no new key."""
    of_main = 'total = "total"\nsex ='
    stated = SPEC.replace(of_main, 'total = "total"\nage = { query = "age", cumulative = true }\nsex =')
    spec, without = parse_spec(stated), parse_spec(stated.replace(", cumulative = true", ""))
    assert _stated(spec)["age"] == {**_stated(without)["age"], "cumulative": True}
    assert [one.privacy_fingerprint() for one in spec.universes()] == [
        one.privacy_fingerprint() for one in without.universes()
    ]
    again = ReleaseSpec.from_public_dict(spec.public_dict())
    assert again.public_dict() == spec.public_dict()
    assert [cumulated_in(one) for one in again.universes()[0].tables] == [
        cumulated_in(one) for one in spec.universes()[0].tables
    ]
    assert "cumulative" not in str(without.public_dict())
    assert len(spec.universes()[0].tabulated) == len(without.universes()[0].tabulated) + 2
