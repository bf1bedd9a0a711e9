"""Faults that the audit finds in statements, files and answers; its reports have every finding, escaped."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from releases.asked import ask, asking, key_at, ledger_of, measured_here, write_workers
from releases.command import needs, printed
from releases.small import QUICK, run, write_town
from releases.updated import answer_to, charged_release
from typer.testing import CliRunner

import pipeline.confidential.measure
import pipeline.model.universe
from auditor.program import main
from features.audit.findings import ALPHA, Audit, Finding, certain, statistical
from features.audit.finished import audit_release
from features.audit.report import write_audit
from flows.cli import app
from pipeline.confidential.custody import KeySource
from pipeline.errors import InputError, ReleaseError
from pipeline.estimation.whole_spine import Estimation
from pipeline.plan import Plan
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.mechanisms import noise_for
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.release.layout import RunDirectory
from pipeline.runs.answers import verify_answer

Patch = pytest.MonkeyPatch
#: Changes to the town's spec that spare what these tests do not look at.
LIGHT = (("replicates = 3", "margins = false"), ("unbiased = true", "unbiased = false"), QUICK[1])


def audited(tmp_path: Path, monkeypatch: Patch | None = None, *, key: bool = True) -> Audit:
    """The audit of a run of the town while a fault is switched on, which is off in the audit."""
    root = run(write_town(tmp_path / "in", *LIGHT), tmp_path / "out")
    if monkeypatch is not None:
        monkeypatch.undo()
    directory = RunDirectory(root)
    if not key:
        directory.key.unlink()
    return audit_release(directory, KeySource(), None, 1, lambda _: None)


def failed(audit: Audit, group: str = "release") -> set[str]:
    """What the program's own checks find, or those of the second program, "independent"."""
    return {finding.check for finding in audit.failed if finding.group == group}


def _half(patch: Patch) -> None:
    class Half:
        def __init__(self, spec: NoiseSpec) -> None:
            self.sampler = sampler_for(replace(spec, scale=spec.scale / 4))

        def draw(self, stream_key: bytes, start: int, count: int) -> np.ndarray:
            return self.sampler.draw(stream_key, start, count)

    patch.setattr(pipeline.confidential.measure, "sampler_for", Half)


def _one_stream(patch: Patch) -> None:
    sound = MasterKey.stream_key
    patch.setattr(MasterKey, "stream_key", lambda self, context, level, _: sound(self, context, level, "all"))


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "check"), [(None, ""), (_half, "noise found"), (_one_stream, "streams apart")])
def test_noise_is_judged_without_its_key(
    tmp_path: Path, monkeypatch: Patch, plant: Callable[[Patch], None] | None, check: str
) -> None:
    """Noise that is too small by its spread, streams that overlap by correlation; what is sound passes."""
    if plant is not None:
        plant(monkeypatch)
    audit = audited(tmp_path, monkeypatch if plant is not None else None, key=False)
    assert (check in failed(audit)) == (plant is not None)
    assert "noise redrawn" not in failed(audit, "independent")
    assert plant is not None or failed(audit) == set(), audit.failed


@pytest.mark.slow
def test_wrong_neighbours(tmp_path: Path, monkeypatch: Patch) -> None:
    """The spec is for a changed record, the noise is for an added one."""

    def wrong(*arguments: Any) -> NoiseSpec:
        given: tuple[Any, ...] = (*arguments[:-1], "add-remove")
        return noise_for(*given)

    monkeypatch.setattr(pipeline.model.universe, "noise_for", wrong)
    monkeypatch.setattr(Plan, "checked", lambda self: self)  # or the run is refused, see pipeline/test_plan.py
    audit = audited(tmp_path, monkeypatch)
    assert failed(audit) >= {"noise found"}
    assert failed(audit, "independent") >= {"statements", "headers"}


