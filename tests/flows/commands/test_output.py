"""`--quiet`, `--verbose` and `--json` mean the same everywhere; what they print is what the release has."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from releases.command import needs, spinewise
from releases.small import QUICK, write_town
from typer.testing import CliRunner, Result

from flows.cli import app
from pipeline.errors import InputError
from pipeline.runs.verify import FORM_ALONE


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def geounits(folder: Path) -> dict[str, int]:
    """Level -> geounits, by the lengths of the codes in the town's list of blocks."""
    blocks = pd.read_csv(folder / "blocks.csv", dtype=str)["block"]
    return {"county": blocks.str[:1].nunique(), "tract": blocks.str[:3].nunique(), "block": blocks.nunique()}


@pytest.fixture
def spoilt(town: Path, tmp_path: Path) -> tuple[Path, str]:
    """A copy of the release with one more person in one block, and that block."""
    copied = tmp_path / "spoilt"
    shutil.copytree(town, copied)
    path = copied / "public" / "tables" / "detail" / "block.parquet"
    rows = pq.read_table(path)
    place = next(number for number, name in enumerate(rows.column_names) if name == "adult * f * house")
    counts = rows.column(place).to_numpy().copy()
    counts[4] += 1
    field = rows.schema.field(place)
    pq.write_table(rows.set_column(place, field, pa.array(counts, field.type)), path)
    return copied, rows["geocode"][4].as_py()


def test_less_and_more_cannot_be_had_at_once(town: Path) -> None:
    error = call("--quiet", "--verbose", "verify", town).exception
    assert isinstance(error, InputError)
    assert str(error) == "found --quiet and --verbose; one of the two is allowed"
    assert error.exit_status == 2


@pytest.mark.slow
def test_run(tmp_path: Path) -> None:
    """Steps and remarks go to stderr, the directory to stdout; quiet leaves the directory alone."""
    spec = write_town(tmp_path / "in", *QUICK)
    begin = ("run", spec, "--no-prefect", "--workers", "1", "--out")
    root = tmp_path / "one" / "town"
    done = spinewise(*begin, tmp_path / "one", "--json")
    found = json.loads(done.stdout)
    assert (found["release"], found["directory"]) == ("town", str(root))
    assert ["NOT FOR RELEASE" in remark for remark in found["remarks"]] == [True]
    assert all(remark in done.stderr for remark in found["remarks"])
    told = spinewise("--verbose", *begin, tmp_path / "two")
    assert told.stdout == f"{tmp_path / 'two' / 'town'}\n"
    for level, count in geounits(spec.parent).items():
        assert re.search(rf"^measure {level}: {count} geounits, [0-9.]+ s, [0-9,]+ MB$", told.stderr, re.MULTILINE)
    again = spinewise("--quiet", *begin, tmp_path / "one")
    assert (again.returncode, again.stdout, again.stderr) == (0, f"{root}\n", "")


@pytest.mark.slow
def test_verify(town: Path, spoilt: tuple[Path, str]) -> None:
    result = call("verify", town, "--workers", "1", "--json")
    stated = json.loads(result.stdout)
    assert stated == {"release": str(town), "verified": True, "problems": [], "form_alone": [*FORM_ALONE]}
    assert ", ".join(FORM_ALONE) in " ".join(result.stderr.split())
    said = f"{town}: verified; all of it follows from its measurements\n"
    quiet = call("--quiet", "verify", town, "--workers", "1")
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, said, "")
    verbose = call("--verbose", "verify", town, "--workers", "1")
    assert verbose.stdout == said
    county = pq.read_metadata(town / "public" / "tables" / "total" / "county.parquet").num_rows
    assert f"estimate county: {county} geounits, " in verbose.stderr
    wrong = call("verify", spoilt[0], "--workers", "1", "--json")
    assert wrong.exit_code == 1
    found = json.loads(wrong.stdout)
    assert found["verified"] is False
    assert any("tables/detail/block.parquet" in problem for problem in found["problems"])
    in_words = call("--quiet", "verify", spoilt[0], "--workers", "1")
    assert (in_words.exit_code, in_words.stdout) == (1, "")
    assert all(problem in in_words.stderr for problem in found["problems"])


