"""Ranges stand for what they say, and change nothing where a value is written like one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import SpecError
from pipeline.model.number_ranges import expand_numbers
from pipeline.model.schema import Attribute
from pipeline.records.columns import AttributeReader
from pipeline.spec.release_spec import ReleaseSpec, parse_spec
from pipeline.spec.value_ranges import collapse_numbers, expand_values

AGES = tuple(map(str, range(91)))


def test_a_range_is_all_values_between() -> None:
    assert expand_values(["0..4"], AGES, "x") == ("0", "1", "2", "3", "4")
    assert expand_values(["7", "9 .. 10", "90..90"], AGES, "x") == ("7", "9", "10", "90")
    assert expand_values(["a..b"], ("a", "a..b", "b"), "x") == ("a..b",), "a value is itself"
    assert expand_values(["low..high"], ("low", "mid", "high"), "x") == ("low", "mid", "high"), "in the schema's order"


@pytest.mark.parametrize(
    ("text", "says"),
    [("0..95", "'95' is not a value"), ("..4", "'' is not a value"), ("9..3", "'3' comes before '9'")],
)
def test_ranges_that_are_none(text: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        expand_values([text], AGES, "x")


@given(st.dictionaries(st.integers(0, 60).map(str) | st.sampled_from(["90+", "", "007"]), st.sampled_from("abc")))
def test_collapsed_numbers_come_back(mapped: dict[str, str]) -> None:
    again = expand_numbers(collapse_numbers(mapped))
    assert {text: value for text, value in again.items() if ".." not in text} == mapped


def spec(recode: str, values: str = "") -> ReleaseSpec:
    ages = ", ".join(f'"{age}"' for age in AGES)
    text = f"""
name = "a"
[privacy]
rho = "1"
[geography]
file = "areas.csv"
levels = ["town"]
[schema.attributes]
age = [{ages}]
[schema.recodes.groups]
attribute = "age"
groups = {{ {recode} }}
[strategy.levels]
town = "1"
[strategy.queries]
groups = "1"
[input]
file = "a.csv"
form = "microdata"
geocode = "town"
{values}
"""
    return parse_spec(text, "a.toml", Path())


def test_recodes_by_ranges() -> None:
    """Every age is in its group, and a hole is told."""
    (recode,) = spec('"0-4" = "0..4", "5-89" = ["5..88", "89"], "90+" = "90"').universes()[0].schema.recodes
    assert [(label, len(values)) for label, values in recode.groups] == [("0-4", 5), ("5-89", 85), ("90+", 1)]
    with pytest.raises(SpecError, match="the values '5' of attribute 'age' are in no group"):
        spec('"0-4" = "0..4", "6+" = "6..90"')
    with pytest.raises(SpecError, match=r"schema.recodes.groups.groups.old: the range '85..95': '95' is not a value"):
        spec('young = "0..84", old = "85..95"')


def test_a_number_of_two_ranges_has_no_value_and_texts_are_texts() -> None:
    with pytest.raises(SpecError) as told:
        spec('all = "0..90"', '[input.values.age]\n"91..99" = "90"\n"95..120" = "89"')
    assert str(told.value) == (
        "a.toml: input.values.age.\"95..120\": found '95..120' for '89', and '91..99' for '90': 95 would have two "
        "values; each number is in ranges of one value"
    )
    given = spec(
        'all = "0..90"', '[input.values.age]\n"91..99" = "90"\n"95..120" = "90"\n"a..b" = "0"\n".." = "1"'
    ).input
    assert given is not None
    reader = AttributeReader.make(Attribute("age", AGES), "age", values=given.values["age"])
    assert [AGES[reader.numbers[text]] for text in ("120", "a..b", "..")] == ["90", "0", "1"]
