"""A ledger of an older version is brought up to date whole or not at all, and its events stay as they were."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
import sqlalchemy as sa

from geography.errors import InputError
from pipeline.missing import install_command
from pipeline.privacy.ledger import schema as ledger_schema
from pipeline.privacy.ledger.database import engine_of
from pipeline.privacy.ledger.events import Event, LedgerError, sealed
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.ledger.store import default_url, ledger_url

ADDED = ("CREATE TABLE ledger_remarks (number BIGINT NOT NULL, text TEXT NOT NULL)",)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = str(tmp_path / "ledger.sqlite")
    with Ledger.open(path, create=True) as ledger:
        for name in ("persons", "units"):
            ledger.open_dataset(name, population="p", framework="zcdp", budget=Fraction(3), neighbours="change-one")
    return path


@pytest.fixture
def tables(file: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(ledger_url(file))
    yield engine
    engine.dispose()


def events(file: str) -> tuple[Event, ...]:
    with Ledger.open(file) as ledger:
        assert ledger.verify() == ()
        return ledger.events()


def version(engine: sa.Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(sa.text("SELECT version FROM ledger_about")).scalar_one())


def next_version(monkeypatch: pytest.MonkeyPatch, *statements: str) -> None:
    step = {"sqlite": statements, "postgresql": statements}
    monkeypatch.setattr(ledger_schema, "MIGRATIONS", (*ledger_schema.MIGRATIONS, step))


def test_an_older_ledger_is_brought_up_to_date(file: str, tables: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    before = events(file)
    next_version(monkeypatch, *ADDED)
    assert events(file) == before
    assert version(tables) == 4
    assert sa.inspect(tables).has_table("ledger_remarks")
    assert events(file) == before, "a second time there is nothing to do"


def test_a_migration_that_fails_changes_nothing(file: str, tables: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    before = events(file)
    with monkeypatch.context() as patched:
        next_version(patched, *ADDED, "CREATE NONSENSE")
        with pytest.raises(LedgerError, match="syntax error"):
            Ledger.open(file)
    assert version(tables) == 3
    assert not sa.inspect(tables).has_table("ledger_remarks")
    assert events(file) == before


def test_a_migration_that_would_lose_an_event_is_undone(
    file: str, tables: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = events(file)
    with monkeypatch.context() as patched:
        next_version(
            patched, "DROP TRIGGER ledger_events_no_delete", "DELETE FROM ledger_events WHERE number = 2", *ADDED
        )
        with pytest.raises(LedgerError, match="not brought from version 3 to 4: the events would have changed"):
            Ledger.open(file)
    assert version(tables) == 3
    assert events(file) == before


def test_a_newer_ledger_is_left_alone(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        next_version(patched, *ADDED)
        events(file)
    with pytest.raises(LedgerError, match="has version 4; this software knows versions up to 3"):
        Ledger.open(file)


def test_both_databases_have_every_migration() -> None:
    assert all(step.keys() == {"sqlite", "postgresql"} for step in ledger_schema.MIGRATIONS)
    assert ledger_schema.newest() == len(ledger_schema.MIGRATIONS)


def test_where_the_ledger_is_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPINEWISE_LEDGER", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_url() == "/state/spinewise/ledger.sqlite"
    monkeypatch.setenv("XDG_STATE_HOME", "relative is ignored")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_url() == "/home/someone/.local/state/spinewise/ledger.sqlite"
    monkeypatch.setenv("SPINEWISE_LEDGER", "postgresql://h/d")
    assert default_url() == "postgresql://h/d"
    assert ledger_url("postgresql://u@h/d").drivername == "postgresql+psycopg"


def test_a_missing_driver_is_named_as_it_is_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger, which a reviewer reads whole, writes out what `install_command` finds in the installed metadata."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InputError) as caught:
        engine_of(ledger_url("postgresql://u@h/d"), "a ledger", create=False)
    assert str(caught.value).endswith(f": {install_command('psycopg')}")


def test_a_ledger_of_the_first_version_keeps_its_hashes_and_is_continued(tmp_path: Path) -> None:
    """Written as the first version wrote it; the hashes are those that it computed."""
    file = str(tmp_path / "first.sqlite")
    engine = sa.create_engine(ledger_url(file))
    opened = Event(0, "open", "2030-04-01T00:00:00+00:00", "persons", "all", "zcdp", "change-one", "3")
    charge = Event(
        0,
        "charge",
        "2030-04-02T00:00:00+00:00",
        "persons",
        neighbours="change-one",
        run="a" * 64,
        release="r",
        level="county",
        query="total",
        mechanism="discrete_gaussian",
        scale="2",
        count=5,
        cost="1/2",
    )
    first = sealed(opened, 1, "f" * 64)
    second = sealed(charge, 2, first.hash)
    assert first.hash == "553f5bbf5c74598a676040c796b2a056e570abd75aa856b2673fda2be378aab5"
    assert second.hash == "b474f1e6f3700e5f329ff9038cb9e05a7d79ed4ff58f6a532e05435e68cb3218"
    columns = [name for name in first.as_dict() if name != "details"]
    insert = f"INSERT INTO ledger_events ({', '.join(columns)}) VALUES ({', '.join(f':{name}' for name in columns)})"
    with engine.begin() as connection:
        for statement in ledger_schema.MIGRATIONS[0]["sqlite"]:
            connection.execute(sa.text(statement), {"ledger": "f" * 64} if ":ledger" in statement else {})
        connection.execute(sa.text("UPDATE ledger_about SET version = 1"))
        for event in (first, second):
            connection.execute(sa.text(insert), {name: event.as_dict()[name] for name in columns})
    engine.dispose()
    assert events(file) == (first, second)
    with Ledger.open(file) as ledger:
        ledger.allow_exact("persons", "county:total")
        assert ledger.verify() == ()
        assert ledger.dataset("persons").spent == Fraction(1, 2)
        assert [event.kind for event in ledger.events()] == ["open", "charge", "allow"]
