"""The high-water mark of each ledger: the last event that was seen of it, kept outside ledger and runs.

A ledger that was put back to an older state has a sound chain, and the notes of runs show the gap only while those
runs are there. The mark is in the user's state folder, one small file for each ledger by its id, and, where the
settings name one, in a database for all users and machines (`MarksDatabase`); it only ever rises. Whoever restores
ledger and marks together restores the marks with it: receipts in published manifests, which nobody can take back, then
show it (`ledger verify`).

The database is for ledgers that several machines share. The state folder is of one user on one machine: on another
machine an older copy of a PostgreSQL ledger would pass. A mark in the ledger's own database would be put back with
it, and show nothing; so the marks are in another database, best on another server, with a role that may insert and
read, and nothing else. Marks are added, never changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Final, Protocol

import sqlalchemy as sa
from filelock import FileLock, Timeout

from geography.errors import InputError
from pipeline.privacy.ledger.chain import Event, LedgerError
from pipeline.privacy.ledger.database import connected, engine_of, ledger_url, shown_url
from pipeline.privacy.ledger.notes import Head, read_head, write_head
from pipeline.storage.durable import make_folder

__all__ = ["STATE_VARIABLE", "Marks", "MarksDatabase", "Seen", "passed_by", "state_folder"]


#: The place of a mark, for messages -> the last event seen there.
Seen = Mapping[str, Head]

STATE_VARIABLE: Final = "SPINEWISE_STATE"
_WAIT_SECONDS: Final = 120  # for another process's transaction


def state_folder() -> Path:
    """The user's state folder of Spinewise: `SPINEWISE_STATE`, else by the XDG base directory specification."""
    if named := os.environ.get(STATE_VARIABLE):
        return Path(named)
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "state") / "spinewise"


class SharedMarks(Protocol):
    """What is needed of a `MarksDatabase`."""

    shown: str

    def last(self, ledger: str) -> Head | None:
        """The mark of the ledger with that id; None if there is none."""

    def held(self) -> AbstractContextManager[None]:
        """No other process adds a mark until the block ends."""

    def add(self, head: Head) -> None:
        """Keep the event as the last one seen; a later one stays."""


class Marks:
    """The high-water marks in a state folder, and in a database if there is one.

    Attributes:
        folder: one file for each ledger, and beside it the ledger's verified prefix (`prefix`).
    """

    def __init__(self, state: Path | None = None, database: SharedMarks | None = None) -> None:
        self.folder = (state_folder() if state is None else state) / "ledger-marks"
        self._database = database

    def file(self, ledger: str) -> Path:
        """The mark of the ledger with that id."""
        return self.folder / f"{ledger}.json"

    def prefix(self, ledger: str) -> Path:
        """Where the verified prefix of the ledger with that id is kept."""
        return self.folder / f"{ledger}.prefix.sqlite"

    def seen(self, ledger: str) -> Seen:
        """Where it is marked, and which event; to be read before the events are, since both may rise meanwhile."""
        marks = {str(self.file(ledger)): read_head(self.file(ledger))}
        if self._database is not None:
            marks[self._database.shown] = self._database.last(ledger)
        return {place: mark for place, mark in marks.items() if mark is not None and mark.number}

    @contextmanager
    def held(self, ledger: str) -> Iterator[None]:
        """No other process raises the mark until the block ends; LedgerError where it cannot be written."""
        with self._held_file(ledger), nullcontext() if self._database is None else self._database.held():
            yield

    def raise_to(self, head: Head) -> None:
        """Keep the event as the last one seen, on disk when this returns; a later one stays. The mark is `held`."""
        path = self.file(head.ledger)
        mark = read_head(path)
        if mark is None or mark.number < head.number:
            write_head(path, head)
        if self._database is not None:
            self._database.add(head)

    @contextmanager
    def _held_file(self, ledger: str) -> Iterator[None]:
        try:
            make_folder(self.folder, private=True)
            lock = FileLock(self.folder / f"{ledger}.lock", timeout=_WAIT_SECONDS, mode=0o600)
            lock.acquire()
        except Timeout:
            raise LedgerError(f"{self.file(ledger)}: another process has held it for {_WAIT_SECONDS} seconds") from None
        except OSError as error:
            raise LedgerError(
                f"{self.folder}: the ledger's high-water mark cannot be kept there ({error.strerror}); name a folder "
                f"for it with {STATE_VARIABLE}"
            ) from error
        try:
            yield
        finally:
            lock.release()


def passed_by(ledger: str, events: Sequence[Event], seen: Seen) -> list[str]:
    """Marks that the events do not reach or do not pass through, a sentence each.

    The ledger was put back, or was continued from an older copy.
    """
    problems = []
    for place, mark in seen.items():
        found = "another ledger" if mark.ledger != ledger else ""
        if not found and mark.number > len(events):
            found = f"the ledger ends with event {len(events)}"
        if not found and events[mark.number - 1].hash != mark.hash:
            found = f"event {mark.number} is another one"
        if found:
            problems.append(
                f"{place}: this ledger was seen with {mark.number} events, and {found}: it was put back to an older "
                "state; restore the newest copy. If that is lost, what was spent since is not in the ledger: find it "
                "from the releases (spinewise ledger verify RELEASE...) before the mark is removed"
            )
    return problems


