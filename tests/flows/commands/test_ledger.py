"""`spinewise ledger`: what it prints are the numbers of its events; a closed dataset stays closed."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from flows.cli import app
from pipeline.errors import InputError
from pipeline.privacy.ledger.charges import Charge
from pipeline.privacy.ledger.events import Group, LedgerError
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.ledger.notes import note_event

_MISSING = re.compile(r"\b(?:nan|undefined|null|none|infinity|inf)\b", re.IGNORECASE)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two frameworks; runs that were drawn, one that was not; a dataset without any; one that is closed."""
    path = str(tmp_path / "ledger.sqlite")
    monkeypatch.setenv("SPINEWISE_LEDGER", path)
    _run("open", "persons", "--population", "residents", "--rho", "542/339")
    _run("open", "units", "--population", "housing units", "--epsilon", "3")
    _run("open", "spare", "--population", "nobody yet", "--rho", "1/7", "--for", "questions=1/2")
    charges = (
        ("persons", "first", "a", "discrete_gaussian", ("3", "7/2"), True),
        ("persons", "second", "b", "discrete_gaussian", ("11/3",), False),
        ("units", "first", "c", "discrete_laplace", ("7", "9/2"), True),
    )
    with Ledger.open(path) as opened:
        for dataset, release, letter, mechanism, scales, drawn in charges:
            groups = tuple(Group("county", f"query {scale}", mechanism, Fraction(scale), 20) for scale in scales)
            reserved = opened.reserve(Charge(dataset, letter * 64, release, "change-one", groups))
            if drawn:
                opened.commit(reserved)
    _run("close", "spare", "--yes")
    return path


def call(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["ledger", *arguments], input=answer)


def _run(*arguments: str, answer: str | None = None) -> str:
    result = call(*arguments, answer=answer)
    assert result.exit_code == 0, (result.output, result.exception)
    assert not _MISSING.findall(result.output), result.output
    return result.output


def test_show_adds_up_the_events(ledger: str) -> None:
    """Budget, spent and left of each dataset and the cost of each run, by sums over the events themselves."""
    with Ledger.open(ledger) as opened:
        events = opened.events()
    spent: dict[str, Fraction] = defaultdict(Fraction)
    runs: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for event in events:
        if event.kind == "charge":
            spent[event.dataset] += Fraction(event.cost)
            runs[event.dataset, event.run] += Fraction(event.cost)
    # Independent of the cost that the ledger computed: 1 / sigma^2 and 2 / b for neighbours of which one is changed.
    assert spent == {
        "persons": 1 / Fraction(3) + 2 / Fraction(7) + 3 / Fraction(11),
        "units": 2 / Fraction(7) + 4 / Fraction(9),
    }
    text = _run("show")
    blocks = {block.split(":")[0]: block for block in re.split(r"\n\n", text)[1:]}
    shown = {report["dataset"]: report for report in json.loads(_run("show", "--json"))}
    assert [*blocks] == [*shown] == ["persons", "units", "spare"]
    assert re.search(r"for questions: rho = [0-9.]+ \(1/14\) left of [0-9.]+ \(1/14\)", blocks["spare"])
    for name, budget in (("persons", Fraction(542, 339)), ("units", Fraction(3)), ("spare", Fraction(1, 7))):
        assert Fraction(shown[name]["spent"]) == spent[name]
        for amount in (budget, spent[name], budget - spent[name]):
            assert re.search(rf"= {amount}[\s;]|\({amount}\)", blocks[name]), (name, amount)
        assert ("(closed)" in blocks[name]) == (name == "spare")
        for one in shown[name]["runs"]:
            assert Fraction(one["cost"]) == runs[name, one["run"]]
            assert one["committed"] == (one["run"] != "b" * 64)
    assert blocks["persons"].count("not reported drawn") == text.count("not reported drawn") == 1
    assert f"epsilon {shown['persons']['epsilon']} at delta" in text


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = str(tmp_path / "ledger.sqlite")
    monkeypatch.setenv("SPINEWISE_LEDGER", path)
    return path


def opened(file: str) -> None:
    """A dataset, and a run that spends 1/3 of its 542/339."""
    assert _run("open", "persons", "--population", "Rhode Island, 1 April 2020", "--rho", "542/339") == (
        f"persons: open with rho = 1.59882 (542/339) in {file}\n"
    )
    group = Group("county", "votingage * race", "discrete_gaussian", Fraction(3), 20)
    with Ledger.open(file) as ledger:
        charge = Charge("persons", "a" * 64, "first", "change-one", (group,))
        note = ledger.commit(ledger.reserve(charge))
    run = Path(file).parent / "out" / "first" / "restricted"
    run.mkdir(parents=True)
    note_event(run, note)


def test_verify_compares_with_the_notes_of_runs_and_checks_exports(file: str, tmp_path: Path) -> None:
    opened(file)
    assert _run("verify", "--runs", str(tmp_path / "out")) == (
        f"ledger {file} is sound: 3 events, and the notes of 1 runs\n"
    )
    (tmp_path / "empty").mkdir()
    mistyped = call("verify", "--runs", str(tmp_path / "empty"))
    assert mistyped.stdout.endswith("the notes of 0 runs\n")
    assert "nothing was compared" in " ".join(mistyped.stderr.split())
    export = tmp_path / "ledger.json"
    assert _run("export", str(export)) == f"{export}: 3 events\n"
    assert _run("export", "-") == export.read_text()
    assert _run("verify", "--file", str(export)) == f"{export} is sound: 3 events\n"
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
    assert _run("close", "persons", answer="y\n").endswith("persons: closed\n")
    assert "(closed)" in _run("show")
    assert isinstance(call("close", "persons", "--yes").exception, InputError)


@pytest.mark.parametrize(
    "wrong", [("a name",), ("d", "--population", " "), ("d", "--neighbours", "all"), ("d", "--rho", "0")]
)
def test_what_cannot_be_opened_leaves_no_ledger(wrong: tuple[str, ...], tmp_path: Path) -> None:
    place = tmp_path / "ledger.sqlite"
    name, *stated = wrong
    given = {"--population": "all", "--rho": "1"} | dict(zip(stated[::2], stated[1::2], strict=True))
    result = call("--ledger", str(place), "open", name, *(word for pair in given.items() for word in pair))
    assert isinstance(result.exception, InputError) or result.exit_code == 2
    assert not place.exists()
