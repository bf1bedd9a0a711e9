"""`spinewise doctor` finds what is wrong, says how to mend it, and changes nothing."""

from __future__ import annotations

import json
from fractions import Fraction
from importlib import metadata
from pathlib import Path

import pytest
from releases.small import PEOPLE_EXACT, UNITS_EXACT, write_town
from releases.web import answering
from typer.testing import CliRunner

import flows.checks.doctor
from flows.checks.doctor import SOLVERS, Examined, examine
from flows.cli import app
from pipeline.privacy.ledger.ledger import Ledger


@pytest.fixture(autouse=True)
def _a_user_without_settings_ledger_or_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "PREFECT_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "user"))
    for name in ("SPINEWISE_LEDGER", "PREFECT_API_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def looked(spec: Path | None = None, **flags: object) -> dict[str, Examined]:
    """The worst of what was found, by what was looked at."""
    found: dict[str, Examined] = {}
    order = ["well", "note", "wrong"]
    for one in examine(spec, lambda _: None, **flags):
        if one.what not in found or order.index(one.state) > order.index(found[one.what].state):
            found[one.what] = one
    return found


def test_a_machine_as_it_should_be(tmp_path: Path) -> None:
    """Nothing is written."""
    before = sorted(tmp_path.rglob("*"))
    shown = CliRunner().invoke(app, ["doctor"])
    assert (shown.exit_code, "nothing is wrong" in shown.output, "WRONG" in shown.output) == (0, True, False)
    assert sorted(path for path in tmp_path.rglob("*") if "user" not in path.parts) == before
    (tmp_path / "spinewise.toml").write_text("x = 1")
    found = looked()
    assert [(what, one.state) for what, one in found.items()] == [("settings", "wrong")]


def test_a_spec_is_looked_at_with_its_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = (
        ('key = "insecure-test:1"', 'dataset = "persons"'),
        ('privacy = { rho = "1" }', 'privacy = { rho = "1", dataset = "persons" }'),
    )
    spec = write_town(tmp_path / "in", *changes)
    found = looked(spec)
    assert (found["ledger"].state, found["memory"].state) == ("wrong", "well")
    assert found["ledger"].remedy.startswith("spinewise ledger open persons")
    assert found["spec"].found == "town: 23 leaves, 3 levels"
    place = tmp_path / "ledger.sqlite"
    stated = {"population": "x", "framework": "zcdp", "budget": Fraction(9), "neighbours": "change-one"}
    monkeypatch.setenv("SPINEWISE_LEDGER", str(place))
    with Ledger.open(str(place), create=True) as ledger:
        ledger.open_dataset("others", **stated)  # type: ignore[arg-type]
        assert "has no dataset 'persons'" in looked(spec)["ledger"].found
        ledger.open_dataset("persons", **stated)  # type: ignore[arg-type]
        ledger.allow_exact("persons", "county:total", "zeros")
        found = looked(spec)
        assert found["ledger"].state == "wrong"
        assert "the spec publishes bounds:group quarters, block:total of units exactly" in found["ledger"].found
        declared = 'spinewise ledger allow persons --exact "bounds:group quarters" --exact "block:total"'
        assert found["ledger"].remedy.endswith(declared)
        ledger.allow_exact("persons", *PEOPLE_EXACT[2:], *UNITS_EXACT)
        assert looked(spec)["ledger"].state == "well"
        ledger.close_dataset("persons")
    assert "nothing more of it becomes exact" in looked(spec)["ledger"].remedy
    (tmp_path / "in" / "persons.csv").unlink()
    wrong = CliRunner().invoke(app, ["doctor", str(spec), "--json"])
    faults = [one["what"] for one in json.loads(wrong.stdout) if one["state"] == "wrong"]
    assert (wrong.exit_code, faults) == (2, ["ledger", "records"])


def test_each_fault_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "2.1.9" if name == "sqlalchemy" else version(name))
    monkeypatch.setitem(SOLVERS, "SCS", lambda: 0.1)
    monkeypatch.setattr(flows.checks.doctor, "memory_for_a_run", lambda _: 1000)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPINEWISE_SLIP", "1")
    found = looked(write_town(tmp_path / "in"), out=tmp_path / "file")
    assert found["packages"].found.startswith("sqlalchemy is 2.1.9, and <2.1,>=2.0 is needed")
    assert found["packages"].remedy == "pip install 'sqlalchemy<2.1,>=2.0'"
    assert found["solvers"].found == "SCS is 0.1 off"
    assert {found["output"].state, found["memory"].state} == {"wrong"}
    assert "SPINEWISE_SLIP" in found["settings"].found
    shown = CliRunner().invoke(app, ["doctor", "--out", str(tmp_path / "file")])
    assert (shown.exit_code, "WRONG  packages" in shown.output) == (2, True)


def test_a_server_that_is_away_or_another_version_is_told() -> None:
    import prefect
    from prefect.settings import PREFECT_API_URL, temporary_settings

    address = "http://127.0.0.1:{}/api"
    with answering(content=b'"2.0.0"') as (port, _), temporary_settings({PREFECT_API_URL: address.format(port)}):
        assert f"is version 2.0.0, installed here is {prefect.__version__}" in looked()["Prefect"].found
    with temporary_settings({PREFECT_API_URL: address.format(port)}):
        assert "does not answer" in looked()["Prefect"].found