_LOCK: Final = 0x4D41524B53  # of the advisory lock, the same for all
_TABLE: Final = "ledger_marks"
_MARKS: Final = sa.table(_TABLE, sa.column("ledger"), sa.column("number"), sa.column("hash"))
_MAKE: Final = (
    f"CREATE TABLE {_TABLE} (ledger TEXT NOT NULL, number BIGINT NOT NULL, hash TEXT NOT NULL, "
    "PRIMARY KEY (ledger, number))"
)
_SQLITE_GUARDS: Final = tuple(
    f"CREATE TRIGGER {_TABLE}_no_{what} BEFORE {what.upper()} ON {_TABLE} "
    "BEGIN SELECT RAISE(ABORT, 'marks of ledgers are never changed or removed'); END"
    for what in ("update", "delete")
)
_POSTGRESQL_GUARDS: Final = (
    f"CREATE FUNCTION {_TABLE}_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'marks of ledgers are never changed or removed'; END $$",
    f"CREATE TRIGGER {_TABLE}_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {_TABLE} "
    f"FOR EACH STATEMENT EXECUTE FUNCTION {_TABLE}_refuse()",
)


class MarksDatabase:
    """The marks of any number of ledgers, in one table.

    Args:
        url: of the database, as a ledger's; the table is made with the first mark.
        ledger: the URL of the ledger, which must be another database.

    Raises:
        InputError: it names none, or the ledger's own.
    """

    def __init__(self, url: str, ledger: str) -> None:
        self._url, own = ledger_url(url, "ledger_marks"), ledger_url(ledger)
        place = ("drivername", "host", "port", "database", "query")
        if all(getattr(self._url, part) == getattr(own, part) for part in place):
            raise InputError(
                f"ledger_marks {shown_url(self._url)}: is the ledger's own database, whose marks would be put back "
                "with it; name another one, best on another server"
            )
        self.shown = f"ledger_marks {shown_url(self._url)}"
        self._held: sa.Connection | None = None

    @classmethod
    def named(cls, url: str | None, ledger: str) -> MarksDatabase | None:
        """The marks at `url`, None if there is none."""
        return None if url is None else cls(url, ledger)

    def last(self, ledger: str) -> Head | None:
        """The mark of the ledger with that id; None if there is none. LedgerError if it cannot be read."""
        if self._held is not None:
            return _last(self._held, ledger)
        try:
            engine = engine_of(self._url, self.shown, create=False)
        except InputError:
            if self._url.get_backend_name() == "sqlite":  # nothing was marked yet
                return None
            raise
        try:
            with connected(engine, self.shown, writes=False, lock=_LOCK) as connection:
                return _last(connection, ledger) if _is_made(connection) else None
        finally:
            engine.dispose()

    @contextmanager
    def held(self) -> Iterator[None]:
        """No other process adds a mark until the block ends. LedgerError where none can be added."""
        engine = engine_of(self._url, self.shown, create=True)
        try:
            with connected(engine, self.shown, writes=True, lock=_LOCK) as connection:
                if not _is_made(connection):
                    guards = _SQLITE_GUARDS if connection.dialect.name == "sqlite" else _POSTGRESQL_GUARDS
                    for statement in (_MAKE, *guards):
                        connection.execute(sa.text(statement))
                elif connection.dialect.name == "postgresql" and not _may_insert(connection):
                    raise LedgerError(f"{self.shown}: this role may not insert into {_TABLE}; nothing can be charged")
                self._held = connection
                try:
                    yield
                finally:
                    self._held = None
        finally:
            engine.dispose()

    def add(self, head: Head) -> None:
        """Keep the event as the last one seen, once the block of `held` ends; a later one stays."""
        if self._held is None:
            raise ValueError("the marks are not held")
        last = _last(self._held, head.ledger)
        if last is None or last.number < head.number:
            self._held.execute(sa.insert(_MARKS), {"ledger": head.ledger, "number": head.number, "hash": head.hash})


def _is_made(connection: sa.Connection) -> bool:
    return sa.inspect(connection).has_table(_TABLE)


def _may_insert(connection: sa.Connection) -> bool:
    return bool(connection.execute(sa.text(f"SELECT has_table_privilege('{_TABLE}', 'INSERT')")).scalar_one())


def _last(connection: sa.Connection, ledger: str) -> Head | None:
    found = sa.select(_MARKS.c.number, _MARKS.c.hash).where(_MARKS.c.ledger == ledger)
    row = connection.execute(found.order_by(_MARKS.c.number.desc()).limit(1)).first()
    return None if row is None else Head(ledger, int(row[0]), str(row[1]))
