"""Runs from end to end tell neighbouring records apart no better than claimed, and the audit notices when they do."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

import features.audit.installed
import pipeline.confidential.measure
from features.audit.findings import ALPHA, Audit, Finding, certain
from features.audit.installed import CASES, EPSILONS, case_findings, reuse_finding
from features.audit.trials import (
    Trials,
    claimed_delta,
    claimed_noises,
    divergence_bounds,
    outcomes_of,
    run_trials,
    write_pair,
)
from flows.cli import app
from pipeline.execution.workers import Workers
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest

SERIAL = Workers(1)


def half_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The headers state the right scale; the draws are half as wide."""

    def smaller(spec: NoiseSpec):  # type: ignore[no-untyped-def]
        factor = 4 if spec.mechanism == "discrete_gaussian" else 2
        return sampler_for(replace(spec, scale=spec.scale / factor))

    monkeypatch.setattr(pipeline.confidential.measure, "sampler_for", smaller)


def distinguished(tmp_path: Path, runs: int) -> dict[str, list[bool]]:
    """For each stage and epsilon, whether the delta found is more than the one claimed."""
    pair = write_pair(tmp_path, CASES[0], CASES[0].budget)
    claims = claimed_delta([(noise, 2) for noise in claimed_noises(pair[0])], EPSILONS)
    return {
        stage: [b > c for b, c in zip(divergence_bounds(*both, EPSILONS, ALPHA), claims, strict=True)]
        for stage, both in outcomes_of(pair, pair, runs, 2, SERIAL, whole=True).items()
    }


@pytest.mark.slow
def test_every_stage_stays_under_the_claim(tmp_path: Path) -> None:
    found = distinguished(tmp_path, 250)
    assert list(found) == ["measurements", "estimates", "release"]
    assert not any(any(stage) for stage in found.values())


@pytest.mark.slow
def test_half_the_noise_is_caught_at_every_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half_the_noise(monkeypatch)
    found = distinguished(tmp_path, 400)
    assert all(any(stage) for stage in found.values()), found


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[1:], ids=lambda case: case.subject)
def test_every_privacy_definition_stays_under_its_claim(tmp_path: Path, case) -> None:  # type: ignore[no-untyped-def]
    """The first of them is judged above, at every stage; so are its 250 runs in an audit of the installation."""
    (finding,) = case_findings(tmp_path, case, 250, 3, SERIAL, whole=False)
    assert finding.passed, finding.detail


def test_a_key_that_does_not_depend_on_the_records_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reuse_finding(tmp_path, 1).passed
    monkeypatch.setattr(MasterKey, "keyed_hash", lambda self, label, data: "0123456789abcdef" * 4)  # noqa: ARG005
    finding = reuse_finding(tmp_path, 1)
    assert not finding.passed
    assert "the same noise under one key" in finding.detail


def test_trials_differ_by_their_keys_alone_and_can_be_repeated(tmp_path: Path) -> None:
    pair = write_pair(tmp_path, CASES[0], Fraction(2))
    scores = run_trials(Trials(pair[0], pair, 10, 6, whole=True))
    assert scores.shape == (6, 1 + 2 * 6)
    assert len(set(scores[:, 0])) > 2
    assert (run_trials(Trials(pair[0], pair, 12, 2, whole=True)) == scores[2:4]).all()


# The command; that the installed program passes its own quick audit, the walk of docs/howto/audit.md shows


@pytest.mark.parametrize("passed", [True, False])
def test_the_command_ends_with_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passed: bool) -> None:
    finding = Finding("samplers", "tails", "x", passed, 0.5, 1e-6, "because")

    def audit(**settings):  # type: ignore[no-untyped-def]
        assert (settings["quick"], settings["seed"]) == (True, 3)
        settings["report"](finding)
        return Audit("Audit of this", (finding, certain("streams", "y", "z", [])))

    monkeypatch.setattr(features.audit.installed, "audit_installed", audit)
    done = CliRunner().invoke(app, ["audit", "--quick", "--seed", "3", "--out", str(tmp_path / "reports")])
    assert done.exit_code == (0 if passed else 1)
    assert ("FAILED samplers: tails, x: because" in done.output) != passed
    assert json.loads((tmp_path / "reports" / "audit.json").read_text())["passed"] is passed
    assert (tmp_path / "reports" / "audit.html").read_text().startswith("<!doctype html>")


@pytest.mark.slow
def test_the_command_audits_a_release(town: Path, tmp_path: Path) -> None:
    """Its reports are computed from true counts, and stay with them; without these there is none."""
    shutil.copytree(town, tmp_path / "town")
    done = CliRunner().invoke(app, ["audit", str(tmp_path / "town"), "--workers", "1"])
    assert done.exit_code == 0, done.output
    path = tmp_path / "town" / "restricted" / "audit" / "audit.json"
    assert path.stat().st_mode & 0o077 == 0
    assert json.loads(path.read_text())["about"]["key"] == "given"
    shutil.rmtree(tmp_path / "town" / "restricted")
    done = CliRunner().invoke(app, ["audit", str(tmp_path / "town"), "--out", str(tmp_path)])
    assert "has no restricted/ folder" in str(done.exception)


def test_key_commands(town: Path, tmp_path: Path) -> None:
    commitment = CliRunner().invoke(app, ["key", "new", str(tmp_path / "key")]).output.strip()
    assert commitment == MasterKey.read(tmp_path / "key").commitment()
    shown = CliRunner().invoke(app, ["key", "show-commitment", str(town)])
    salt = read_manifest(RunDirectory(town).manifest).key_salt
    assert shown.output.strip() == MasterKey.from_text("insecure-test:1").commitment(salt)
    left = CliRunner().invoke(app, ["key", "destroy", str(town)], input="n\n")
    assert left.exit_code == 1
    assert (town / "restricted" / "key").exists()
