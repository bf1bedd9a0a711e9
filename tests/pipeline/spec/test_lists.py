"""A list of any length and of any entries, in any key of a spec, is right or is refused in words."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from pipeline.errors import SpecError
from pipeline.spec.fields import Section
from pipeline.spec.problems import Problems, note_validation_error
from pipeline.spec.release_spec import ReleaseSpec, parse_spec

ENTRIES: tuple[Any, ...] = ("0", "x", 1, {"answer": "a"}, ["0"])
LISTS = [list(entries) for n in range(4) for entries in itertools.product(ENTRIES, repeat=n)]


def models(model: type[BaseModel] = Section) -> Iterator[type[BaseModel]]:
    for below in model.__subclasses__():
        yield below
        yield from models(below)


def lists_of(model: type[BaseModel]) -> list[str]:
    """The keys of a section whose JSON schema has a list in it."""
    properties = model.model_json_schema(mode="validation").get("properties", {})
    return [key for key, schema in properties.items() if '"array"' in json.dumps(schema)]


FIELDS = sorted(
    {(model, key) for model in models() for key in lists_of(model)}, key=lambda pair: (str(pair[0]), pair[1])
)


def refusal(model: type[BaseModel], content: dict[str, Any]) -> ValidationError | None:
    try:
        model.model_validate(content, context={"folder": Path("/nowhere")})
    except ValidationError as error:
        return error
    return None


def test_all_lists_of_a_spec_are_found() -> None:
    names = {f"{model.__name__}.{key}" for model, key in FIELDS}
    assert len(names) > 20
    assert {"SelectSection.versions", "PostprocessSection.passes", "ReportSection.notes"} <= names


@pytest.mark.parametrize(("model", "key"), FIELDS, ids=lambda value: getattr(value, "__name__", value))
def test_each_list_is_taken_or_refused_in_words(model: type[BaseModel], key: str) -> None:
    for value in LISTS:
        if (error := refusal(model, {key: value})) is None:
            continue
        problems = Problems("spec")
        note_validation_error(error, model, problems)
        own = [line for line in problems.lines if line.split(":")[0].split("[")[0].split(".")[0] == key]
        of_key = [detail for detail in error.errors() if detail["loc"][:1] == (key,)]
        assert own or not of_key, (value, error, problems.lines)
        assert problems.lines, (value, error)


@pytest.mark.parametrize("value", ['"a\\u0000"', '["a\\u0000"]', '{ "a\\u0000" = 1 }'])
@pytest.mark.parametrize("key", sorted(ReleaseSpec.model_fields))
def test_no_text_has_a_nul(key: str, value: str) -> None:
    """Wherever it stands, also in the name of a key; a key of the privacy section is never shown."""
    with pytest.raises(SpecError, match="NUL character"):
        parse_spec(f"{key} = {value}\n", "a.toml", Path())
    with pytest.raises(SpecError) as error:
        parse_spec('name = "a"\n[privacy]\nkey = "insecure-test:7\\u0000"\n', "a.toml", Path())
    assert "insecure-test" not in str(error.value)
