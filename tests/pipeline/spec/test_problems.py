"""Each way in which a spec can be wrong has its message; which of its keys are texts that may be corrected."""

from __future__ import annotations

import json
import tomllib
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from releases.small import SPEC

from auditor.check.update import _without_texts
from pipeline.errors import SpecError
from pipeline.model.number_ranges import expand_numbers
from pipeline.model.schema import Attribute
from pipeline.records.columns import AttributeReader
from pipeline.release.run_directory import WITH_TEXTS
from pipeline.spec.problems import _plain
from pipeline.spec.release_spec import ReleaseSpec, load_spec, parse_spec
from pipeline.spec.slots import NO_SLOTS, fields_of, installed_slots
from pipeline.spec.value_ranges import collapse_numbers, expand_values
from pipeline.spec.wording.corrections import Corrections, corrected, read_corrections, split_texts

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


#: A correction of every key that can be corrected, of the town: place in its spec -> another text.
TEXTS: dict[str, str] = {
    "report.title": '"The town"',
    "report.publisher": '"Office of the town"',
    "report.language": '"es"',
    "report.reference_date": "2031-04-01",
    "report.publication_date": "2032-04-01",
    "report.version": '"2, corrected"',
    "report.next_release": '"in 2041"',
    "report.contact": '"town@example.org"',
    "report.licence": '"CC0-1.0"',
    "report.citation": '"Office of the town (2032)"',
    "report.software_url": '"https://example.org"',
    "report.notes": '["Read this."]',
    "report.definitions": '{ dorm = "A house of students." }',
    "geography.labels": '{ county = "County", tract = { en = "Tract", es = "Sección" } }',
    "schema.labels.records": '"residents"',
    "schema.labels.attributes": '{ age = "Age group" }',
    "schema.labels.values": '{ sex = { f = "women", m = "men" } }',
    "schema.labels.tables": '{ sex = "Women and men" }',
    "companions.units.schema.labels.records": '"dwellings"',
    "companions.units.schema.labels.attributes": '{ status = "Use" }',
    "companions.units.schema.labels.values": '{ status = { vacant = "empty" } }',
    "companions.units.schema.labels.tables": '{ status = "Dwellings" }',
}


def spec_of(folder: Path) -> ReleaseSpec:
    """The town's spec as a release has it."""
    path = folder / "release.toml"
    path.write_text(SPEC, "utf-8")
    return ReleaseSpec.from_public_dict(json.loads(json.dumps(load_spec(path).public_dict())), "the release")


def corrections(folder: Path, text: str) -> Path:
    path = folder / "corrections.toml"
    path.write_text(text, "utf-8")
    return path


def sections_in(annotation: Any) -> Iterator[type[BaseModel] | None]:
    """The sections that a value may have: None for one that is no section; of tables of sections, those."""
    annotation = _plain(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif typing.get_origin(annotation) is dict:
        yield from sections_in(typing.get_args(annotation)[1])
    else:
        yield None


def all_keys(model: type[BaseModel], place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The place of each key of a spec, those of features too; an entry of a table by a name that there is."""
    for key, field in fields_of(model, installed_slots()).items():
        annotation = _plain(field.annotation)
        for section in sections_in(annotation):
            named = typing.get_origin(annotation) is dict and section is not None
            below = (*place, key, "units") if named else (*place, key)
            if section is None:
                yield below
            else:
                yield from all_keys(section, below)


KEYS = sorted(set(all_keys(ReleaseSpec)))


def test_the_list_is_what_can_be_corrected() -> None:
    places = {".".join(key) for key in all_keys(Corrections)}
    assert places == set(TEXTS)
    assert len(KEYS) > 100  # so that the test below is of something
    assert places <= {".".join(key) for key in KEYS}
    assert {f"the spec's {place.split('.')[0]}" for place in places} == WITH_TEXTS


@pytest.mark.parametrize("key", [key for key in KEYS if ".".join(key) not in TEXTS], ids=".".join)
def test_every_other_key_is_refused_in_one_line(tmp_path: Path, key: tuple[str, ...]) -> None:
    path = corrections(tmp_path, f'{".".join(key)} = "x"\n')
    with pytest.raises(SpecError) as caught:
        read_corrections(path)
    (line,) = str(caught.value).splitlines()
    beginnings = [".".join(key[: 1 + number]) for number in range(len(key))]
    first = next(one for one in beginnings if not any(f"{text}.".startswith(f"{one}.") for text in TEXTS))
    assert line.startswith(f"{path}: {first}: ")
    assert "is no text for readers, which alone can be corrected without another run; " in line
    assert caught.value.exit_status == 2


def leaves(content: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(content, dict | list):
        for key in content if isinstance(content, dict) else range(len(content)):
            yield from leaves(content[key], (*place, key))
    else:
        yield place


def test_both_programs_leave_out_the_same_of_a_published_spec(tmp_path: Path) -> None:
    """Each leaf of a spec with all texts is changed: what is left is another just where the leaf is of no text."""
    spec = spec_of(tmp_path)
    path = corrections(tmp_path, "".join(f"{key} = {text}\n" for key, text in TEXTS.items()))
    full = json.loads(json.dumps(corrected(spec, read_corrections(path), str(path)).public_dict()))
    seen = set()
    for place in leaves(full):
        changed = json.loads(json.dumps(full))
        inner = changed
        for part in place[:-1]:
            inner = inner[part]
        inner[place[-1]] = "another"
        names = [part for part in place if isinstance(part, str)]
        within = names[1:] if names[0] == "companions" else names  # their names are in a list of pairs
        text = within[:2] in (["geography", "labels"], ["schema", "labels"]) or ".".join(within[:2]) in TEXTS
        assert (split_texts(changed)[1] == split_texts(full)[1]) == text, place
        assert (_without_texts(changed) == _without_texts(full)) == text, place
        seen.add(text)
    assert seen == {True, False}
