"""Runs and answers from end to end tell neighbours apart no better than claimed, and the audit notices faults."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from releases.asked import asking
from typer.testing import CliRunner

import features.audit.installed
import features.audit.questions_asked as trial
import pipeline.confidential.measure
import pipeline.privacy.ledger.charges
from features.audit import whole_trial
from features.audit.findings import ALPHA, Audit, Finding, certain
from features.audit.finished import independent_findings
from features.audit.installed import CASES, EPSILONS, case_findings, reuse_finding
from features.audit.questions_asked import (
    ASKED,
    WAYS,
    TriedQuestion,
    installed_questions,
    question_findings,
    question_problems,
    questions,
)
from features.audit.trials import (
    Trials,
    claimed_delta,
    claimed_noises,
    divergence_bounds,
    outcomes_of,
    run_trials,
    write_pair,
)
from features.audit.whole_trial import KINDS, TrialKind, kind_findings, own_settings
from flows.cli import app
from pipeline.execution.workers import Workers
from pipeline.privacy.budget import FRAMEWORKS, NEIGHBOURS
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.events import Group
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.questions.text import STATISTICS, parse
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.spec.slots import Slots

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


def finding_on(kind: TrialKind) -> Finding:
    (finding,) = kind_findings((kind,))
    assert finding.subject == kind.subject
    return finding


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=[kind.subject for kind in KINDS])
def test_a_wrong_number_or_charge_is_found(kind: TrialKind, monkeypatch: pytest.MonkeyPatch) -> None:
    """One measured number of the last release that is one too many; and a ledger that has less than was drawn."""

    def spoilt(root: Path, key: Path | None, ledger: str | None) -> Iterator[Finding]:
        path = max((RunDirectory(root).public / "measurements").rglob("*.parquet"))
        table = pq.read_table(path)
        column = table.schema.get_field_index("value")
        values = table.column(column).to_pylist()
        values[0] = [values[0][0] + 1, *values[0][1:]] if isinstance(values[0], list) else values[0] + 1
        changed = table.set_column(
            column, table.schema.field(column), pa.chunked_array([pa.array(values, table.schema.field(column).type)])
        )
        pq.write_table(changed, path)
        return independent_findings(root, key, ledger)

    def cheaper(*content: Any) -> Group:
        level, query, mechanism, scale, *others = content
        return Group(level, query, mechanism, 2 * scale, *others)

    assert finding_on(kind).passed
    with monkeypatch.context() as fault:
        fault.setattr(whole_trial, "independent_findings", spoilt)
        assert "noise" in finding_on(kind).detail
    monkeypatch.setattr(pipeline.privacy.ledger.charges, "Group", cheaper)
    assert "was not charged" in finding_on(kind).detail


def test_a_kind_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit says what it has not tested."""
    monkeypatch.setattr(whole_trial, "installed_slots", lambda: Slots(missing={"series": "years"}))
    finding = finding_on(KINDS[0])
    assert (finding.passed, finding.detail) == (True, "not tested: years is not installed")


SUM = TriedQuestion("sum wages by county", "zcdp", "change-one")


def test_every_statistic_is_asked_under_both_budgets() -> None:
    assert set(ASKED) == set(STATISTICS)
    for quick in (True, False):
        found = {(parse(one.text).statistic, one.framework) for one in questions(quick=quick)}
        assert found == {(statistic, framework) for statistic in STATISTICS for framework in FRAMEWORKS}
    full = list(questions(quick=False))
    assert {one.neighbours for one in full} == set(NEIGHBOURS)
    assert {one.way for one in full if one.text.startswith("sum")} == set(WAYS)
    assert any(parse(one.text).least for one in full)
    assert any("records_per_unit" in one.text for one in full)


def test_a_statistic_without_a_question_stops_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STATISTICS, "mode", True)
    with pytest.raises(KeyError, match="mode"):
        list(questions(quick=True))


def problems(folder: Path, question: TriedQuestion) -> list[str]:
    with own_settings(folder):
        asks = installed_questions()
        if asks is None:
            pytest.skip("no feature asks questions")
        return question_problems(folder, question, 1, asks)


def test_a_sound_question_passes_and_one_without_noise_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / name for name in ("sound", "faulty")]
    for folder in folders:
        folder.mkdir()
    assert problems(folders[0], SUM) == []
    confidential = asking("confidential")
    sound = confidential.noise_of
    monkeypatch.setattr(confidential, "noise_of", lambda *given: 0 * sound(*given))
    assert any("noise redrawn" in one for one in problems(folders[1], SUM))


def test_a_court_that_finds_nothing_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the planted faults has to be found, else the trial fails."""
    monkeypatch.setattr(trial, "audit_answer", lambda *_, **__: ())
    assert problems(tmp_path, SUM) == [
        "no noise in the sum is not noticed",
        "half the noise in the sum is not noticed",
        "the noise of half the sensitivity of the sum is not noticed",
    ]


@pytest.mark.slow
def test_the_installed_program_answers_every_question_as_it_should() -> None:
    assert [one.detail for one in question_findings(quick=False, seed=2) if not one.passed] == []
