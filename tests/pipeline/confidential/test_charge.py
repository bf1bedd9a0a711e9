"""A run whose spec names datasets is charged before it measures; the same run again is free, another is not."""

from __future__ import annotations

import importlib
import shutil
from fractions import Fraction
from itertools import count
from pathlib import Path

import pytest
from releases.killed import kill_at
from releases.small import PEOPLE_EXACT, QUICK, UNITS_EXACT, run, write_town
from typer.testing import CliRunner

from flows.cli import app
from pipeline.errors import BudgetRefusedError, InputError
from pipeline.privacy.ledger.events import LedgerError
from pipeline.privacy.ledger.ledger import Ledger, Marks
from pipeline.privacy.ledger.notes import read_notes
from pipeline.release.layout import RunDirectory


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A ledger with a budget for one run and a half."""
    place = str(tmp_path / "ledger.sqlite")
    monkeypatch.setenv("SPINEWISE_LEDGER", place)
    with Ledger.open(place, create=True) as opened:
        for name, budget, exact in (("town", 3, PEOPLE_EXACT), ("town-units", 2, UNITS_EXACT)):
            opened.open_dataset(
                name, population=name, framework="zcdp", budget=Fraction(budget), neighbours="change-one", exact=exact
            )
    return place


def charged_spec(folder: Path, *, key: str = "", units: str = 'dataset = "town-units", ') -> Path:
    folder.mkdir()
    spec = write_town(folder, *QUICK)
    text = spec.read_text().replace('key = "insecure-test:1"\n', f'dataset = "town"\n{key}')
    spec.write_text(text.replace('privacy = { rho = "1" }', f'privacy = {{ {units}rho = "1" }}'))
    return spec


def spent(place: str, dataset: str = "town") -> Fraction:
    with Ledger.open(place) as opened:
        state = opened.dataset(dataset)
        return state.budget - state.left


def test_a_run_is_charged_once_before_it_measures_and_another_is_refused(
    ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last event is marked where the settings say, and a ledger put back is refused by it."""
    monkeypatch.setenv("SPINEWISE_STATE", str(tmp_path / "state"))
    spec = charged_spec(tmp_path / "spec")
    shutil.copy(ledger, tmp_path / "backup")
    root = run(spec, tmp_path / "out")
    assert (RunDirectory(root).restricted / "ledger.json").is_file()
    run(spec, tmp_path / "out")
    with pytest.raises(BudgetRefusedError, match=r"town.* asked for rho = 2, left is 1: 2 of 3 is spent") as refused:
        run(spec, tmp_path / "elsewhere")  # its own key: other noise, another charge
    assert refused.value.exit_status == 3
    assert [spent(ledger), spent(ledger, "town-units")] == [2, 1]
    with Ledger.open(ledger) as opened:
        assert not opened.verify()
        assert {event.kind for event in opened.events()} == {"open", "allow", "charge", "exact", "key", "commit"}
        assert Marks(tmp_path / "state").seen(opened.id) == opened.head()
    shutil.copy(tmp_path / "backup", ledger)
    with pytest.raises(LedgerError, match=r"/state/.* it was put back to an older state"):
        run(spec, tmp_path / "elsewhere")
    assert list((tmp_path / "elsewhere").rglob("measurements/**/*.parquet")) == []


@pytest.mark.slow
def test_a_killed_run_is_charged_before_it_measures_and_never_twice(ledger: str, tmp_path: Path) -> None:
    """Killed again and again, at ever later writes to the disk, it ends as one that was not, for the price of one."""
    spec, root = charged_spec(tmp_path / "spec"), tmp_path / "out" / "town"
    before = after = 0
    moments = count(4, 8)
    while kill_at(spec, tmp_path / "out", "sync", next(moments)):
        measured = [*root.rglob("measurements/**/*.parquet")]
        assert spent(ledger) == 2 or (spent(ledger) == 0 and not measured)
        before += spent(ledger) == 0
        after += spent(ledger) == 2 and not (root / "public" / "manifest.json").exists()
    assert before > 0
    assert after > 2
    assert spent(ledger) == 2
    again = run(spec, tmp_path / "out")
    assert spent(ledger) == 2
    with Ledger.open(ledger) as opened:
        assert opened.verify(read_notes(again).values()) == ()
        assert [event.kind for event in opened.events()].count("commit") == 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"key": 'key = "insecure-test:1"\n'}, "a run with a test key is not a release"),
        ({"units": ""}, r"companions\.units\.privacy\.dataset: missing"),
    ],
)
def test_what_cannot_be_charged_is_refused(ledger: str, tmp_path: Path, changes: dict[str, str], told: str) -> None:
    """A test key, and a release of which some histograms name a dataset and others none."""
    with pytest.raises(InputError, match=told):
        run(charged_spec(tmp_path / "spec", **changes), tmp_path / "out")
    assert spent(ledger) == 0


def test_a_ledger_that_would_not_be_charged_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named for this run it is an error; named for all runs, by the environment, a warning."""
    # Prefect's first import keeps the standard error that it finds, which the runner closes.
    importlib.import_module("flows.orchestration.release_flow")
    spec = write_town(tmp_path / "in")
    monkeypatch.setenv("SPINEWISE_LEDGER", "")  # put back at the end: the command sets it
    named = CliRunner().invoke(app, ["run", str(spec), "--out", str(tmp_path / "out"), "--ledger", "x.sqlite"])
    assert "--ledger: the spec names no dataset (privacy.dataset), so nothing is charged" in str(named.exception)
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv("SPINEWISE_LEDGER", "y.sqlite")
    monkeypatch.setattr(
        "flows.orchestration.release_flow.release", lambda **_: (_ for _ in ()).throw(InputError("stopped here"))
    )
    everywhere = CliRunner().invoke(app, ["run", str(spec), "--out", str(tmp_path / "out")])
    assert "Warning: SPINEWISE_LEDGER is set, but the spec names no dataset" in everywhere.output
    assert "stopped here" in str(everywhere.exception)
