"""A ledger is made whole or not at all, and one of another version is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
import sqlalchemy as sa

from geography.errors import InputError
from pipeline.privacy.ledger import store as ledger_schema
from pipeline.privacy.ledger.events import LedgerError
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.ledger.store import default_url, ledger_url


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE ledger_about SET version = 3", "has version 3; this software reads version 4 alone"),
        ("UPDATE ledger_about SET version = 'four'", "no whole number as its version"),
        ("DELETE FROM ledger_about", "ledger_about has 0 rows, one is needed"),
    ],
)
def test_a_ledger_of_another_version_is_left_alone(file: str, tables: sa.Engine, change: str, message: str) -> None:
    with tables.begin() as connection:
        connection.execute(sa.text(change))
    before = Path(file).read_bytes()
    for create in (False, True):
        with pytest.raises(LedgerError, match=message):
            Ledger.open(file, create=create)
    assert Path(file).read_bytes() == before


def test_a_ledger_is_made_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(tmp_path / "new.sqlite")
    with monkeypatch.context() as patched:
        patched.setattr(ledger_schema, "_MADE", {"sqlite": ("CREATE NONSENSE",)})
        with pytest.raises(LedgerError, match="syntax error"):
            Ledger.open(file, create=True)
    with pytest.raises(InputError, match="there is none"):
        Ledger.open(file)
    with Ledger.open(file, create=True) as ledger:
        assert ledger._store.problems() == []


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
