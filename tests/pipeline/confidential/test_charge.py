"""A run whose spec names datasets is charged before it measures; the same run again is free, another is not."""

from __future__ import annotations

import importlib
import shutil
from fractions import Fraction
from itertools import count
from pathlib import Path

import pytest
from releases.killed import kill_at
from releases.small import PEOPLE_EXACT, UNITS_EXACT, run, write_town
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
    spec = write_town(folder)
    text = spec.read_text().replace('key = "insecure-test:1"\n', f'dataset = "town"\n{key}')
    spec.write_text(text.replace('privacy = { rho = "1" }', f'privacy = {{ {units}rho = "1" }}'))
    return spec


def spent(place: str, dataset: str = "town") -> Fraction:
    with Ledger.open(place) as opened:
        state = opened.dataset(dataset)
        return state.budget - state.left


def test_a_run_is_charged_once(ledger: str, tmp_path: Path) -> None:
    spec = charged_spec(tmp_path / "spec")
    root = run(spec, tmp_path / "out")
    assert spent(ledger) == 2
    assert spent(ledger, "town-units") == 1
    assert (RunDirectory(root).restricted / "ledger.json").is_file()
    run(spec, tmp_path / "out")
    assert spent(ledger) == 2
    with Ledger.open(ledger) as opened:
        assert not opened.verify()
        assert {event.kind for event in opened.events()} == {"open", "allow", "charge", "exact", "key", "commit"}


def test_a_run_leaves_its_mark_where_the_settings_say(
    ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last event is marked in the state folder; a ledger put back is refused by it."""
    monkeypatch.setenv("SPINEWISE_STATE", str(tmp_path / "state"))
    spec = charged_spec(tmp_path / "spec")
    shutil.copy(ledger, tmp_path / "backup")
    run(spec, tmp_path / "out")
    with Ledger.open(ledger) as opened:
        assert Marks(tmp_path / "state").seen(opened.id) == opened.head()
    shutil.copy(tmp_path / "backup", ledger)
    with pytest.raises(LedgerError, match=r"/state/.* it was put back to an older state"):
        run(spec, tmp_path / "elsewhere")
    assert list((tmp_path / "elsewhere").rglob("measurements/**/*.parquet")) == []


def test_another_run_is_refused_when_the_budget_is_short(ledger: str, tmp_path: Path) -> None:
    spec = charged_spec(tmp_path / "spec")
    run(spec, tmp_path / "out")
    with pytest.raises(BudgetRefusedError, match="town"):
        run(spec, tmp_path / "elsewhere")  # its own key: other noise, another charge
    assert spent(ledger) == 2
    assert spent(ledger, "town-units") == 1
    measured = list((tmp_path / "elsewhere").rglob("measurements/**/*.parquet"))
    assert measured == []


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


def test_a_test_key_is_never_charged(ledger: str, tmp_path: Path) -> None:
    spec = charged_spec(tmp_path / "spec", key='key = "insecure-test:1"\n')
    with pytest.raises(InputError, match="a run with a test key is not a release"):
        run(spec, tmp_path / "out")
    assert spent(ledger) == 0


def test_all_histograms_name_a_dataset_or_none(ledger: str, tmp_path: Path) -> None:
    spec = charged_spec(tmp_path / "spec", units="")
    with pytest.raises(InputError, match=r"companions\.units\.privacy\.dataset: missing"):
        run(spec, tmp_path / "out")
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
