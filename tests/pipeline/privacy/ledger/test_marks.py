"""A ledger that was put back is noticed without any run: its high-water mark stands elsewhere."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from pipeline.privacy.ledger.chain import Event
from pipeline.privacy.ledger.events import LedgerError
from pipeline.privacy.ledger.ledger import Ledger, Marks
from pipeline.privacy.ledger.store import Store


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPINEWISE_STATE", str(tmp_path / "state"))
    path = tmp_path / "ledger.sqlite"
    opened(path, "first", create=True)
    return path


def opened(path: Path, name: str, *, create: bool = False) -> None:
    with Ledger.open(str(path), create=create) as ledger:
        ledger.open_dataset(name, population="p", framework="zcdp", budget=Fraction(1), neighbours="change-one")


def test_a_fork_is_refused(file: Path, tmp_path: Path) -> None:
    """Two copies that were both continued: the one that was not seen first is not the ledger."""
    shutil.copy(file, tmp_path / "copy.sqlite")
    opened(file, "second")
    with Ledger.open(str(tmp_path / "copy.sqlite"), state=tmp_path / "elsewhere") as ledger:
        ledger.open_dataset("other", population="p", framework="zcdp", budget=Fraction(1), neighbours="change-one")
    with (
        Ledger.open(str(tmp_path / "copy.sqlite")) as ledger,
        pytest.raises(LedgerError, match="event 2 is another one"),
    ):
        ledger.datasets()


def test_the_mark_only_rises_and_is_the_users_own(file: Path, tmp_path: Path) -> None:
    with Ledger.open(str(file)) as ledger:
        marks, first = Marks(), ledger.head()
        opened(file, "second")
        assert ledger.head().number == 2
        with marks.held(ledger.id):
            marks.raise_to(first)
        assert f'"number": {2}' in marks.file(ledger.id).read_text()
        assert marks.file(ledger.id).stat().st_mode & 0o077 == 0
        assert marks.folder == tmp_path / "state" / "ledger-marks"


def test_a_charge_needs_a_place_for_its_mark(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("SPINEWISE_STATE", str(tmp_path / "taken"))
    with Ledger.open(str(file)) as ledger:
        with pytest.raises(LedgerError, match="high-water mark cannot be kept there"):
            ledger.close_dataset("first")
        assert [event.kind for event in ledger.events()] == ["open"]


def test_a_damaged_mark_is_named(file: Path) -> None:
    with Ledger.open(str(file)) as ledger:
        mark = Marks().file(ledger.id)
        mark.write_text("{}")
        with pytest.raises(LedgerError, match=f"{ledger.id}.json is damaged"):
            ledger.datasets()


def test_what_is_written_while_one_reads_is_no_roll_back(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process adds an event, and raises the mark, between the reading of the one and of the other."""
    read, writers = Store.read, ["second"]

    def overtaken(store: Store) -> list[Event]:
        events = read(store)
        if writers:
            opened(file, writers.pop())
        return events

    with Ledger.open(str(file)) as ledger:
        monkeypatch.setattr(Store, "read", overtaken)
        assert list(ledger.datasets()) == ["first"]
        assert list(ledger.datasets()) == ["first", "second"]
        writers.append("third")
        assert ledger.verify() == ()
