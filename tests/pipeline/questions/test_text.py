"""The text of a question and its names: which records count, in which group, and what is refused by its place."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.model.schema import AmountAttribute, Attribute, Recode, Schema
from pipeline.questions.domain import Domain
from pipeline.questions.resolve import band_of, resolve
from pipeline.questions.resolved import Resolved
from pipeline.questions.text import LONGEST, Asked, QuestionError, parse
from pipeline.records.columns import AmountNumbers


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("count", "count"),
        ("  count by tract ,sex  where age>=65 ", "count by tract, sex where age >= 65"),
        (
            "count where race in 'two or more', asian and sex!=f",
            'count where race in "two or more", asian and sex != f',
        ),
        ("""count where "by" = 'a "b"'""", """count where "by" = 'a "b"'"""),
        ("quantile 0.25 wages", "quantile 1/4 wages"),
        ("max wages by max where min=clip", "max wages by max where min = clip"),
        ("min clip", "min clip"),
        ("clip wages among 2e4,40000 above .01 where sex=f", "clip wages among 20000, 40000 above 1/100 where sex = f"),
        ("clip above among -1/2, 5 above 30", "clip above among -1/2, 5 above 30"),
        ("quantile 5e-1 wages", "median wages"),
        ("most common race by county", "most common 1 race by county"),
        ('most common 3 "3" where sex=f', "most common 3 3 where sex = f"),
        ("count by tract having count>=050", "count by tract having count >= 50"),
        ("count  units by tract having count>=5", "count units by tract having count >= 5"),
        ('count by "median", "having"', 'count by "median", "having"'),
    ],
)
def test_a_question_has_one_canonical_text(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical
    assert str(parse(canonical)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "character 1: found the end; a question begins with count, count units, sum, mean, "),
        ("quantile 1/2000 wages", "a denominator of at most 1000"),
        ("clip wages by county", "character 12: found 'by'; among is needed here"),
        ("clip wages among 1, 1e41 above 9", "found '1e41'; an end to choose among is a decimal number from -1000"),
        ("clip wages among 1, 2 above 1/2000", "a share of the records below 1"),
        ("count having count >= 0", "a whole number above 0 is needed"),
        ("sum wages having count >= 5", "character 11: found 'having'"),
        ("count where age = 'x", 'character 19: found "\'"; allowed are names'),
        ("count" + " " * LONGEST, f"at most {LONGEST} are allowed"),
    ],
)
def test_what_is_no_question_is_refused_by_its_place(text: str, message: str) -> None:
    with pytest.raises(QuestionError) as error:
        parse(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="count by where and in sum=<>!,'\"ageF0 9", max_size=40) | st.text(max_size=30))
def test_any_text_is_a_question_or_refused(text: str) -> None:
    try:
        asked = parse(text)
    except QuestionError:
        return
    assert isinstance(asked, Asked)
    assert str(parse(str(asked))) == str(asked)


def test_the_canonical_text_is_read_again_and_no_longer_than_the_ledger_finds() -> None:
    """Signs without blanks, and numbers with exponents, are longer when they are written out."""
    ends = ",".join(f"{n}e13" for n in range(60))
    for text in ("count where " + " and ".join(["a>=1"] * 50), f"clip w among {ends}"):
        with pytest.raises(QuestionError, match=rf"characters with its blanks; at most {LONGEST}"):
            parse(text)
    least, most = "-1000000000000000", "999999999999999.999999"
    asked = parse(f"clip w among {least}, -0.000001, {most} above 1000000000000")
    assert parse(str(asked)) == replace(asked, amount=parse(str(asked)).amount)


AGES = ("0-17", "18 to 64", "65+")
SCHEMA = Schema(
    (Attribute("age", AGES), Attribute("race", ("white", "black", "two or more"))),
    (Recode("grown", "age", (("child", ("0-17",)), ("adult", ("18 to 64", "65+")))),),
)
PAY = AmountAttribute.of("pay", Fraction(-100), Fraction(500), Fraction(50), Fraction(0))
DOMAIN = Domain(("county", "tract"), SCHEMA, {"pay": PAY, "shift": Attribute("shift", ("day", "night"))})


def asked(text: str) -> Resolved:
    return resolve(parse(text), DOMAIN)


def kept(text: str, name: str) -> list[str]:
    axis = next(axis for axis in asked(text).axes if axis.attribute.name == name)
    return [value for value, keep in zip(axis.attribute.values, axis.keep, strict=True) if keep]


@pytest.mark.parametrize(
    ("condition", "ages"),
    [
        ("age >= 65", ["65+"]),
        ("age > 64", ["65+"]),
        ("age < 18", ["0-17"]),
        ("age <= 64", ["0-17", "18 to 64"]),
        ("age >= 18 and age < 65", ["18 to 64"]),
        ('age = "65+"', ["65+"]),
        ("age != 65+", ["0-17", "18 to 64"]),
        ('age in 0-17, "18 to 64"', ["0-17", "18 to 64"]),
        ("grown = adult", ["18 to 64", "65+"]),
    ],
)
def test_conditions_choose_values(condition: str, ages: list[str]) -> None:
    assert kept(f"count where {condition}", "age") == ages


def test_conditions_on_amounts_are_about_what_they_count_as() -> None:
    assert kept("count where pay >= 400", "pay") == ["400", "450", "500"]
    assert kept("count where pay = -100", "pay") == ["-100"]


def test_conditions_beyond_the_ends_of_an_amount_are_about_the_amounts_themselves() -> None:
    """Clipped amounts are told apart from those that are just at the end, and from those that round to it."""
    for text, values in (("pay > 500", ["above"]), ("pay < -100", ["below"])):
        assert kept(f"count where {text}", "pay_clipped") == values
    both = asked("sum pay by grown where pay > 500 and pay >= 400")
    assert both.schema.names == ("age", "pay", "pay_clipped")
    sides = AmountNumbers(DOMAIN.clip(PAY))
    read = {text: sides[text] for text in ("500", "500.0000000000000000001", "-100", "-100.1", "", "499.99")}
    assert list(read.values()) == [1, 2, 1, 0, 1, 1]
    assert (
        asked("count where pay > 500").layout()
        != resolve(
            parse("count where pay > 500"),
            Domain(("county",), SCHEMA, {"pay": AmountAttribute.of("pay", Fraction(0), Fraction(500), Fraction(50))}),
        ).layout()
    )
    with pytest.raises(QuestionError, match="no value of 'pay_clipped' is left"):
        asked("count where pay > 500 and pay < -100")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "count by trakt",
            "found 'trakt'; it is no level, attribute or recode; allowed are county, tract, age, race, grown",
        ),
        ("count by county, tract", "one level is allowed, and 'county' is named before"),
        ("count where age >= 70", "found '70'; it is inside '65+'"),
        ("count where pay <= 500", "amounts beyond 500 count as 500"),
        ("count where pay >= -100", "amounts beyond -100 count as -100"),
        ("count where age < 18 and grown = adult", "no value of 'age' is left by the conditions"),
        ("mean wages", "found 'wages'; it is no amount"),
    ],
)
def test_what_is_not_in_the_domain_is_refused_by_its_place(text: str, message: str) -> None:
    with pytest.raises(QuestionError, match=r"question, character [0-9]+: found") as error:
        asked(text)
    assert message in str(error.value)


def test_answers_are_those_of_counting_one_by_one() -> None:
    """An independent computation, record by record."""
    resolved = asked("mean pay by tract, race, grown where age >= 18 and race != black")
    rng = np.random.default_rng(3)
    cells = rng.integers(0, resolved.schema.n_cells, 200)
    leaves = rng.integers(0, 4, 200)
    counts = np.zeros((4, resolved.schema.n_cells), dtype=np.int64)
    np.add.at(counts, (leaves, cells), 1)
    found = resolved.answers(sp.csr_array(counts), np.array([0, 0, 1, 1]), 2)
    assert resolved.labels() == [("white", "adult"), ("two or more", "adult")]
    expected = {name: np.zeros((2, 2), dtype=np.int64) for name in ("sum", "count")}
    names = resolved.schema.names
    for leaf, cell in zip(leaves, cells, strict=True):
        codes = dict(zip(names, np.unravel_index(cell, resolved.schema.shape), strict=True))
        age, race = AGES[codes["age"]], SCHEMA.attribute("race").values[codes["race"]]
        if age == "0-17" or race == "black":
            continue
        at = (int(leaf) // 2, 0 if race == "white" else 1)
        units = int(Fraction(PAY.values[codes["pay"]]) / 50)
        expected["sum"][at] += units - 4  # the middle of -2 .. 10 units
        expected["count"][at] += 1
    assert all((found[name] == expected[name]).all() for name in expected)


def test_bands_are_read_from_their_names() -> None:
    for text, low, high in [
        ("5", 5, 5),
        ("0-4", 0, 4),
        ("18plus", 18, None),
        ("under 18", None, 17),
        ("65 and over", 65, None),
    ]:
        band = band_of(text)
        assert band is not None
        assert (band.low, band.high) == (low, high)
    assert band_of("old") is None