@pytest.mark.slow
def test_a_restricted_value_in_the_manifest(tmp_path: Path, monkeypatch: Patch) -> None:
    """A step that sees the records tells something, and it reaches the manifest."""
    estimate = Estimation.estimate_level
    monkeypatch.setattr(Estimation, "estimate_level", lambda self, level: {**estimate(self, level), "persons": 1234})
    audit = audited(tmp_path, monkeypatch)
    assert failed(audit) == {"verified"}
    assert failed(audit, "independent") == {"solver notes"}
    assert any("reports persons = 1234" in finding.detail for finding in audit.failed)


@needs("report")
@pytest.mark.slow
def test_the_key_in_a_public_file(tmp_path: Path) -> None:
    root = run(write_town(tmp_path / "in", ('key = "insecure-test:1"', ""), *LIGHT), tmp_path / "out")
    secret = (root / "restricted" / "key").read_text().split()[1]
    (root / "public" / "report.html").write_bytes(b"x" + bytes.fromhex(secret) + b"y")
    audit = audit_release(RunDirectory(root), KeySource(), None, 1, lambda _: None)
    assert "public/report.html holds the master key" in str([f.detail for f in audit.failed])


AUDIT = Audit(
    "Audit of <something>",
    (
        statistical("samplers", "chi-square", "sigma^2 = 1", 0.3, {"0.95 times": 1e-30}),
        certain("release", "files", "public/", ["a & b", *"cdefgh"]),
    ),
    {"seed": "1"},
)


def test_a_test_passes_only_if_it_accepts_and_its_arms_are_rejected() -> None:
    assert statistical("g", "c", "s", 0.5, {"arm": ALPHA / 2}).passed
    assert not statistical("g", "c", "s", ALPHA / 2, {"arm": ALPHA / 2}).passed
    blind = statistical("g", "c", "s", 0.5, {"arm": 0.2})
    assert not blind.passed
    assert "arm is not noticed" in blind.detail
    unknown = float("nan")  # neither accepts what is tested, nor shows that a fault is noticed
    assert not statistical("g", "c", "s", unknown, {"arm": ALPHA / 2}).passed
    assert not statistical("g", "c", "s", 0.5, {"arm": unknown}).passed


def test_both_reports_hold_every_finding(tmp_path: Path) -> None:
    html, json_path = write_audit(AUDIT, tmp_path / "new" / "folder")
    content = json.loads(json_path.read_bytes())
    assert content["passed"] is False
    assert [f["check"] for f in content["findings"]] == ["chi-square", "files"]
    text = html.read_text()
    assert "1 of 2 checks FAILED" in text
    assert "Audit of &lt;something&gt;" in text
    assert "a &amp; b" in text
    assert "and 2 more" in text
    unknown = Finding("samplers", "tails", "x", passed=False, value=math.nan, limit=ALPHA, detail="not computable")
    html, json_path = write_audit(Audit("Audit", (unknown,), {}), tmp_path / "unknown")
    assert json.loads(json_path.read_bytes())["findings"][0]["value"] is None
    assert ("not known" in html.read_text(), "nan" in html.read_text()) == (True, False)
    assert "http" not in text.replace("http-equiv", ""), "the page needs nothing else"


def test_a_report_on_true_counts_is_for_its_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "audit.json").write_text("an older one, open to all")
    for folder in (tmp_path / "new", tmp_path / "there"):
        for path in write_audit(AUDIT, folder, private=True):
            assert path.stat().st_mode & 0o077 == 0
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o044 for path in write_audit(AUDIT, tmp_path / "open"))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"--out .*file.* cannot be written"):
        write_audit(AUDIT, tmp_path / "file")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Path]:
    with ledger_of(tmp_path) as place:
        yield place


@pytest.fixture
def answer(tmp_path: Path, ledger: Path) -> Path:
    assert ledger.is_file()
    return ask(write_workers(tmp_path, n=60), "count by county, sex")


def test_the_command_audits_an_answer(answer: Path, ledger: Path) -> None:
    done = CliRunner().invoke(app, ["audit", str(answer), "--ledger", str(ledger)])
    assert done.exit_code == 0, done.output
    assert f"Audit of the answer {answer.name}: passed" in done.output
    path = answer / "restricted" / "audit" / "audit.json"
    assert path.stat().st_mode & 0o077 == 0
    about = json.loads(path.read_text())["about"]
    assert (about["key"], about["ledger"]) == ("given", "compared")
    assert main([str(answer), "--ledger", str(ledger)]) == 0
    with pytest.raises(InputError, match="attacks a release"):
        CliRunner().invoke(app, ["audit", str(answer), "--reconstruct"], catch_exceptions=False)


