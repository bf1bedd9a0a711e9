"""`--quiet`, `--verbose` and `--json` mean the same everywhere; what they print is what the release has."""

from __future__ import annotations

import json
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
    assert "found --quiet and --verbose" in str(error)
    assert error.exit_status == 2


@pytest.mark.slow
@needs("audit")
def test_form_of_what_a_run_a_verification_and_an_audit_say(tmp_path: Path) -> None:
    """Steps and remarks go to stderr, the result to stdout, once as JSON, once as words and once alone."""
    spec = write_town(tmp_path / "in", *QUICK)
    root = tmp_path / "one" / "town"
    begin = ("run", spec, "--no-prefect", "--workers", "1", "--out", tmp_path / "one")
    done = spinewise("--verbose", *begin, "--json")
    found = json.loads(done.stdout)
    assert (found["release"], found["directory"]) == ("town", str(root))
    assert ["NOT FOR RELEASE" in remark for remark in found["remarks"]] == [True]
    assert all(remark in done.stderr for remark in found["remarks"])
    for level, count in geounits(spec.parent).items():
        assert re.search(rf"^measure {level}: {count} geounits, [0-9.]+ s, [0-9,]+ MB$", done.stderr, re.MULTILINE)
    again = spinewise("--quiet", *begin)
    assert (again.returncode, again.stdout, again.stderr) == (0, f"{root}\n", "")
    stated = json.loads(call("verify", root, "--json").stdout)
    assert stated == {"release": str(root), "verified": True, "problems": [], "form_alone": [*FORM_ALONE]}
    quiet = call("--quiet", "verify", root)
    assert (quiet.exit_code, quiet.stdout.count("\n"), quiet.stderr) == (0, 1, "")
    again = spinewise("--quiet", "verify", root, "--records", "--json")
    files = sum(1 for path in (root / "public").rglob("*") if path.is_file())
    assert {key: json.loads(again.stdout)[key] for key in ("same", "problems", "files")} == {
        "same": True, "problems": [], "files": files,
    }  # fmt: skip
    audited = json.loads(call("audit", root, "--workers", "1", "--out", tmp_path / "reports", "--json").stdout)
    assert audited["passed"] is True
    assert audited["findings"] == json.loads((tmp_path / "reports" / "audit.json").read_text())["findings"]
    (root / "public" / "spine.parquet").write_bytes(b"damaged")
    wrong = call("verify", root, "--json")
    assert (wrong.exit_code, json.loads(wrong.stdout)["verified"]) == (1, False)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--records", "--constraints"], "--constraints: found with --records, which does without"),
        (["--records", "--signed-by", "agency.sign.pub"], "--signed-by: found with --records"),
        (["--constraints", "--central", "other"], "--central: found with --constraints"),
        (["--data", "persons.csv"], "--data: found without --records, which it is for"),
        (["--constraints", "--key", "file:key"], "--key: found without --records"),
    ],
)
def test_an_option_of_another_way_to_verify_is_refused(town: Path, options: list[str], told: str) -> None:
    done = call("verify", town, *options)
    assert isinstance(done.exception, InputError)
    assert (done.exception.exit_status, done.stdout) == (2, "")
    assert told in str(done.exception)


def test_check(town: Path, spoilt: tuple[Path, str]) -> None:
    found = json.loads(call("verify", "--constraints", town, "--json").stdout)
    assert (found["release"], found["holds"], found["problems"]) == (str(town), True, [])
    quiet = call("--quiet", "verify", "--constraints", town)
    said = f"{town}: every constraint of the spec holds ({found['checks']:,} checks)\n"
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, said, "")
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
