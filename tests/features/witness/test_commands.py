"""Proving numbers of a signed release and logging it on the command line, and what each attack on it meets there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from releases.command import spinewise


@pytest.mark.slow
def test_an_area_is_proved_and_a_forged_number_is_not(signed_town: Path, signing: Path, tmp_path: Path) -> None:
    area = _first_tract(signed_town)
    public = signing / "agency.sign.pub"
    made = spinewise("prove", signed_town, "--table", "sex", "--area", area, "--level", "tract", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    proof = tmp_path / f"sex-{area}.proof.json"
    assert proof.stat().st_size < 10_000
    checked = spinewise("prove", "--check", proof, "--signed-by", public, "--json")
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)["geocode"] == area
    content = json.loads(proof.read_bytes())
    content["row"]["counts"][0] += 1
    proof.write_text(json.dumps(content))
    refused = spinewise("prove", "--check", proof, "--signed-by", public)
    assert refused.returncode == 1
    assert "it does not lead to the root that was signed" in refused.stderr
    assert spinewise("prove", "--check", proof).returncode == 2


def _first_tract(release: Path) -> str:
    import pandas as pd

    return str(pd.read_parquet(release / "public/tables/sex/tract.parquet")["geocode"][0])


@pytest.mark.slow
def test_the_log_on_the_command_line(signed_town: Path, signing: Path, tmp_path: Path) -> None:
    log, key, public = tmp_path / "log", signing / "agency.sign", signing / "agency.sign.pub"
    new = spinewise("log", "new", log, "--origin", "statistics.example/log", "--sign-key", f"file:{key}")
    assert new.returncode == 0, new.stderr
    seen = tmp_path / "seen"
    first = spinewise("log", "verify", log, "--signed-by", public, "--seen", seen)
    assert first.returncode == 0, first.stderr
    old = tmp_path / "old"
    shutil.copytree(log, old)
    assert spinewise("log", "add", log, signed_town, "--sign-key", f"file:{key}").returncode == 0
    grown = spinewise("log", "verify", log, "--signed-by", public, "--seen", seen)
    assert grown.stdout.strip().endswith("statistics.example/log, 1 entry")
    rolled_back = spinewise("log", "verify", old, "--signed-by", public, "--seen", seen)
    assert rolled_back.returncode == 1
    assert "rolled back: a checkpoint of 1 entries was signed" in rolled_back.stderr
    proof = tmp_path / "town.tlog-proof"
    prove = ("log", "prove", log, "--signed-by", public, "--release", signed_town, "--out", proof)
    assert spinewise(*prove).returncode == 0
    check = spinewise("log", "check", proof, "--signed-by", public, "--release", signed_town)
    assert check.returncode == 0, check.stderr
