"""Where the events are kept: a table of SQLite or PostgreSQL that can only grow.

A write holds the one lock there is, reads all events, and adds to them, all in one transaction that is on disk when it
ends: `BEGIN IMMEDIATE` and `synchronous = EXTRA` in SQLite, an advisory lock and `synchronous_commit = on` in
PostgreSQL. Two processes can so never both find the same part of a budget unspent.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from geography.errors import InputError
from pipeline.privacy.ledger import schema as ledger_schema
from pipeline.privacy.ledger.chain import is_typed
from pipeline.privacy.ledger.database import connected, engine_of, ledger_url, shown_url
from pipeline.privacy.ledger.events import Event, LedgerError, replay, sealed

__all__ = ["ENVIRONMENT", "Store", "Writing", "default_url", "ledger_url"]

ENVIRONMENT: Final = "SPINEWISE_LEDGER"
_LOCK: Final = 0x5350494E45  # of the advisory lock, the same for all
_COLUMNS: Final = tuple(f.name for f in fields(Event))
_EVENTS: Final = sa.table("ledger_events", *(sa.column(name) for name in _COLUMNS))


def default_url() -> str:
    """`SPINEWISE_LEDGER` if it is set, else a file of the user's state directory (XDG base directory specification)."""
    if url := os.environ.get(ENVIRONMENT):
        return url
    folder = os.environ.get("XDG_STATE_HOME", "")
    state = Path(folder) if Path(folder).is_absolute() else Path.home() / ".local" / "state"
    return str(state / "spinewise" / "ledger.sqlite")


class Store:
    """The events of one ledger.

    Attributes:
        shown: the database, without a password.
        ledger: the ledger's id, 64 hex digits drawn when it was made; its chain of hashes begins with it.
    """

    def __init__(self, engine: sa.Engine, shown: str) -> None:
        self._engine = engine
        self.shown = shown
        self.ledger = ""

    @classmethod
    def open(cls, url: str | None = None, *, create: bool = False) -> Store:
        """The ledger at `url`; see `ledger_url` and `default_url`. One of an older version is brought up to date.

        Args:
            url: of the database, or the path of a SQLite file; None for the default.
            create: make it if there is none.

        Raises:
            InputError: there is none, or it cannot be one.
            LedgerError: it is damaged, of a newer version, or cannot be reached.
        """
        address = ledger_url(default_url() if url is None else url)
        shown = shown_url(address)
        store = cls(engine_of(address, f"ledger {shown}", create=create), shown)
        try:
            with store._connected(writes=False) as connection:
                version = ledger_schema.version(connection)
            if version == 0 and not create:
                raise InputError(
                    f"ledger {store.shown}: there is none; `spinewise ledger open` makes it with its first dataset"
                )
            if version != ledger_schema.newest():
                store._migrate()
            with store._connected(writes=False) as connection:
                store.ledger = ledger_schema.identity(connection)
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Close the connections to the database."""
        self._engine.dispose()

    def read(self) -> list[Event]:
        """All events, in order."""
        with self._connected(writes=False) as connection:
            return _read(connection)

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """One transaction with all events in view and no other writer; an error in the block undoes it."""
        with self._connected(writes=True) as connection:
            yield Writing(connection, _read(connection), self.ledger)

    def guards_missing(self) -> list[str]:
        """What should keep the table from being changed and is not there, a sentence each."""
        with self._connected(writes=False) as connection:
            present = ledger_schema.guards(connection)
        return [
            f"the table has lost its guard {name!r}, which keeps events from being changed or removed"
            for name in ledger_schema.GUARDS
            if name not in present
        ]

    def _migrate(self) -> None:
        """To the newest version, in one transaction that keeps every event, or fails and changes nothing."""
        with self._connected(writes=True) as connection:
            old = ledger_schema.version(connection)  # again, now that no other process is writing
            before = _read(connection, old) if old else []
            ledger_schema.migrate(connection, old, secrets.token_hex(32))
            after = _read(connection)
            problems = replay(ledger_schema.identity(connection), after)[1]
            if after != before or problems:
                raise LedgerError(
                    f"ledger {self.shown}: not brought from version {old} to {ledger_schema.newest()}: "
                    f"{problems[0] if problems else 'the events would have changed'}; it is as it was"
                )

    def _connected(self, *, writes: bool) -> AbstractContextManager[sa.Connection]:
        return connected(self._engine, f"ledger {self.shown}", writes=writes, lock=_LOCK)


class Writing:
    """A transaction under way.

    Attributes:
        events: all, those added here included.
    """

    def __init__(self, connection: sa.Connection, events: list[Event], ledger: str) -> None:
        self._connection = connection
        self._ledger = ledger
        self.events = events

    def add(self, event: Event) -> Event:
        """Seal the event as the next one and write it."""
        last = self.events[-1] if self.events else None
        added = sealed(event, last.number + 1 if last else 1, last.hash if last else self._ledger)
        self._connection.execute(sa.insert(_EVENTS), added.as_dict())
        self.events.append(added)
        return added


def _read(connection: sa.Connection, version: int | None = None) -> list[Event]:
    """All events; of tables of an older version, those columns that it has."""
    columns = [column for column in _EVENTS.c if column.name != "details" or version != 1]
    rows = connection.execute(sa.select(*columns).order_by(_EVENTS.c.number))
    events = []
    for row in rows:
        fields = dict(row._mapping)
        if not is_typed(fields):
            raise LedgerError("the ledger is damaged: a field of an event has another type")
        events.append(Event(**fields))
    return events
