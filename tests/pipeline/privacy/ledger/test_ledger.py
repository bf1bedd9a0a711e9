"""The ledger never lets more be drawn than the budget holds, whoever asks, however often, on either database."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from pipeline.errors import InputError
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger import store as ledger_schema
from pipeline.privacy.ledger.charges import Charge, run_fingerprint
from pipeline.privacy.ledger.events import Event, Group, LedgerError
from pipeline.privacy.ledger.ledger import Ledger, OverspentError
from pipeline.privacy.ledger.notes import Marks, note_event, read_note, read_notes
from pipeline.privacy.ledger.store import Store, default_url, ledger_url
from pipeline.privacy.noise.mechanisms import MechanismName

RACERS = 16
fork = multiprocessing.get_context("fork")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a database that holds no ledger yet."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.sqlite")
    return str(request.getfixturevalue("new_database")())


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.sqlite")


def begin(url: str, budget: str = "1", *, framework: str = "zcdp", neighbours: str = "change-one") -> None:
    with Ledger.open(url, create=True) as ledger:
        ledger.open_dataset(
            "persons", population="everyone", framework=framework, budget=Fraction(budget), neighbours=neighbours
        )


def fingerprint(number: int) -> str:
    return f"{number:064x}"


def charge(run: int, *rhos: str, dataset: str = "persons", mechanism: MechanismName = "discrete_gaussian") -> Charge:
    """One query at a level for each rho; neighbours change-one, so that sigma^2 = 1 / rho."""
    groups = tuple(Group(f"level{i}", "total", mechanism, 1 / Fraction(rho), 1) for i, rho in enumerate(rhos))
    return Charge(dataset, fingerprint(run), "release", "change-one", groups)


def spent(url: str) -> Fraction:
    with Ledger.open(url) as ledger:
        assert ledger.verify() == ()
        return ledger.dataset("persons").spent


# Refusing


def test_input_that_is_refused(file: str) -> None:
    begin(file)
    begin_again: dict[str, Any] = {"framework": "zcdp", "budget": Fraction(9), "neighbours": "change-one"}
    with Ledger.open(file) as ledger:
        refusals: list[tuple[str, Callable[[], object]]] = [
            ("there is a dataset 'persons' already", lambda: ledger.open_dataset(
                "persons", population="p", **begin_again)),
            ("cannot name a dataset", lambda: ledger.open_dataset("a b", population="p", **begin_again)),
            ("needs a description", lambda: ledger.open_dataset("a", population=" ", **begin_again)),
            ("must be above 0", lambda: ledger.open_dataset(
                "a", population="p", **(begin_again | {"budget": Fraction(0)}))),
            ("allowed are zcdp, pure", lambda: ledger.open_dataset(
                "a", population="p", **(begin_again | {"framework": "renyi"}))),
            ("no dataset 'other'; it has persons", lambda: ledger.reserve(charge(1, "1", dataset="other"))),
            ("is for neighbours 'change-one', the run for 'add-remove'", lambda: ledger.reserve(
                Charge("persons", fingerprint(1), "r", "add-remove", charge(1, "1").groups))),
        ]  # fmt: skip
        for match, call in refusals:
            with pytest.raises(InputError, match=match):
                call()
        assert len(ledger.events()) == 1
    with pytest.raises(ValueError, match="names a query at a level twice"):
        Charge("persons", fingerprint(1), "r", "change-one", charge(1, "1").groups * 2)


def test_there_must_be_a_ledger_to_draw_on(tmp_path: Path) -> None:
    """A mistyped place must not be taken for a ledger on which nothing was spent."""
    path = tmp_path / "folder" / "ledger.sqlite"
    with pytest.raises(InputError, match="there is none"):
        Ledger.open(str(path))
    assert not path.parent.exists()
    (tmp_path / "text").write_text("This is a text of more than a hundred bytes, and no database at all. " * 20)
    with pytest.raises(LedgerError, match="file is not a database"):
        Ledger.open(str(tmp_path / "text"))
    for text, match in [
        ("sqlite://", "a file is needed"),
        ("mysql://u:secret@h/d", "allowed are sqlite"),
        ("://", "the URL given is none"),
    ]:
        with pytest.raises(InputError, match=match) as refused:
            Ledger.open(text)
        assert "secret" not in str(refused.value)


def test_an_unreachable_server_and_a_missing_driver_are_told_without_the_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("psycopg")
    url = "postgresql://user:secret@127.0.0.1:9/none"
    with pytest.raises(LedgerError) as failed:
        Ledger.open(url)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InputError, match="PostgreSQL needs the package psycopg") as missing:
        Ledger.open(url)
    assert "secret" not in f"{failed.value}{missing.value}"


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_two_rights_are_enough_to_spend_on_postgresql(url: str) -> None:
    """SELECT and INSERT, as docs/ledger.md has it; the role can neither change the events nor switch the guards off."""
    begin(url)
    owner = sa.create_engine(ledger_url(url))
    with owner.begin() as connection:
        connection.execute(sa.text("DROP ROLE IF EXISTS spinewise_runs"))
        connection.execute(sa.text("CREATE ROLE spinewise_runs LOGIN"))
        connection.execute(sa.text("GRANT SELECT ON ledger_about, ledger_events TO spinewise_runs"))
        connection.execute(sa.text("GRANT INSERT ON ledger_events TO spinewise_runs"))
    spender = url.replace("tests@", "spinewise_runs@")
    with Ledger.open(spender) as ledger:
        ledger.commit(ledger.reserve(charge(1, "1/2")))
    engine = sa.create_engine(ledger_url(spender))
    for statement in (
        "UPDATE ledger_events SET cost = '0'",
        "DELETE FROM ledger_events",
        "TRUNCATE ledger_events",
        "DROP TRIGGER ledger_events_no_update ON ledger_events",
    ):
        with pytest.raises(sa.exc.ProgrammingError, match=r"permission denied|must be owner"), engine.begin() as other:
            other.execute(sa.text(statement))
    with pytest.raises(sa.exc.DatabaseError, match="never changed or removed"), owner.begin() as connection:
        connection.execute(sa.text("TRUNCATE ledger_events"))
    assert spent(url) == Fraction(1, 2)
    with owner.begin() as connection:
        connection.execute(sa.text("DROP OWNED BY spinewise_runs"))
        connection.execute(sa.text("DROP ROLE spinewise_runs"))


# The same run again


CONTEXT = {"input_fingerprint": "i", "spine_fingerprint": "s", "privacy_fingerprint": "p"}


def key_and_context(**changed: str) -> str:
    return run_fingerprint(MasterKey(bytes(32)), **(CONTEXT | changed))


def test_a_fingerprint_tells_apart_all_that_the_noise_comes_from() -> None:
    runs = [
        key_and_context(),
        key_and_context(input_fingerprint="j"),
        key_and_context(spine_fingerprint="j"),
        key_and_context(privacy_fingerprint="j"),
        run_fingerprint(MasterKey(b"1" * 32), **CONTEXT),
    ]
    assert len(set(runs)) == len(runs)
    assert key_and_context() == runs[0]
    with pytest.raises(InputError, match="cannot draw on a ledger"):
        run_fingerprint(MasterKey.from_text("insecure-test:1"), **CONTEXT)


def test_amounts_are_exact_to_the_last_digit(file: str) -> None:
    """The 65 queries of the 2020 persons: half of it fits twice more, and a little over half does not."""
    rho = Fraction(542, 339) ** 2
    shares = [Fraction(1, 4097) * i for i in range(1, 64)]
    shares.append(1 - sum(shares, Fraction(0)))
    begin(file, str(rho * Fraction(3, 2)))
    with Ledger.open(file) as ledger:
        ledger.reserve(charge(1, *(str(rho * share) for share in shares)))
        assert ledger.dataset("persons").spent == rho
        with pytest.raises(OverspentError) as refused:
            ledger.reserve(charge(2, str(rho / 2 + Fraction(1, 10**30))))
        ledger.reserve(charge(2, str(rho / 2)))
        assert ledger.dataset("persons").left == 0
        assert {type(getattr(e, name)) for e in ledger.events() for name in ("budget", "scale", "cost")} == {str}
    again = pickle.loads(pickle.dumps(refused.value))  # noqa: S301
    assert (str(again), again.exit_status, again.left) == (str(refused.value), 3, rho / 2)
    assert Path(file).stat().st_mode & 0o777 == 0o600


# Races


def race(task: Callable[[int], object], count: int) -> list[object]:
    """The results of `task` in `count` processes that start together."""
    barrier, results = fork.Barrier(count), fork.SimpleQueue()

    def run(number: int) -> None:
        barrier.wait(60)
        try:
            results.put(task(number))
        except BaseException as error:
            results.put(error)
        os._exit(0)

    processes = [fork.Process(target=run, args=(number,)) for number in range(count)]
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    return found


def test_of_many_processes_that_race_for_the_last_of_a_budget_exactly_one_gets_it(url: str) -> None:
    begin(url)
    with Ledger.open(url) as ledger:
        ledger.reserve(charge(1000, "2/3"))

    def ask(number: int) -> bool:
        with Ledger.open(url) as ledger:
            return ledger.reserve(charge(number, "1/6", "1/6")).new

    results = race(ask, RACERS)
    assert results.count(True) == 1
    assert sum(isinstance(result, OverspentError) for result in results) == RACERS - 1, results
    assert spent(url) == 1


def test_a_run_that_is_started_many_times_at_once_is_charged_once(url: str) -> None:
    begin(url)

    def ask(_: int) -> bool:
        with Ledger.open(url) as ledger:
            reservation = ledger.reserve(charge(1, "1/2", "1/4"))
            ledger.commit(reservation)
            return reservation.new

    assert sorted(race(ask, 10)) == [False] * 9 + [True]  # type: ignore[type-var]
    assert spent(url) == Fraction(3, 4)


def test_a_ledger_that_many_make_at_once_is_made_once(url: str) -> None:
    def make(_: int) -> str:
        with Ledger.open(url, create=True) as ledger:
            return ledger.id

    found = race(make, 10)
    assert len(set(found)) == 1, found


# Put back


def test_another_ledger_is_not_taken_for_the_one_that_was_charged(tmp_path: Path, file: str) -> None:
    begin(file)
    with Ledger.open(file) as ledger:
        note_event(tmp_path, ledger.reserve(charge(1, "1/2")).head)
    begin(str(tmp_path / "new.sqlite"))
    (tmp_path / "restricted").mkdir()
    shutil.copy(tmp_path / "ledger.json", tmp_path / "restricted")
    with Ledger.open(str(tmp_path / "new.sqlite")) as ledger:
        assert len(read_notes(tmp_path)) == 1
        assert read_notes(tmp_path, ledger.id) == {}
        note = read_note(tmp_path)
        assert note is not None
        with pytest.raises(LedgerError, match="was charged in the ledger"):
            ledger.reserve(charge(1, "1/2"), noted=[note])
        with pytest.raises(LedgerError, match="was charged in the ledger"):
            note_event(tmp_path, ledger.head())


# The high-water mark, which stands elsewhere: a ledger that was put back is noticed without any run


@pytest.fixture
def marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPINEWISE_STATE", str(tmp_path / "state"))
    path = tmp_path / "ledger.sqlite"
    with_dataset(path, "first", create=True)
    return path


def with_dataset(path: Path, name: str, *, create: bool = False) -> None:
    with Ledger.open(str(path), create=create) as ledger:
        ledger.open_dataset(name, population="p", framework="zcdp", budget=Fraction(1), neighbours="change-one")


def test_a_fork_is_refused(marked: Path, tmp_path: Path) -> None:
    """Two copies that were both continued: the one that was not seen first is not the ledger."""
    shutil.copy(marked, tmp_path / "copy.sqlite")
    with_dataset(marked, "second")
    with Ledger.open(str(tmp_path / "copy.sqlite"), state=tmp_path / "elsewhere") as ledger:
        ledger.open_dataset("other", population="p", framework="zcdp", budget=Fraction(1), neighbours="change-one")
    with (
        Ledger.open(str(tmp_path / "copy.sqlite")) as ledger,
        pytest.raises(LedgerError, match="event 2 is another one"),
    ):
        ledger.datasets()


def test_a_charge_needs_a_place_for_its_mark(marked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("SPINEWISE_STATE", str(tmp_path / "taken"))
    with Ledger.open(str(marked)) as ledger:
        with pytest.raises(LedgerError, match="high-water mark cannot be kept there"):
            ledger.close_dataset("first")
        assert [event.kind for event in ledger.events()] == ["open"]


def test_a_damaged_mark_is_named(marked: Path) -> None:
    with Ledger.open(str(marked)) as ledger:
        mark = Marks().file(ledger.id)
        mark.write_text("{}")
        with pytest.raises(LedgerError, match=f"{ledger.id}.json is damaged"):
            ledger.datasets()


def test_what_is_written_while_one_reads_is_no_roll_back(marked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process adds an event, and raises the mark, between the reading of the one and of the other."""
    read, writers = Store.read, ["second"]

    def overtaken(store: Store) -> list[Event]:
        events = read(store)
        if writers:
            with_dataset(marked, writers.pop())
        return events

    with Ledger.open(str(marked)) as ledger:
        monkeypatch.setattr(Store, "read", overtaken)
        assert list(ledger.datasets()) == ["first"]
        assert list(ledger.datasets()) == ["first", "second"]
        writers.append("third")
        assert ledger.verify() == ()


# The tables: whole or not there, and those of another version left alone


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE ledger_about SET version = 3", "has version 3; this software reads version 4 alone"),
        ("UPDATE ledger_about SET version = 'four'", "no whole number as its version"),
        ("DELETE FROM ledger_about", "ledger_about has 0 rows, one is needed"),
    ],
)
def test_a_ledger_of_another_version_is_left_alone(file: str, change: str, message: str) -> None:
    begin(file)
    engine = sa.create_engine(ledger_url(file))
    with engine.begin() as connection:
        connection.execute(sa.text(change))
    engine.dispose()
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
