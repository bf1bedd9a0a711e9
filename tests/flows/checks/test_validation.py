"""`spinewise validate` finds everything in one pass, says where, and agrees with what a run refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from releases.patients import write_patients
from typer.testing import CliRunner

from flows.checks.validation import validate
from flows.cli import app


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
