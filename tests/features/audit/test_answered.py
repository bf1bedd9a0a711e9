"""`spinewise audit ANSWER_DIR`, and what the other judges say of an answer without noise."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from releases.asked import ask, asking, key_at, ledger_of, measured_here, write_workers
from releases.command import printed
from releases.updated import answer_to, charged_release
from typer.testing import CliRunner

from auditor.program import main
from flows.cli import app
from pipeline.confidential.custody import KeySource
from pipeline.errors import InputError, ReleaseError
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.release.layout import RunDirectory
from pipeline.runs.answers import verify_answer


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


QUICK = ("[input]", "[publish]\nreplicates = 0\nmargins = false\nmicrodata = false\n[input]")


def test_other_areas_are_found_by_the_second_program_and_beside_a_release(tmp_path: Path) -> None:
    with charged_release(tmp_path, QUICK) as (spec, release):
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
