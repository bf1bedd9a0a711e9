"""`--quiet`, `--verbose`, `--json` mean the same everywhere; an import prints its spec; what a signature is worth."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest
from oracles.summary_files import made_up_state, write_2020
from releases.command import needs, spinewise
from releases.small import QUICK, write_town
from releases.small import run as run_town
from typer.testing import CliRunner, Result

from flows.cli import app
from geography.errors import InputError
from pipeline.published import release_at
from pipeline.runs.verify import FORM_ALONE
from pipeline.signatures.signing_keys import PublicKey, SigningKey
from pipeline.signatures.statement import sign_release, signature_problems


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


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
    blocks = pd.read_csv(spec.with_name("blocks.csv"), dtype=str)["block"]
    for level, length in (("county", 1), ("tract", 3), ("block", 5)):
        count = blocks.str[:length].nunique()
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


@pytest.mark.slow
def test_a_run_again_keeps_or_drops_the_signature(
    town_spec: Path, signed_town: Path, signing: Path, tmp_path: Path
) -> None:
    """A run that gives the same manifest leaves it; under another manifest it would be a lie."""
    run = release_at(signed_town)
    assert run_town(town_spec, signed_town.parent) == signed_town
    assert signature_problems(run, PublicKey.read(signing / "agency.sign.pub")) == []
    text = town_spec.read_text("utf-8").replace("replicates = 3", "replicates = 2")
    other = tmp_path / "other"
    shutil.copytree(town_spec.parent, other)
    (other / town_spec.name).write_text(text, "utf-8")
    stale = tmp_path / "stale"
    target = run_town(other / town_spec.name, stale)
    shutil.copy(run.signature, release_at(target).signature)
    run_town(other / town_spec.name, stale)
    assert not release_at(target).signature.exists()


@pytest.mark.slow
def test_a_run_signs_and_a_wrong_key_stops_it_before_it_begins(town_spec: Path, signing: Path, tmp_path: Path) -> None:
    missing = spinewise("run", town_spec, "--out", tmp_path, "--no-prefect", "--sign-key", f"file:{signing / 'none'}")
    assert missing.returncode == 2
    assert "signing key file" in missing.stderr
    assert not (tmp_path / "town").exists()
    command = f"cat {signing / 'agency.sign'}"
    arguments = ("run", town_spec, "--out", tmp_path, "--no-prefect", "--workers", 1)
    done = spinewise(*arguments, SPINEWISE_SIGN_KEY=f"command:{command}")
    assert done.returncode == 0, done.stderr
    assert signature_problems(release_at(tmp_path / "town"), PublicKey.read(signing / "agency.sign.pub")) == []


def test_verify_says_that_a_signature_was_not_checked(
    town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --signed-by a forged release with the agency's name on it would verify without a word."""
    copy = tmp_path / "town"
    shutil.copytree(town, copy)
    key = SigningKey.generate("statistics.example/releases")
    public = tmp_path / "agency.sign.pub"
    public.write_text(key.public().text())
    monkeypatch.setattr("pipeline.runs.verify.verify_release", lambda *_: [])

    def said(*words: str, before: Sequence[str] = ()) -> str:
        return CliRunner().invoke(app, [*before, "verify", str(copy), *words]).stderr

    remark = "its signature was not checked: name the key with --signed-by"
    assert remark not in said()
    sign_release(release_at(copy), key)
    assert said().replace("\n", " ").count(remark) == 1
    assert remark not in said(before=["--quiet"])
    assert remark not in said("--signed-by", str(public))

    def status() -> tuple[int, str]:
        done = CliRunner().invoke(app, ["verify", str(copy), "--signed-by", str(public)])
        return done.exit_code, done.output

    assert status()[0] == 0
    signature = release_at(copy).signature
    signature.write_bytes(b"")
    assert (status()[0], "is not a signed note" in status()[1]) == (1, True)
    signature.unlink()
    assert (status()[0], "the release is not signed" in status()[1]) == (1, True)


def test_a_summary_file(tmp_path: Path) -> None:
    """What was read is told, and what is off the spine."""
    folder = write_2020(made_up_state(1, 6), tmp_path / "zz.pl")
    shown = CliRunner().invoke(app, ["import", "pl94171", str(folder), "--out", str(tmp_path / "a")])
    assert (shown.exit_code, shown.stdout) == (0, f"{tmp_path / 'a' / 'release.toml'}\n")
    assert "6 blocks" in shown.stderr
    assert "off the spine: 1 place, 1 American Indian area" in shown.stderr


STATED = ("--geography", "county,town", "--records", "--attributes", "sex")
PROOF = ("--expect-records", "36", "--expect-areas", "4")


def test_a_table(tmp_path: Path) -> None:
    """What was read is told; a second import to the same folder is refused."""
    rows = "".join(f"{c},{c}{t},{'fm'[i % 2]}\n" for c in "12" for t in "12" for i in range(9))
    (tmp_path / "a.csv").write_text(f"county,town,sex\n{rows}")
    arguments = ["import", "table", str(tmp_path / "a.csv"), "--out", str(tmp_path / "out"), *STATED, *PROOF]
    shown = CliRunner().invoke(app, arguments)
    assert (shown.exit_code, shown.stdout) == (0, f"{tmp_path / 'out' / 'release.toml'}\n")
    assert "36 people in 4 areas, as expected" in shown.stderr
    shown = CliRunner().invoke(app, arguments)
    assert isinstance(shown.exception, InputError)
    assert "give one that is new or empty" in str(shown.exception)
