"""Signing a release on the command line, and what verify says of a signature."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from releases.command import spinewise
from releases.small import run as run_town
from typer.testing import CliRunner

from flows.cli import app
from pipeline.published import release_at
from pipeline.signatures.signing_keys import PublicKey, SigningKey
from pipeline.signatures.statement import sign_release, signature_problems


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