def test_check(town: Path, spoilt: tuple[Path, str]) -> None:
    found = json.loads(call("verify", "--constraints", town, "--json").stdout)
    assert (found["release"], found["holds"], found["problems"]) == (str(town), True, [])
    quiet = call("--quiet", "verify", "--constraints", town)
    said = f"{town}: every constraint of the spec holds ({found['checks']:,} checks)\n"
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, said, "")
    assert call("--verbose", "verify", "--constraints", town).stdout == said
    folder, block = spoilt
    wrong = call("verify", "--constraints", folder, "--json")
    assert wrong.exit_code == 1
    told = json.loads(wrong.stdout)
    assert (told["holds"], told["checks"]) == (False, found["checks"])
    (problem, changed) = told["problems"]
    assert block in problem
    assert changed == "public/tables/detail/block.parquet was changed: its hash is not the one in the manifest"
    in_words = call("--quiet", "verify", "--constraints", folder)
    assert (in_words.exit_code, in_words.stdout) == (1, "")


def test_doctor(town_spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "PREFECT_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "user"))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    looked_at = json.loads(call("doctor", town_spec, "--json").stdout)
    assert {tuple(one) for one in looked_at} == {("what", "state", "found", "remedy")}
    assert all(one["state"] in ("well", "note") for one in looked_at)
    leaves = geounits(town_spec.parent)["block"]
    assert [one["found"] for one in looked_at if one["what"] == "spec"] == [f"town: {leaves} leaves, 3 levels"]
    quiet = call("--quiet", "doctor", town_spec)
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, "nothing is wrong\n", "")
    copied = tmp_path / "in"
    shutil.copytree(town_spec.parent, copied)
    (copied / "persons.csv").unlink()
    wrong = call("doctor", copied / "release.toml", "--json")
    faults = [one for one in json.loads(wrong.stdout) if one["state"] == "wrong"]
    assert (wrong.exit_code, [one["what"] for one in faults]) == (2, ["records"])
    lines = call("--quiet", "doctor", copied / "release.toml").stdout.splitlines()
    assert lines[0].startswith("WRONG  records")
    assert lines[-1] == "1 wrong"
    assert not [line for line in lines if line.startswith(("ok", "note"))]


@pytest.mark.slow
@needs("audit")
def test_audit(town: Path, tmp_path: Path) -> None:
    begin = ("audit", town, "--workers", "1", "--out", tmp_path / "reports")
    found = json.loads(call(*begin, "--json").stdout)
    written = json.loads((tmp_path / "reports" / "audit.json").read_text())
    assert found["report"] == str(tmp_path / "reports" / "audit.html")
    assert found["findings"] == written["findings"]
    assert found["passed"] is True
    quiet = call("--quiet", *begin)
    said = f"Audit of the release town: passed; see {found['report']}\n"
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, said, "")
    verbose = call("--verbose", *begin)
    assert verbose.stdout.endswith(said)
    lines = [line for line in verbose.stderr.splitlines() if line.startswith("passed ")]
    assert len(lines) == len(found["findings"])


@needs("plan")
def test_plan(town_spec: Path, tmp_path: Path) -> None:
    """Levels are those of the list; the noise is that of the spec's shares: one record changes two counts by one."""
    begin = ("plan", town_spec, "--workers", "1")
    found = json.loads(call(*begin, "--json").stdout)
    assert {one["level"]: one["geounits"] for one in found["levels"]} == geounits(town_spec.parent)
    assert [one["universe"] for one in found["universes"]] == ["", "units"]
    rows = found["universes"][0]["expected"]
    for row in rows:
        level = {"county": 1 / 4, "tract": 1 / 4, "block": 1 / 2}[row["level"]]
        share = {"total": 1 / 4, "grown * sex": 1 / 4, "detailed": 1 / 2}[row["query"]] * level
        assert row["sigma"] == pytest.approx(math.sqrt(2 / (2 * 2 * share)))
    assert len(rows) == 9
    totals = {row["level"]: row for row in rows if row["query"] == "total"}
    assert totals["county"]["per_number"] == 0, "it is an invariant"
    shown = call(*begin, "--details").stdout
    quiet = call("--quiet", *begin, "--details", "--chart", tmp_path / "plan.html")
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    assert "rho = 2, and so (epsilon, delta)" in " ".join(quiet.stdout.split())
    assert len(call("--quiet", *begin).stdout.splitlines()) <= 8
    number = f"{totals['block']['per_number']:.2f}"
    for text in (shown, quiet.stdout):
        assert any("total" in line and number in line for line in text.splitlines()), number
    told = call("--verbose", *begin, "--chart", tmp_path / "again.html")
    assert f"Chart written to {tmp_path / 'again.html'}" in told.stderr.replace("\n", "")
