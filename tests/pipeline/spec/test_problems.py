"""Each way in which a spec can be wrong has its message, lists of any length and ranges of values among them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import SpecError
from pipeline.model.number_ranges import expand_numbers
from pipeline.model.schema import Attribute
from pipeline.records.columns import AttributeReader
from pipeline.spec.release_spec import ReleaseSpec, parse_spec
from pipeline.spec.slots import NO_SLOTS
from pipeline.spec.value_ranges import collapse_numbers, expand_values

_FILE = tomllib.loads(Path(__file__).with_name("malformed_specs.toml").read_text("utf-8"))
BASE: str = _FILE["base"]
SECTIONS: dict[str, str] = _FILE["sections"]
CASES: list[dict[str, str]] = _FILE["case"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["says"].split(":")[0])
def test_each_mistake_has_its_message(case: dict[str, str]) -> None:
    text = BASE + (SECTIONS[case["of"]] if "of" in case else "")
    assert text.count(case["replace"])
    with pytest.raises(SpecError) as error:
        parse_spec(text.replace(case["replace"], case["by"], 1), "r.toml", slots=NO_SLOTS)
    assert str(error.value).splitlines() == [f"r.toml: {line}" for line in case["says"].splitlines()]


def test_a_key_that_may_be_real_is_never_shown() -> None:
    for secret in ('"0f1e2d3c4b5a"', "123456789", '["0f1e2d3c4b5a"]'):
        with pytest.raises(SpecError) as error:
            parse_spec(BASE.replace('rho = "1"', f'rho = "1"\nkey = {secret}'))
        assert "privacy.key: " in str(error.value)
        assert secret.strip('[]"') not in str(error.value)


def test_too_many_cells_are_refused_before_memory_is_taken() -> None:
    values = ", ".join(f'"{i}"' for i in range(3000))
    with pytest.raises(SpecError) as error:
        parse_spec(BASE.replace('"a", "b"', f"{values}]\nzip = [{values}"))
    assert str(error.value) == ("spec: schema.attributes: they span 18,000,000 cells; at most 16,777,216 are allowed")


@pytest.mark.parametrize("value", ['"a\\u0000"', '["a\\u0000"]', '{ "a\\u0000" = 1 }'])
@pytest.mark.parametrize("key", sorted(ReleaseSpec.model_fields))
def test_no_text_has_a_nul(key: str, value: str) -> None:
    """Wherever it stands, also in the name of a key; a key of the privacy section is never shown."""
    with pytest.raises(SpecError, match="NUL character"):
        parse_spec(f"{key} = {value}\n", "a.toml", Path())
    with pytest.raises(SpecError) as error:
        parse_spec('name = "a"\n[privacy]\nkey = "insecure-test:7\\u0000"\n', "a.toml", Path())
    assert "insecure-test" not in str(error.value)


AGES = tuple(map(str, range(91)))


def test_a_range_is_all_values_between() -> None:
    assert expand_values(["0..4"], AGES, "x") == ("0", "1", "2", "3", "4")
    assert expand_values(["7", "9 .. 10", "90..90"], AGES, "x") == ("7", "9", "10", "90")
    assert expand_values(["a..b"], ("a", "a..b", "b"), "x") == ("a..b",), "a value is itself"
    assert expand_values(["low..high"], ("low", "mid", "high"), "x") == ("low", "mid", "high"), "in the schema's order"


@given(st.dictionaries(st.integers(0, 60).map(str) | st.sampled_from(["90+", "", "007"]), st.sampled_from("abc")))
def test_collapsed_numbers_come_back(mapped: dict[str, str]) -> None:
    again = expand_numbers(collapse_numbers(mapped))
    assert {text: value for text, value in again.items() if ".." not in text} == mapped


def spec(recode: str, values: str = "") -> ReleaseSpec:
    ages = BASE.replace('["0-17", "18+"]', json.dumps(AGES))
    groups = f'[schema.recodes.groups]\nattribute = "age"\ngroups = {{ {recode} }}\n'
    return parse_spec(ages + groups + SECTIONS["input"] + values, "a.toml", Path())


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
