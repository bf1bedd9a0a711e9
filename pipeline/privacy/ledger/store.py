"""Where the events are kept: an append-only table of SQLite or PostgreSQL.

A write holds the one lock there is, reads all events, or those after the verified prefix (`prefix`), and adds to them,
all in one transaction that is on disk when it ends: `BEGIN IMMEDIATE` and `synchronous = EXTRA` in SQLite, an advisory
lock and `synchronous_commit = on` in PostgreSQL. Two processes can so never both find the same part of a budget
unspent.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, overload

import sqlalchemy as sa

from geography.errors import InputError
from pipeline.privacy.ledger import schema as ledger_schema
from pipeline.privacy.ledger.chain import EventKind, is_typed
from pipeline.privacy.ledger.database import connected, engine_of, ledger_url, shown_url
from pipeline.privacy.ledger.events import DatasetState, Event, LedgerError, continued, replay, sealed
from pipeline.privacy.ledger.notes import Head
from pipeline.privacy.ledger.prefix import Prefix
from pipeline.privacy.ledger.schema import GUARDS, guards

__all__ = ["ENVIRONMENT", "Store", "Writing", "default_url", "ledger_url", "random_id", "utc_now"]

ENVIRONMENT: Final = "SPINEWISE_LEDGER"
_LOCK: Final = 0x5350494E45  # of the advisory lock, the same for all
_AT_ONCE: Final = 500  # events that are read by their numbers
_COLUMNS: Final = tuple(f.name for f in fields(Event))
_EVENTS: Final = sa.table("ledger_events", *(sa.column(name) for name in _COLUMNS))


def default_url() -> str:
    """`SPINEWISE_LEDGER` if it is set, else a file of the user's state directory (XDG base directory specification)."""
    if url := os.environ.get(ENVIRONMENT):
        return url
    folder = os.environ.get("XDG_STATE_HOME", "")
    state = Path(folder) if Path(folder).is_absolute() else Path.home() / ".local" / "state"
    return str(state / "spinewise" / "ledger.sqlite")


def utc_now() -> datetime:
    """The clock of this machine."""
    return datetime.now(UTC)


def random_id() -> str:
    """An id for a new ledger, which no other has."""
    return secrets.token_hex(32)


