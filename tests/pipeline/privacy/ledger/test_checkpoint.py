"""A charge goes by the checkpoint, and finds what one that reads all events finds, whatever was changed."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any, get_args

import pytest
import sqlalchemy as sa

from pipeline.errors import InputError
from pipeline.model.series import FIRST
from pipeline.privacy.ledger import notes as ledger_notes
from pipeline.privacy.ledger import store
from pipeline.privacy.ledger import store as ledger_store
from pipeline.privacy.ledger.charges import Charge
from pipeline.privacy.ledger.dataset import SeriesUse
from pipeline.privacy.ledger.events import Event, EventKind, Exact, Group, KeyUse, LedgerError, Subject
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.ledger.store import GUARDS as GUARD_NAMES
from pipeline.privacy.ledger.store import ledger_url

LAYOUT, RECORDS = "a" * 64, "b" * 64


def charge(run: int, dataset: str = "people", **rest: object) -> Charge:
    """Two measurements of rho = 1/100 each."""
    groups = tuple(Group(level, "total", "discrete_gaussian", Fraction(100), 3) for level in ("county", "block"))
    return Charge(dataset, f"{run:064x}", f"r{run}", "change-one", groups, **rest)  # type: ignore[arg-type]


def begun(url: str, runs: int = 5, *, budget: str = "1", **opened: Any) -> None:
    """A ledger of two datasets, with all kinds of events."""
    with Ledger.open(url, create=True, **opened) as ledger:
        ledger.open_dataset(
            "people", population="all", framework="zcdp", budget=Fraction(budget), neighbours="change-one",
            exact=["county:total"], purposes={"questions": Fraction(1, 2)},
        )  # fmt: skip
        ledger.open_dataset("homes", population="all", framework="pure", budget=Fraction(3), neighbours="add-remove")
        exact = (Exact(Subject("invariant", "county", "total"), "", "d" * 64, 3),)
        for run in range(runs):
            key = KeyUse(f"{run % 3:064x}", "", LAYOUT, RECORDS)
            ledger.commit(ledger.reserve(charge(run, key=key, exact=exact if run < 2 else ())))
        ledger.close_dataset("homes")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a new database with `begun` in it."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("served"))
    begun(str(tmp_path / "ledger.sqlite"))
    return str(tmp_path / "ledger.sqlite")


@pytest.fixture
def served(new_database: Callable[[], str]) -> str:
    """Of a new database of PostgreSQL with `begun` in it."""
    name = new_database()
    begun(name)
    return name


@pytest.fixture
def file(tmp_path: Path) -> str:
    begun(str(tmp_path / "ledger.sqlite"))
    return str(tmp_path / "ledger.sqlite")


def kept_at(url: str) -> Path:
    with Ledger.open(url) as ledger:
        return ledger._marks.checkpoint(ledger.id)


def test_with_a_given_clock_and_id_a_ledger_is_the_same_to_its_last_hash(tmp_path: Path) -> None:
    """The hash is that of the first version that was charged with these events, at these times."""
    start, ticks = datetime(2020, 4, 1, 12, tzinfo=UTC), count()

    def clock() -> datetime:
        return start + timedelta(minutes=next(ticks))

    url = str(tmp_path / "ledger.sqlite")
    begun(url, clock=clock, new_id=lambda: "5e" * 32)
    with Ledger.open(url, clock=clock) as ledger:
        assert ledger.id == "5e" * 32
        times = [datetime.fromisoformat(event.time) for event in ledger.events()]
        assert times == [start + timedelta(minutes=minute) for minute in range(27)]
        assert ledger.head().hash == "c24ce2976acd9bf3cbab75d195a429296597d5ee38f7d50b249e6323369aea19"
        # The two kinds of events that came later, with series.
        ledger.commit(ledger.reserve(charge(9, series=SeriesUse("padron", "f" * 64, 3, 0, "2030", FIRST))))
        assert {event.kind for event in ledger.events()} == set(get_args(EventKind))
        assert ledger.head().hash == "3f47d22d38e4ad117dac4ba36bc329e3fcc6ea38d7bd2a43478a63a1ef6406a4"


class Read:
    """How often a ledger reads the whole table, and how many events in all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.whole = self.events = 0
        read = ledger_store._read

        def counted(connection: sa.Connection, *where: Any) -> list[Event]:
            found = read(connection, *where)
            self.whole += not where
            self.events += len(found)
            return found

        monkeypatch.setattr(ledger_store, "_read", counted)