def test_an_answer_without_noise_passes_every_judge_but_the_second_program(
    tmp_path: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`verify` and the ledger see no records; `rerun` draws with the same faulty program."""
    confidential, answering = asking("confidential"), asking("answering")
    sound = confidential.noise_of
    monkeypatch.setattr(confidential, "noise_of", lambda *given: 0 * sound(*given))
    root = ask(write_workers(tmp_path, n=60), "count by county, sex")
    run = RunDirectory(root)
    assert verify_answer(run) == []
    with Ledger.open(str(ledger), state=tmp_path / "state") as opened:
        assert opened.verify() == ()
    again = answering.again_of(run, None, None, KeySource())
    assert answering.compared(run, again, measured_here(again)) == []
    done = CliRunner().invoke(app, ["audit", str(root)])
    assert done.exit_code == 1
    assert "FAILED independent: noise redrawn, the count: " in done.output
    assert main([str(root)]) == 1


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (("software", "packages", "scipy"), "1.17.1+There.are.80.men"),
        (("key_commitment",), "0" * 64),
        (("input_fingerprint",), "80".zfill(64)),
    ],
)
def test_a_number_hidden_in_an_answer_is_found_without_its_key(
    answer: Path, place: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = answer / "public" / "answer.json"
    content = at = json.loads(path.read_bytes())
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = text
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
    (answer / "restricted" / "key").unlink()
    for command in ("verify", "audit"):
        with pytest.raises(ReleaseError, match=place[-1]):
            printed(command, answer)
    assert main([str(answer)]) == 1
    assert f"{place[-1]}: {text!r}"[:40] in capsys.readouterr().out.replace("scipy ", "scipy: ")


TABLES_ALONE = ("[input]", "[publish]\nreplicates = 0\nmargins = false\nmicrodata = false\n[input]")


def test_other_areas_are_found_by_the_second_program_and_beside_a_release(tmp_path: Path) -> None:
    with charged_release(tmp_path, TABLES_ALONE) as (spec, release):
        answer = answer_to(spec, "count by county", "1/20")
        assert CliRunner().invoke(app, ["verify", str(answer), "--release", str(release)]).exit_code == 0
        path = answer / "public" / "answer.json"
        content = json.loads(path.read_bytes())
        content["geography"] = hashlib.sha256(b"other areas").hexdigest()
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
        assert "geography" in CliRunner().invoke(app, ["verify", str(answer)]).stderr
        done = CliRunner().invoke(app, ["verify", str(answer), "--release", str(release)])
        assert done.exit_code == 1
        assert "geography: is not that of the areas of" in done.output
        assert main([str(answer)]) == 1


def test_what_is_missing_or_anothers_is_refused(answer: Path, tmp_path: Path, ledger: Path) -> None:
    """Also an answer of an earlier version, which kept less."""
    (answer / "restricted" / "key").rename(tmp_path / "own")
    with pytest.raises(InputError, match="is not the one that"):
        printed("audit", answer, "--key", f"file:{key_at(tmp_path / 'other').file}")
    with pytest.raises(InputError, match="found only with its key"):
        printed("audit", answer, "--ledger", ledger)
    assert "redrawn" not in printed("audit", answer)  # the noise is tested by its distribution alone
    assert "redrawn" in printed("audit", answer, "--key", f"file:{tmp_path / 'own'}")
    for name in ("question.json", "areas.parquet", "counts.parquet", "run.json"):
        path = answer / "restricted" / name
        path.rename(tmp_path / name)
        with pytest.raises(InputError, match=f"restricted/ has no {name}: it was made by an earlier version"):
            printed("audit", answer)
        assert main([str(answer)]) == 2
        (tmp_path / name).rename(path)