class Store:
    """The events of one ledger.

    Attributes:
        shown: the database, without a password.
        clock: by which events are dated, in UTC.
        ledger: the ledger's id, 64 hex digits given when it was made; its chain of hashes begins with it.
    """

    def __init__(self, engine: sa.Engine, shown: str, clock: Callable[[], datetime]) -> None:
        self._engine = engine
        self.shown = shown
        self.clock = clock
        self.ledger = ""

    @classmethod
    def open(
        cls, url: str | None = None, *, create: bool, clock: Callable[[], datetime], new_id: Callable[[], str]
    ) -> Store:
        """The ledger at `url`; see `ledger_url` and `default_url`. One of an older version is brought up to date.

        Args:
            url: of the database, or the path of a SQLite file; None for the default.
            create: make it if there is none.
            clock: by which events are dated, in UTC.
            new_id: gives the id if the ledger is made now.

        Raises:
            InputError: there is none, or it cannot be one.
            LedgerError: it is damaged, of a newer version, or cannot be reached.
        """
        address = ledger_url(default_url() if url is None else url)
        shown = shown_url(address)
        store = cls(engine_of(address, f"ledger {shown}", create=create), shown, clock)
        try:
            with store._connected(writes=False) as connection:
                version = ledger_schema.version(connection)
            if version == 0 and not create:
                raise InputError(
                    f"ledger {store.shown}: there is none; `spinewise ledger open` makes it with its first dataset"
                )
            if version != ledger_schema.newest():
                store._migrate(new_id)
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

    def last(self) -> Event | None:
        """The last event, unchecked; None if there is none."""
        with self._connected(writes=False) as connection:
            newest = sa.select(sa.func.max(_EVENTS.c.number)).scalar_subquery()
            return next(iter(_read(connection, where=_EVENTS.c.number == newest)), None)

    @contextmanager
    def writing(self, prefix: Prefix | None = None) -> Iterator[Writing]:
        """One transaction with all events in view and no other writer; an error in the block undoes it.

        Args:
            prefix: of the ledger, if one is kept. After the block the writing has the witness of what it left.
        """
        with self._connected(writes=True) as connection:
            file = Path(str(self._engine.url.database)) if connection.dialect.name == "sqlite" else None
            writing = Writing(connection, self.ledger, prefix, file, self.clock)
            yield writing
        if file is not None:
            writing.witness = file_witness(file)

    def guards_missing(self) -> list[str]:
        """What should keep the table from being changed and is not there, a sentence each."""
        with self._connected(writes=False) as connection:
            present = ledger_schema.guards(connection)
        return [
            f"the table has lost its guard {name!r}, which keeps events from being changed or removed"
            for name in ledger_schema.GUARDS
            if name not in present
        ]

    def _migrate(self, new_id: Callable[[], str]) -> None:
        """To the newest version, in one transaction that keeps every event, or fails and changes nothing."""
        with self._connected(writes=True) as connection:
            old = ledger_schema.version(connection)  # again, now that no other process is writing
            before = _read(connection, old) if old else []
            ledger_schema.migrate(connection, old, new_id())
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
        datasets: as all of these events leave them, once these were verified (`Ledger`).
        is_sound: whether what was added here passes the verification; else the next write verifies all events.
        witness: of the database as it is left; of a file "" before the end.
    """

    def __init__(
        self,
        connection: sa.Connection,
        ledger: str,
        prefix: Prefix | None,
        file: Path | None,
        clock: Callable[[], datetime],
    ) -> None:
        self._connection = connection
        self._ledger = ledger
        self._prefix = prefix
        self._file = file
        self._clock = clock
        self.events = StoredEvents(connection)
        self.datasets: dict[str, DatasetState] = {}
        self.is_sound = True
        self.witness = table_witness(connection) if file is None else ""

    def resumed(self) -> dict[str, DatasetState] | None:
        """The datasets by the verified prefix and the events after it; None where all events are to be verified."""
        prefix = self._prefix
        head = None if prefix is None else prefix.head
        if prefix is None or head is None or not self._is_untouched(head, prefix.witness):
            return None
        after = self.events.after(head.number)
        datasets = prefix.datasets()
        return None if continued(datasets, head.number, head.hash, after) else datasets

    def add(self, kind: EventKind, dataset: str, **rest: Any) -> Event:
        """Date and seal an event as the next one, write it, and let the datasets be as it leaves them."""
        event = Event(0, kind, self._clock().isoformat(timespec="seconds"), dataset, **rest)
        last = self.events[-1] if self.events else None
        number, previous = (last.number, last.hash) if last else (0, self._ledger)
        added = sealed(event, number + 1, previous)
        self._connection.execute(sa.insert(_EVENTS), added.as_dict())
        self.events.append(added)
        self.is_sound &= not continued(self.datasets, number, previous, [added])
        return added

    def _is_untouched(self, head: Head, witness: str) -> bool:
        """Whether the events up to `head` are those that were verified."""
        if self._file is not None:
            return file_witness(self._file) == witness
        if not witness or self.witness != witness:
            return False
        ends = sa.select(sa.func.min(_EVENTS.c.number), sa.func.max(_EVENTS.c.number))
        first, last = self._connection.execute(ends).one()
        kept = self._connection.execute(sa.select(_EVENTS.c.hash).where(_EVENTS.c.number == head.number)).scalar()
        return first == 1 and last >= head.number and kept == head.hash


class StoredEvents(Sequence[Event]):
    """The events of a table, of which only what is asked for is read."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._first = 0  # so many events before `_read`
        self._read: list[Event] | None = None
        self._single: dict[int, Event] = {}

    def all(self) -> list[Event]:
        """All events."""
        return self.after(0)

    def after(self, number: int) -> list[Event]:
        """The events after that number; those up to it are then read one by one."""
        if self._read is None or number != self._first:
            self._read = _read(self._connection, where=_EVENTS.c.number > number if number else None)
            self._first = number
        return self._read

    def fetch(self, numbers: Iterable[int]) -> None:
        """Read the events of these numbers together, since they will be asked for."""
        missing = sorted({number for number in numbers if 0 < number <= self._first} - self._single.keys())
        for start in range(0, len(missing), _AT_ONCE):
            found = _read(self._connection, where=_EVENTS.c.number.in_(missing[start : start + _AT_ONCE]))
            self._single |= {event.number: event for event in found}

    def append(self, event: Event) -> None:
        """Put it at the end; it is in the table."""
        self._loaded.append(event)

    @property
    def _loaded(self) -> list[Event]:
        return self.all() if self._read is None else self._read

    def __len__(self) -> int:
        loaded = self._loaded
        return self._first + len(loaded)

    @overload
    def __getitem__(self, index: int) -> Event: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Event]: ...

    def __getitem__(self, index: int | slice) -> Event | Sequence[Event]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        if place >= self._first:
            return self._loaded[place - self._first]
        self.fetch([place + 1])
        if place + 1 not in self._single:
            raise LedgerError(f"the ledger is damaged: event {place + 1} is missing")
        return self._single[place + 1]


