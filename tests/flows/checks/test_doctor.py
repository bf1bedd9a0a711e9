"""`spinewise doctor` finds what is wrong, says how to mend it, and changes nothing."""

from __future__ import annotations

import threading
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import metadata
from pathlib import Path

import pytest
from releases.small import PEOPLE_EXACT, UNITS_EXACT, write_town
from typer.testing import CliRunner

import flows.checks.doctor
from flows.checks.doctor import SOLVERS, Examined, examine
from flows.cli import app
from pipeline.privacy.ledger.ledger import Ledger


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without settings, ledger or server."""
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
    before = sorted(tmp_path.rglob("*"))
    shown = CliRunner().invoke(app, ["doctor"])
    assert shown.exit_code == 0, shown.output
    assert "nothing is wrong" in shown.output
    assert "WRONG" not in shown.output
    assert sorted(path for path in tmp_path.rglob("*") if "user" not in path.parts) == before


def test_a_spec_is_looked_at_with_its_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = (
        ('key = "insecure-test:1"', 'dataset = "persons"'),
        ('privacy = { rho = "1" }', 'privacy = { rho = "1", dataset = "persons" }'),
    )
    spec = write_town(tmp_path / "in", *changes)
    found = looked(spec)
    assert found["ledger"].state == "wrong"
    assert found["ledger"].remedy.startswith("spinewise ledger open persons")
    assert found["spec"].found == "town: 23 leaves, 3 levels"
    assert found["memory"].state == "well"
    place = tmp_path / "ledger.sqlite"
    with Ledger.open(str(place), create=True) as ledger:
        ledger.open_dataset("others", population="x", framework="zcdp", budget=Fraction(1), neighbours="change-one")
    monkeypatch.setenv("SPINEWISE_LEDGER", str(place))
    assert "has no dataset 'persons'" in looked(spec)["ledger"].found
    with Ledger.open(str(place)) as ledger:
        ledger.open_dataset("persons", population="x", framework="zcdp", budget=Fraction(9), neighbours="change-one")
        ledger.allow_exact("persons", "county:total", "zeros")
    found = looked(spec)
    assert found["ledger"].state == "wrong"
    published = "the spec publishes bounds:group quarters, block:total of units exactly"
    assert published in found["ledger"].found
    declared = 'spinewise ledger allow persons --exact "bounds:group quarters" --exact "block:total"'
    assert found["ledger"].remedy.endswith(declared)
    with Ledger.open(str(place)) as ledger:
        ledger.allow_exact("persons", *PEOPLE_EXACT[2:], *UNITS_EXACT)
    assert looked(spec)["ledger"].state == "well"
    with Ledger.open(str(place)) as ledger:
        ledger.close_dataset("persons")
    assert "nothing more of it becomes exact" in looked(spec)["ledger"].remedy
    (tmp_path / "in" / "persons.csv").unlink()
    assert looked(spec)["records"].state == "wrong"


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
    assert found["output"].state == "wrong"
    assert found["memory"].state == "wrong"
    assert "SPINEWISE_SLIP" in found["settings"].found
    shown = CliRunner().invoke(app, ["doctor", "--out", str(tmp_path / "file")])
    assert shown.exit_code == 2
    assert "WRONG  packages" in shown.output


def test_a_server_that_is_away_or_another_version_is_told() -> None:
    import prefect
    from prefect.settings import PREFECT_API_URL, temporary_settings

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'"2.0.0"')

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{server.server_port}/api"}):
        assert f"is version 2.0.0, installed here is {prefect.__version__}" in looked()["Prefect"].found
    server.shutdown()
    server.server_close()
    with temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{server.server_port}/api"}):
        assert "does not answer" in looked()["Prefect"].found
