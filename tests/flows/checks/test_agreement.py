"""What a run refuses before it spends anything `validate` refuses in the same words, and nothing else of a spec.

The specs are those of the small releases of the matrix and the malformed ones of tests/pipeline/spec.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from matrix.cases import CASES
from releases.small import SPEC, request_of, write_town

from flows.checks import validation
from flows.checks.validation import validate
from pipeline.errors import InputError
from pipeline.runs.open_public import open_listed

pytestmark = pytest.mark.usefixtures("without_records")
TESTS = Path(__file__).parents[2]
KEY = ('key = "insecure-test:1"', "")
#: Of one run, with a public test key and no ledger.
SPECS = {
    case.name: case
    for case in CASES
    if len(case.commands) == 1 and "run" in case.commands[0] and not {"--key", "--period"} & {*case.commands[0]}
}
RECORDS = '[provenance.inputs]\n{} = {{ source = "records" }}\n'


def refused(spec: Path) -> str:
    """What a run says before it reads records; "" where it goes on to them."""
    try:
        checked = request_of(spec, spec.parent / "out")
        open_listed(checked.spec, checked.universes)
    except InputError as error:
        return str(error)
    return ""


def agreed(spec: Path) -> str:
    """What run and validation say alike of a spec; "" where both have nothing to say."""
    said, found = refused(spec), "\n".join(one.text for one in validate(None, spec).findings)
    assert said in found, f"a run says {said!r}, and validate {found!r}"
    assert bool(said) == bool(found), f"validate refuses, and a run does not: {found!r}"
    return said


@pytest.fixture
def without_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with records is for other tests."""
    monkeypatch.setattr(validation, "_check_records", lambda *_: None)


@pytest.mark.parametrize("name", SPECS)
def test_a_run_and_validate_agree_on_the_specs_of_each_kind(name: str, tmp_path: Path) -> None:
    """Both have nothing to say; what they say without its key and of another level they say alike."""
    case = SPECS[name]
    case.write(tmp_path)
    spec = tmp_path / next(word for word in case.commands[0] if word.endswith(".toml"))
    kept = spec.read_text("utf-8")
    assert not agreed(spec)
    spec.write_text(kept.replace(*KEY), "utf-8")
    agreed(spec)
    spec.write_text(kept.replace("[tables]", "[tables]\nwrong = 'no such query'"), "utf-8")
    assert agreed(spec) or "[tables]" not in kept


def test_they_refuse_the_same_malformed_specs(tmp_path: Path) -> None:
    content = tomllib.loads((TESTS / "pipeline" / "spec" / "malformed_specs.toml").read_text("utf-8"))
    spec = tmp_path / "spec.toml"
    for case in content["case"]:
        spec.write_text(content["base"].replace(case["replace"], case["by"]), "utf-8")
        assert agreed(spec)


def test_they_refuse_the_same_inputs_and_runs_that_no_ledger_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write_town(tmp_path)
    geography, unknown = RECORDS.format("geography"), '[provenance.inputs]\ngeograpy = { source = "public" }\n'
    accepted = '[provenance]\naccept = ["blocks"]\n'
    outlines = '[report.polygons.tract]\nfile = "tracts.geojson"\ncode = "GEOID"\n'
    (tmp_path / "tracts.geojson").write_text("{}")
    for end in (geography, geography + accepted, RECORDS.format("bounds"), unknown, outlines):
        spec.write_text(SPEC + end, "utf-8")
        assert agreed(spec)
    spec.write_text(SPEC + geography + '[provenance]\naccept = ["geography"]\n', "utf-8")
    assert not agreed(spec)
    spec.write_text(SPEC.replace(*KEY), "utf-8")
    assert not agreed(spec)
    monkeypatch.setenv("SPINEWISE_REQUIRE_LEDGER", "true")
    assert "privacy.dataset: missing" in agreed(spec)