def as_owner(url: str, *statements: str) -> None:
    """As a superuser, in one transaction."""
    engine = sa.create_engine(ledger_url(url))
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))
    engine.dispose()


def sql(url: str, *statements: str) -> None:
    """As the owner of the database, who takes the guards away."""
    on = " ON ledger_events" if url.startswith("postgresql") else ""
    as_owner(url, *(f"DROP TRIGGER IF EXISTS {guard}{on}" for guard in GUARD_NAMES), *statements)


def test_a_charge_reads_no_events_that_were_verified(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Read(monkeypatch)
    with Ledger.open(url) as ledger:
        assert ledger.reserve(charge(7, key=KeyUse("f" * 64, "", LAYOUT, RECORDS))).new
        assert read.whole == 0
        kept_at(url).unlink()
        assert ledger.reserve(charge(8)).new
        assert read.whole == 1
        assert ledger.reserve(charge(9)).new
        assert not ledger.reserve(charge(3, key=KeyUse("0" * 64, "", LAYOUT, RECORDS))).new
        assert read.whole == 1


FIELDS = [name for name in Event.__dataclass_fields__ if name != "number"]


def test_a_change_of_any_field_of_any_event_is_noticed_by_the_next_charge(url: str) -> None:
    """By generation: any text has one letter changed, any number one added, and the guards are there again."""
    with Ledger.open(url) as ledger:
        n = len(ledger.events())
    rng = random.Random("fields")
    for field in FIELDS:
        number = rng.randrange(1, n + 1)
        changed = "count + 1" if field == "count" else f"'x' || {field}"
        back = "count - 1" if field == "count" else f"substr({field}, 2)"
        sql(url, f"UPDATE ledger_events SET {field} = {changed} WHERE number = {number}")
        with Ledger.open(url) as ledger, pytest.raises(LedgerError, match="damaged"):
            ledger.reserve(charge(60))
        sql(url, f"UPDATE ledger_events SET {field} = {back} WHERE number = {number}")
    with Ledger.open(url) as ledger:
        assert ledger.reserve(charge(60)).new


def test_any_byte_of_the_file_is_noticed_by_the_next_charge_or_changes_nothing(file: str) -> None:
    """Of bytes changed without SQLite: the charge is refused, or all events are read and are those of before."""
    good = Path(file).read_bytes()
    with Ledger.open(file) as ledger:
        before = ledger.events()
    rng, refused = random.Random("bytes"), 0
    for _ in range(60):
        place = rng.randrange(len(good))
        Path(file).write_bytes(good[:place] + bytes([good[place] ^ 1 << rng.randrange(8)]) + good[place + 1 :])
        try:
            with Ledger.open(file) as ledger:
                ledger.reserve(charge(3))
                assert ledger.events() == before, place
        except (LedgerError, InputError):
            refused += 1
    assert refused > 10
    Path(file).write_bytes(good)


def test_an_index_that_hides_an_event_is_noticed_by_the_next_charge(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a key could be used over other records: its use before is found by the index."""
    hidden = "FROM sqlite_master WHERE name = 'ledger_events_key'"
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        row = connection.execute(f"SELECT * {hidden}").fetchone()
        connection.execute(f"DELETE {hidden}")
    connection.close()
    with monkeypatch.context() as patched, Ledger.open(file) as ledger:
        patched.setattr(ledger_store, "damage", lambda _: [])
        ledger.reserve(charge(62, key=KeyUse("f" * 64, "", LAYOUT, RECORDS)))
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)
    connection.close()
    with Ledger.open(file) as ledger:
        with pytest.raises(LedgerError, match="missing from index ledger_events_key"):
            ledger.reserve(charge(63, key=KeyUse("f" * 64, "", LAYOUT, "c" * 64)))
        assert any("missing from index" in problem for problem in ledger.verify())


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM ledger_events WHERE number = 9",
        "DELETE FROM ledger_events WHERE number >= 12",
        "UPDATE ledger_events SET number = CASE number WHEN 5 THEN -6 ELSE -5 END WHERE number IN (5, 6)",
        "UPDATE ledger_events SET number = number + 1000 WHERE number > 10",
        "INSERT INTO ledger_events SELECT 0, kind, time, dataset, population, framework, neighbours, budget, 'x', "
        "release, level, query, mechanism, scale, count, cost, 'p', 'h', details FROM ledger_events WHERE number = 7",
    ],
)
def test_events_removed_moved_and_put_in_are_noticed_by_the_next_charge(url: str, statement: str) -> None:
    sql(url, statement)
    with Ledger.open(url) as ledger:
        with pytest.raises(LedgerError):
            ledger.reserve(charge(60))
        assert ledger.verify() != ()


CHANGE = "UPDATE ledger_events SET count = count + 1 WHERE number = 3"
MADE = store._MADE["postgresql"]
GUARDS, ALWAYS = ([one for one in MADE if one.startswith(start)] for start in ("CREATE TRIGGER", "ALTER TABLE"))
REFUSAL = next(one for one in MADE if one.startswith("CREATE FUNCTION"))
REPLACED = REFUSAL.replace("CREATE", "CREATE OR REPLACE", 1)
#: What the owner of a table of PostgreSQL, or a superuser, can do to change an event and leave the guards as they were.
UNSEEN = {
    "disabled": ["ALTER TABLE ledger_events DISABLE TRIGGER USER", CHANGE],
    "disabled in the catalog": [
        "UPDATE pg_trigger SET tgenabled = 'D' WHERE tgname LIKE 'ledger_events%'",
        CHANGE,
        "UPDATE pg_trigger SET tgenabled = 'A' WHERE tgname LIKE 'ledger_events%'",
    ],
    "dropped": [*(f"DROP TRIGGER {name} ON ledger_events" for name in GUARD_NAMES), CHANGE, *GUARDS],
    "empty function": [REPLACED.replace("RAISE EXCEPTION", "RETURN NULL; RAISE EXCEPTION"), CHANGE, REPLACED],
    "another type": ["ALTER TABLE ledger_events ALTER count TYPE BIGINT USING count + (number = 3)::int"],
    "another table": [
        "ALTER TABLE ledger_events RENAME TO before",
        "CREATE TABLE ledger_events (LIKE before INCLUDING DEFAULTS INCLUDING CONSTRAINTS)",
        "INSERT INTO ledger_events SELECT * FROM before",
        CHANGE,
        *(f"DROP TRIGGER {name} ON before" for name in GUARD_NAMES),
        *GUARDS,
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("how", UNSEEN)
def test_what_is_done_to_the_guards_for_a_moment_is_noticed_by_the_next_charge(how: str, served: str) -> None:
    as_owner(served, *UNSEEN[how], *ALWAYS)
    with Ledger.open(served) as ledger:
        assert not any("guard" in problem for problem in ledger.verify())
        with pytest.raises(LedgerError, match="damaged"):
            ledger.reserve(charge(60))


@pytest.mark.slow
@pytest.mark.parametrize("change", [CHANGE, "DELETE FROM ledger_events WHERE number = 3", "TRUNCATE ledger_events"])
def test_a_session_of_a_replica_is_refused_as_any_other(change: str, served: str) -> None:
    with pytest.raises(sa.exc.DBAPIError, match="never changed or removed"):
        as_owner(served, "SET session_replication_role = replica", change)


@pytest.mark.slow
@pytest.mark.parametrize(
    "without",
    [
        ["ALTER TABLE ledger_events ENABLE TRIGGER ledger_events_no_update"],
        ["ALTER TABLE ledger_events DISABLE TRIGGER ledger_events_no_delete"],
        [REPLACED.replace("RAISE EXCEPTION", "RETURN NULL; RAISE EXCEPTION")],
        ["DROP TRIGGER ledger_events_no_update ON ledger_events", GUARDS[0].replace("UPDATE", "UPDATE OF count")],
        [
            "DROP TRIGGER ledger_events_no_update ON ledger_events",
            GUARDS[0].replace("EXECUTE", "WHEN (current_user <> 'tests') EXECUTE"),
        ],
        ["DROP TRIGGER ledger_events_no_delete ON ledger_events", GUARDS[1].replace(" OR TRUNCATE", "")],
        # A policy can be altered without a trace in the table, and hide a run from who is not its owner.
        ["ALTER TABLE ledger_events ENABLE ROW LEVEL SECURITY"],
    ],
)
def test_a_table_without_guards_has_no_witness(
    without: list[str], served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each charge reads all events, and `ledger verify` says what is lost."""
    as_owner(served, *without, *(ALWAYS if "DROP" in without[0] else ()))
    read = Read(monkeypatch)
    with Ledger.open(served) as ledger:
        for run in (60, 61):
            assert ledger.reserve(charge(run)).new
        assert read.whole == 2
        lost = any("has lost its guard" in problem for problem in ledger.verify())
        assert lost == ("SECURITY" not in without[0])


#: What somebody may write into what is kept of the datasets.
FORGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "nothing is spent": lambda datasets: datasets["people"].update(spent={}),
    "less is declared": lambda datasets: datasets["people"]["standing"].pop(),
    "more is drawn": lambda datasets: datasets["people"]["drawn"].update(padron=1),
    "one is left out": lambda datasets: datasets.pop("homes"),
}


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("change", FORGED)
def test_a_forged_checkpoint_is_found_by_verify_and_without_a_seal_never_used(
    file: str, change: str, sealed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seal is what shows damage; whoever may write the state folder can make one."""
    content = json.loads(kept_at(file).read_text())
    seal = content.pop("seal")
    FORGED[change](content["datasets"])
    with Ledger.open(file) as ledger:
        seal = ledger_notes._seal(ledger.id, content) if sealed else seal
        kept_at(file).write_text(json.dumps(content | {"seal": seal}))
        if sealed:
            (problem,) = ledger.verify()
            what = f"what is kept there is not what the first {len(ledger.events())} events add up to"
            assert problem.startswith(f"{kept_at(file)}: {what}")
            kept_at(file).unlink()
        read = Read(monkeypatch)
        ledger.reserve(charge(64))
        assert read.whole == 1
        assert ledger.verify() == ()


@pytest.mark.slow
def test_events_of_another_machine_are_read_alone(served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On PostgreSQL what others add is verified, and what they change of the events before is noticed."""
    url = served
    with Ledger.open(url, state=tmp_path / "elsewhere") as other:
        other.reserve(charge(90))
    read = Read(monkeypatch)
    with Ledger.open(url) as ledger:
        assert not ledger.reserve(charge(90)).new
        assert read.whole == 0
        assert ledger.verify() == ()
        read.whole = 0
        sql(url, "UPDATE ledger_events SET count = count WHERE number = 3")  # the same content, written again
        assert not ledger.reserve(charge(90)).new
        assert read.whole == 1


def test_a_ledger_beside_its_file_has_no_witness(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In SQLite's WAL mode changes are in another file; then all events are verified."""
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    read = Read(monkeypatch)
    with Ledger.open(file) as ledger:
        for number in (91, 92):
            ledger.reserve(charge(number))
        assert read.whole == 2


def test_an_event_that_would_not_be_verified_is_not_kept(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of a charge is found by the next write, as without a checkpoint."""
    monkeypatch.setattr("pipeline.privacy.ledger.ledger.cost_of", lambda *_: Fraction(1, 10**6))
    with Ledger.open(file) as ledger:
        ledger.reserve(charge(93))
        with pytest.raises(LedgerError, match="charges 1/1000000 for what costs 1/100"):
            ledger.reserve(charge(94))
