"""`spinewise validate` finds everything in one pass, says where, and refuses what a run refuses, in the same words."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pandas as pd
import pytest
from matrix.cases import CASES
from releases.patients import write_patients
from releases.small import SPEC, request_of, write_town
from typer.testing import CliRunner

from flows.checks import validation
from flows.checks.validation import validate
from flows.cli import app
from pipeline.errors import InputError
from pipeline.runs.open_public import open_listed


@pytest.fixture
def folder(town_spec: Path, tmp_path: Path) -> Path:
    """A copy of the town's files that may be spoilt."""
    return Path(shutil.copytree(town_spec.parent, tmp_path / "town"))


def spoil(file: Path, rows: dict[int, dict[str, str | int | None]]) -> None:
    """Change values of some rows (from 1) of a CSV file."""
    frame = pd.read_csv(file, dtype=str, keep_default_na=False)
    for row, values in rows.items():
        for column, value in values.items():
            frame.loc[row - 1, column] = value
    frame.to_csv(file, index=False)


def test_everything_is_told_at_once(folder: Path) -> None:
    """Every planted fault, in the records of both histograms, with its number of rows and the first of them."""
    spoil(
        folder / "persons.csv",
        {
            2: {"age": "adlt"}, 4: {"age": "adlt", "sex": ""}, 7: {"block": "Z9999"}, 9: {"sex": "x"},
            11: {"age": "child", "quarters": "prison"}, 12: {"age": "child", "quarters": "prison"},
        },
    )  # fmt: skip
    spoil(folder / "units.csv", {3: {"count": "-4"}, 5: {"count": "2.5"}, 6: {"status": "sold"}})
    found, kept = validate(folder, folder / "release.toml"), pd.read_csv(folder / "persons.csv", dtype=str)
    told = {(Path(one.file).name, one.where, one.problem): (one.n_rows, one.rows, one.found) for one in found.findings}
    outside = "a value outside the schema"
    assert told == {
        ("persons.csv", "column 'age'", outside): (2, (2, 4), ("adlt",)),
        ("persons.csv", "column 'sex'", outside): (1, (9,), ("x",)),
        ("persons.csv", "column 'sex'", "a missing value"): (1, (4,), ()),
        ("persons.csv", "column 'block'", "a geocode that is not a leaf of the spine"): (1, (7,), ("Z9999",)),
        ("persons.csv", "structural_zeros", "a combination that the spec declares impossible"): (
            2, (11, 12), tuple(dict.fromkeys(f"child * {kept['sex'][row]} * prison" for row in (10, 11))),
        ),
        ("units.csv", "column 'count'", "a negative count"): (1, (3,), ("-4",)),
        ("units.csv", "column 'count'", "a fractional count"): (1, (5,), ("2.5",)),
        ("units.csv", "column 'status'", outside): (1, (6,), ("sold",)),
    }  # fmt: skip
    assert {one.lines for one in found.findings if one.where == "column 'age'"} == {(3, 5)}


def test_parts_that_are_broken_do_not_hide_the_others(folder: Path) -> None:
    """Geography, facilities, records and companions are each looked at, whatever is wrong with the others."""
    spoil(folder / "blocks.csv", {2: {"block": "A0101"}})
    spoil(folder / "persons.csv", {2: {"age": "adlt"}})
    (folder / "units.csv").write_text("block,status\nA0101,occupied\n")
    found = validate(folder, folder / "release.toml")
    assert [one.part for one in found.findings] == ["geography", "records", "records"]
    assert "codes given twice" in found.findings[0].text
    assert "no column 'count'" in found.findings[2].text
    shutil.copy(folder / "facilities.csv", folder / "blocks.csv")
    spoil(folder / "facilities.csv", {1: {"dorms": "some"}})
    assert [one.part for one in validate(folder, folder / "release.toml").findings] == ["bounds", "records", "records"]


def test_a_bound_that_the_records_break_is_a_remark(folder: Path) -> None:
    """A run goes on then, and so does this."""
    facilities = pd.read_csv(folder / "facilities.csv")
    (row,) = facilities.index[facilities["dorms"] == 1][:1]
    spoil(folder / "facilities.csv", {row + 1: {"dorms": "0"}})
    found = validate(folder, folder / "release.toml")
    assert found.passed
    assert any("bounds 'group quarters': the records break it in 1 geounit" in remark for remark in found.remarks)
    (said,) = [one for one in found.remarks if "privacy.key" in one]
    assert "is a test key, which everybody has: the release protects nobody and says NOT FOR RELEASE" in said
    spec = folder / "release.toml"
    stated = '\n[report]\npublisher = "Office of Towns"\nreference_date = 2030-04-01\ncontact = "office@example.org"\n'
    spec.write_text(spec.read_text("utf-8") + stated, encoding="utf-8")
    (missing,) = [one for one in validate(None, spec).remarks if "[report]" in one]
    assert missing.endswith("[report] states no publication_date, version, next_release; readers will ask for them")


def test_the_command(folder: Path, tmp_path: Path) -> None:
    """Spec and records in any order; text and JSON say the same; the status is 0 or 2; nothing is written."""
    before = sorted(tmp_path.rglob("*"))
    spec, records = str(folder / "release.toml"), str(folder / "persons.csv")
    for arguments in ([spec, records], [records, spec], [spec, str(folder)], [str(folder), spec], [spec]):
        shown = CliRunner().invoke(app, ["validate", *arguments])
        assert (shown.exit_code, "no problem found" in shown.output) == (0, True), arguments
    spoil(folder / "persons.csv", {2: {"age": "adlt"}})
    shown, told = (CliRunner().invoke(app, ["validate", *form, spec]) for form in ([], ["--json"]))
    assert (shown.exit_code, told.exit_code) == (2, 2)
    content = json.loads(told.output)
    assert content["findings"][0]["text"] in shown.output
    assert content["findings"][0]["lines"] == [3]
    assert sorted(tmp_path.rglob("*")) == before


def test_units_are_no_surprise_and_are_told_apart_by_their_texts(tmp_path: Path) -> None:
    """A unit that is stated may have several records; one that is written in two ways is told by its rows alone."""
    spec = write_patients(tmp_path)
    assert not any("'patient'" in remark for remark in validate(None, spec).remarks)
    visits = tmp_path / "visits.csv"
    lines = visits.read_text().splitlines()
    changed = [("p1", "p1 "), ("p2", "P2"), ("p3", "p3\0")]
    for before, after in changed:
        row = next(i for i, line in enumerate(lines) if line.endswith(f",{before}"))
        lines[row] = lines[row].removesuffix(before) + after
    visits.write_text("\n".join(lines) + "\n")
    texts = [line.rsplit(",", 1)[1] for line in lines[1:]]
    n_rows = sum(text.strip(" \0").lower() in ("p1", "p2", "p3") for text in texts)
    (remark,) = [remark for remark in validate(None, spec).remarks if "'patient'" in remark]
    assert f"column 'patient': 6 units, in {n_rows:,} rows, differ from another in blanks" in remark
    assert not any(name in remark for name in ("p1", "P2", "p3"))


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


@pytest.mark.usefixtures("without_records")
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


@pytest.mark.usefixtures("without_records")
def test_they_refuse_the_same_malformed_specs(tmp_path: Path) -> None:
    content = tomllib.loads((TESTS / "pipeline" / "spec" / "malformed_specs.toml").read_text("utf-8"))
    spec = tmp_path / "spec.toml"
    for case in content["case"]:
        spec.write_text(content["base"].replace(case["replace"], case["by"]), "utf-8")
        assert agreed(spec)


@pytest.mark.usefixtures("without_records")
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
