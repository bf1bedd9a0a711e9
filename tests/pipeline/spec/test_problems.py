"""Each way in which a spec can be wrong has its message: key, what was found, what is allowed; all told at once."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from pipeline.errors import SpecError
from pipeline.spec.problems import Problems
from pipeline.spec.release_spec import load_spec, parse_spec
from pipeline.spec.slots import NO_SLOTS

_FILE = tomllib.loads(Path(__file__).with_name("malformed_specs.toml").read_text("utf-8"))
BASE: str = _FILE["base"]
CASES: list[dict[str, str]] = _FILE["case"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["says"].split(":")[0])
def test_each_mistake_has_its_message(case: dict[str, str]) -> None:
    assert BASE.count(case["replace"])
    with pytest.raises(SpecError) as error:
        parse_spec(BASE.replace(case["replace"], case["by"], 1), "r.toml", slots=NO_SLOTS)
    assert str(error.value).splitlines() == [f"r.toml: {line}" for line in case["says"].splitlines()]


def fail(message: str) -> None:
    raise SpecError(message)


def test_a_part_notes_its_problems_below_its_key() -> None:
    problems = Problems("x.toml")
    units = problems.at("companions.units")
    units.at("bounds[1]").add("level", "is wrong")
    units.at("passes").add("[0]", "is wrong too")
    units.add("", "is wrong as a whole")
    with units.noted(below=True):
        fail("schema.recodes.a: is below")
    with units.noted():
        fail(f"{units.full_key('input')}: names all of its key")
    problems.add("", "has no key")
    assert problems.lines == [
        "companions.units.bounds[1].level: is wrong",
        "companions.units.passes[0]: is wrong too",
        "companions.units: is wrong as a whole",
        "companions.units.schema.recodes.a: is below",
        "companions.units.input: names all of its key",
        "has no key",
    ]
    with pytest.raises(SpecError, match=r"x\.toml: companions\.units: is wrong as a whole"):
        units.raise_if_any()


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


def test_files_that_are_no_spec_are_named(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    with pytest.raises(SpecError) as error:
        load_spec(path)
    assert str(error.value) == f"{path}: no such file; a spec in TOML is needed"
    with pytest.raises(SpecError) as error:
        load_spec(tmp_path)
    assert str(error.value) == f"{tmp_path}: cannot be read (is a folder); a spec in TOML is needed"
    path.write_bytes(b'name = "caf\xe9"')
    with pytest.raises(SpecError) as error:
        load_spec(path)
    assert str(error.value) == f"{path}: byte 11 is not UTF-8; a spec is TOML text in UTF-8"
    path.write_text("name = x")
    with pytest.raises(SpecError) as error:
        load_spec(path)
    assert str(error.value) == f"{path}: line 1, column 8: not valid TOML: Invalid value"
    path.write_bytes(b"\xef\xbb\xbf" + BASE.encode())
    assert load_spec(path).name == "x"