def _read(
    connection: sa.Connection, version: int | None = None, where: sa.ColumnElement[bool] | None = None
) -> list[Event]:
    """All events, or those `where`; of tables of an older version, those columns that it has."""
    columns = [column for column in _EVENTS.c if column.name != "details" or version != 1]
    query = sa.select(*columns).order_by(_EVENTS.c.number)
    rows = connection.execute(query if where is None else query.where(where))
    events = []
    for row in rows:
        fields = dict(row._mapping)
        if not is_typed(fields):
            raise LedgerError("the ledger is damaged: a field of an event has another type")
        events.append(Event(**fields))
    return events


# -- whether the first events were touched since they were verified ---------------------------------------------------
# A file of SQLite has an inode, a size, times and a counter of changes; nobody but the administrator of the machine can
# change the file and keep its time of change (ctime). A table of PostgreSQL has guards, which let no session update or
# delete a row; whoever disables, drops or alters a guard or its function, or replaces or rewrites the table, even for a
# moment, leaves other rows in the system's catalogs: each has the transaction that wrote it (xmin). Where these are as
# they were, the events are. That takes the same time for any number of events.


_HEADER = 100  # bytes, of a file of SQLite
_WAL = 2  # the version of reading and writing by which changes are kept beside the file
#: The server and the database; the table, its file and its columns; its triggers, their functions and the language.
_CATALOG = sa.text(
    """
    SELECT (pg_control_system()).system_identifier, d.oid, c.oid, c.xmin, pg_relation_filenode(c.oid),
        (SELECT string_agg(concat(a.attnum, ':', a.xmin), ',' ORDER BY a.attnum)
         FROM pg_attribute a WHERE a.attrelid = c.oid),
        (SELECT string_agg(concat_ws(':', t.oid, t.xmin, p.oid, p.xmin, l.xmin, h.xmin), ',' ORDER BY t.oid)
         FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_language l ON l.oid = p.prolang
            LEFT JOIN pg_proc h ON h.oid = l.lanplcallfoid
         WHERE t.tgrelid = c.oid AND NOT t.tgisinternal)
    FROM pg_class c, pg_database d
    WHERE c.oid = 'ledger_events'::regclass AND d.datname = current_database()
    """
)


def file_witness(path: Path) -> str:
    """Of a file of SQLite, all of it; "" where that is not in one file, or cannot be read."""
    try:
        with path.open("rb") as file:
            header, status = file.read(_HEADER), os.fstat(file.fileno())
    except OSError:
        return ""
    if len(header) < _HEADER or _WAL in header[18:20]:
        return ""
    parts = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return " ".join(map(str, (*parts, header[24:28].hex())))


def table_witness(connection: sa.Connection) -> str:
    """Of the table of events in PostgreSQL; "" where it is not guarded.

    Taken before the events are read: what is changed after that is seen by the next one.
    """
    if not guards(connection) >= set(GUARDS):
        return ""
    return " ".join(map(str, connection.execute(_CATALOG).one()))
