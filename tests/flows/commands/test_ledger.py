"""`spinewise ledger`: what an operator types, sees and gets as exit status."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from flows.cli import app
from pipeline.errors import InputError
from pipeline.privacy.ledger.events import Group, LedgerError
from pipeline.privacy.ledger.ledger import Charge, Ledger, RunFingerprint
from pipeline.privacy.ledger.notes import note_event


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = str(tmp_path / "ledger.sqlite")
    monkeypatch.setenv("SPINEWISE_LEDGER", path)
    return path


def call(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["ledger", *arguments], input=answer)


def said(*arguments: str, answer: str | None = None) -> str:
    result = call(*arguments, answer=answer)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def opened(file: str) -> None:
    """A dataset, and a run that spends 1/3 of its 542/339."""
    assert said("open", "persons", "--population", "Rhode Island, 1 April 2020", "--rho", "542/339") == (
        f"persons: open with rho = 1.59882 (542/339) in {file}\n"
    )
    group = Group("county", "votingage * race", "discrete_gaussian", Fraction(3), 20)
    with Ledger.open(file) as ledger:
        charge = Charge("persons", RunFingerprint("a" * 64), "first", "change-one", (group,))
        note = ledger.commit(ledger.reserve(charge))
    run = Path(file).parent / "out" / "first" / "restricted"
    run.mkdir(parents=True)
    note_event(run, note)


def test_verify_compares_with_the_notes_of_runs_and_checks_exports(file: str, tmp_path: Path) -> None:
    opened(file)
    assert said("verify", "--runs", str(tmp_path / "out")) == (
        f"ledger {file} is sound: 3 events, and the notes of 1 runs\n"
    )
    export = tmp_path / "ledger.json"
    assert said("export", str(export)) == f"{export}: 3 events\n"
    assert said("export", "-") == export.read_text()
    assert said("verify", "--file", str(export)) == f"{export} is sound: 3 events\n"
    export.write_text(export.read_text().replace("1/3", "1/4"))
    result = call("verify", "--file", str(export))
    assert isinstance(result.exception, LedgerError)
    assert result.exception.exit_status == 1
    assert "is NOT sound:\nevent 2: was changed" in str(result.exception)
    assert isinstance(call("export", str(export)).exception, InputError), "it would replace a file"


def test_a_closed_dataset_stays_closed(file: str) -> None:
    opened(file)
    refused = call("close", "persons", answer="n\n")
    assert refused.exit_code == 1
    assert "rho = 143/113 is left" in refused.output
    assert said("close", "persons", answer="y\n").endswith("persons: closed\n")
    assert "(closed)" in said("show")
    assert isinstance(call("close", "persons", "--yes").exception, InputError)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("open", "d", "--population", "p"), "either as --rho or as --epsilon"),
        (("open", "d", "--population", "p", "--rho", "1", "--epsilon", "1"), "either as --rho or as --epsilon"),
        (("open", "d", "--population", "p", "--rho", "a lot"), "--rho: found 'a lot'"),
        (("open", "d", "--population", "p", "--rho", "1", "--neighbours", "all"), "allowed are zcdp, pure, and"),
        (("show",), "there is none"),
    ],
)
def test_mistakes_are_told(file: str, arguments: tuple[str, ...], match: str) -> None:  # noqa: ARG001
    error = call(*arguments).exception
    assert isinstance(error, InputError)
    assert match in str(error)
    assert error.exit_status == 2
