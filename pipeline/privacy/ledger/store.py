"""Where the events are kept: an append-only table of SQLite or PostgreSQL.

A write holds the one lock there is, reads all events, or those after the checkpoint, and adds to them, all in one
transaction that is on disk when it ends: `BEGIN IMMEDIATE` and `synchronous = EXTRA` in SQLite, an advisory
lock and `synchronous_commit = on` in PostgreSQL. Two processes can so never both find the same part of a budget
unspent.

The databases in which a ledger and its marks can be: a file of SQLite, or PostgreSQL.

The tables of the ledger, in SQLite and PostgreSQL, and the guards that keep events from being changed or removed.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from geography.errors import InputError
from pipeline.privacy.ledger.dataset import DatasetState, continued, note, replay
from pipeline.privacy.ledger.events import COMMITTED, Event, EventKind, LedgerError, is_typed, sealed
from pipeline.privacy.ledger.notes import Checkpoint, Head, state_home

if TYPE_CHECKING:
    from pipeline.privacy.ledger.charges import Charge


from dataclasses import fields

from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from pipeline.storage.durable import make_folder

_WAIT_SECONDS: Final = 60  # for another process's transaction
_WRITES: Final = "spinewise_writes"


def ledger_url(text: str) -> sa.URL:
    """The database that `text` names: a file's path, `sqlite:///path` or `postgresql://user@host/database`.

    Raises:
        InputError: it names none that can hold a ledger.
    """
    if "://" not in text:
        return sa.URL.create("sqlite", database=str(Path(text).expanduser().absolute()))
    try:
        url = sa.make_url(text)
    except ArgumentError:
        raise InputError("ledger: the URL given is none; allowed are sqlite:///PATH and postgresql://...") from None
    kind = url.get_backend_name()
    if kind == "sqlite":
        if url.database in (None, "", ":memory:") or url.query:
            raise InputError(f"ledger {text}: a file is needed, such as sqlite:///ledger.sqlite, without options")
        return sa.URL.create("sqlite", database=str(Path(str(url.database)).absolute()))
    if kind == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    raise InputError(f"ledger {shown_url(url)}: found a {kind} database; allowed are sqlite and postgresql")


def engine_of(url: sa.URL, *, create: bool) -> sa.Engine:
    """Connections to the database.

    Args:
        url: of `ledger_url`.
        create: make the file of a SQLite database that is not there, mode 0600; SQLite's would have the default mode.

    Raises:
        InputError: there is no such file, or no library for the database.
    """
    where = f"ledger {shown_url(url)}"
    if url.get_backend_name() == "sqlite":
        path = Path(str(url.database))
        try:
            if create:
                make_folder(path.parent, private=True)
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            elif not path.is_file():
                raise InputError(f"{where}: there is none; `spinewise ledger open` makes it with its first dataset")
        except OSError as error:
            raise InputError(f"{where}: cannot be opened ({error.strerror})") from None
        engine = sa.create_engine(
            url, poolclass=sa.NullPool, connect_args={"timeout": _WAIT_SECONDS, "isolation_level": None}
        )
        sa.event.listen(engine, "connect", _on_connect)
        sa.event.listen(engine, "begin", _on_begin)
        return engine
    try:
        return sa.create_engine(url, poolclass=sa.NullPool, isolation_level="READ COMMITTED")
    except (ModuleNotFoundError, NoSuchModuleError):
        raise InputError(f'{where}: PostgreSQL needs the package psycopg: pip install "psycopg[binary]>=3.2"') from None


def _on_connect(connection: object, _record: object) -> None:
    cursor = connection.cursor()  # type: ignore[attr-defined]
    cursor.execute("PRAGMA synchronous = EXTRA")
    cursor.close()


def _on_begin(connection: sa.Connection) -> None:
    # The driver's own BEGIN would come with the first change, after the events were read.
    writes = connection.get_execution_options().get(_WRITES, True)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def shown_url(url: sa.URL) -> str:
    """The file or database, without a password."""
    return str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)


_VERSION: Final = 4
_TABLES: Final = sa.MetaData()
_ABOUT: Final = sa.Table(
    "ledger_about",
    _TABLES,
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("ledger", sa.Text, nullable=False),
)
EVENTS: Final = sa.Table(
    "ledger_events",
    _TABLES,
    *(
        sa.Column(
            field.name,
            sa.BigInteger if field.name in ("number", "count") else sa.Text,
            primary_key=field.name == "number",
            autoincrement=False,
            nullable=False,
            unique=field.name in ("previous", "hash"),
        )
        for field in fields(Event)
    ),
)
#: Which events are uses of keys, which are periods, and where the first state the key, as the indexes have it.
KEY: Final = sa.text("kind = 'key'")
PERIOD: Final = sa.text("kind = 'period'")
KEY_START: Final = sa.func.substr(EVENTS.c.details, sa.literal_column("1"), sa.literal_column(str(COMMITTED)))


_STATED: Final = ("kind", "dataset", "run", "level", "query")


def _index(
    name: str, columns: Sequence[str | sa.ColumnElement[str]], where: sa.TextClause | None = None, *, once: bool = False
) -> None:
    """Give the events an index, of those `where`; `once` if no two may have the same values."""
    placed = [EVENTS.c[column] if isinstance(column, str) else column for column in columns]
    sa.Index(f"ledger_events_{name}", *placed, unique=once, sqlite_where=where, postgresql_where=where)


_index("once", _STATED, sa.text("kind IN ('open', 'charge', 'commit', 'close')"), once=True)
_index("stated_once", (*_STATED, "details"), sa.text("kind IN ('exact', 'key')"), once=True)
# By which a charge finds its run, its key and its period.
_index("run", ["run"])
_index("key", [KEY_START], KEY)
_index("period", ["count"], PERIOD)

_SAID: Final = "events of the ledger are never changed or removed"
_REFUSAL: Final = f" BEGIN RAISE EXCEPTION '{_SAID}'; END "
GUARDS: Final = ("ledger_events_no_update", "ledger_events_no_delete")
_MADE: Final = {
    "sqlite": tuple(
        f"CREATE TRIGGER ledger_events_no_{what} BEFORE {what.upper()} ON ledger_events "
        f"BEGIN SELECT RAISE(ABORT, '{_SAID}'); END"
        for what in ("update", "delete")
    ),
    "postgresql": (
        f"CREATE FUNCTION ledger_events_refuse() RETURNS trigger LANGUAGE plpgsql AS $${_REFUSAL}$$",
        "CREATE TRIGGER ledger_events_no_update BEFORE UPDATE ON ledger_events "
        "FOR EACH STATEMENT EXECUTE FUNCTION ledger_events_refuse()",
        "CREATE TRIGGER ledger_events_no_delete BEFORE DELETE OR TRUNCATE ON ledger_events "
        "FOR EACH STATEMENT EXECUTE FUNCTION ledger_events_refuse()",
        # No session can set these aside, not even one that replicates.
        *(f"ALTER TABLE ledger_events ENABLE ALWAYS TRIGGER {name}" for name in GUARDS),
    ),
}
#: The guards of PostgreSQL that do what they should: before a statement (2) that is an UPDATE (16), or a DELETE (8) or
#: TRUNCATE (32), always, without a condition, a function is called that refuses.
_POSTGRESQL_GUARDED: Final = """
    SELECT t.tgname FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_language l ON l.oid = p.prolang
    WHERE t.tgrelid = 'ledger_events'::regclass AND NOT t.tgisinternal AND t.tgenabled = 'A'
        AND t.tgqual IS NULL AND t.tgattr = '' AND t.tgtype = CASE t.tgname
            WHEN 'ledger_events_no_update' THEN 18 WHEN 'ledger_events_no_delete' THEN 42 END
        AND l.lanname = 'plpgsql' AND p.prosrc = :refusal AND p.proconfig IS NULL
"""


def identity(connection: sa.Connection) -> str:
    """The ledger's id; "" where there are no tables. LedgerError if they are of another version or damaged."""
    if not sa.inspect(connection).has_table(_ABOUT.name):
        return ""
    rows = connection.execute(sa.select(_ABOUT)).all()
    if len(rows) != 1:
        raise LedgerError(f"the ledger is damaged: ledger_about has {len(rows)} rows, one is needed")
    version, ledger = rows[0]
    if not isinstance(version, int):
        raise LedgerError("the ledger is damaged: ledger_about has no whole number as its version")
    if version != _VERSION:
        raise LedgerError(f"the ledger has version {version}; this software reads version {_VERSION} alone")
    return str(ledger)


def make(connection: sa.Connection, ledger: str) -> None:
    """Make the tables of a ledger with that id, within a transaction."""
    _TABLES.create_all(connection)
    for statement in _MADE[connection.dialect.name]:
        connection.execute(sa.text(statement))
    connection.execute(sa.insert(_ABOUT), {"version": _VERSION, "ledger": ledger})


def damage(connection: sa.Connection) -> list[str]:
    """What is wrong with a file of SQLite, a sentence: a wrong index would hide events from a charge."""
    if connection.dialect.name != "sqlite":
        return []
    found = connection.execute(sa.text("PRAGMA integrity_check(1)")).scalar_one()
    return [] if found == "ok" else [f"the file of the database: {' '.join(found.split())}"]


def guards(connection: sa.Connection) -> set[str]:
    """The guards that exist, are enabled, and do what they should."""
    if connection.dialect.name == "sqlite":
        query = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'ledger_events'"
        return set(connection.execute(sa.text(query)).scalars())
    return set(connection.execute(sa.text(_POSTGRESQL_GUARDED), {"refusal": _REFUSAL}).scalars())


ENVIRONMENT: Final = "SPINEWISE_LEDGER"
_LOCK: Final = 0x5350494E45  # of the advisory lock, the same for all
_AT_ONCE: Final = 500  # values that are looked for


def default_url() -> str:
    """`SPINEWISE_LEDGER` if it is set, else a file of the user's state folder."""
    return os.environ.get(ENVIRONMENT) or str(state_home() / "ledger.sqlite")


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
        """The ledger at `url`; see `ledger_url` and `default_url`.

        Args:
            url: of the database, or the path of a SQLite file; None for the default.
            create: make it if there is none.
            clock: by which events are dated, in UTC.
            new_id: gives the id if the ledger is made now.

        Raises:
            InputError: there is none, or it cannot be one.
            LedgerError: it is damaged, of another version, or cannot be reached.
        """
        address = ledger_url(default_url() if url is None else url)
        store = cls(engine_of(address, create=create), shown_url(address), clock)
        try:
            with store._connected(writes=False) as connection:
                store.ledger = identity(connection)
            if not store.ledger and not create:
                raise InputError(
                    f"ledger {store.shown}: there is none; `spinewise ledger open` makes it with its first dataset"
                )
            if not store.ledger:
                with store._connected(writes=True) as connection:
                    if not identity(connection):  # again, now that no other process is writing
                        make(connection, new_id())
                    store.ledger = identity(connection)
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
            newest = sa.select(sa.func.max(EVENTS.c.number)).scalar_subquery()
            return next(iter(_read(connection, EVENTS.c.number == newest)), None)

    @contextmanager
    def writing(self, checkpoint: Checkpoint | None = None) -> Iterator[Writing]:
        """One transaction with all events in view and no other writer; an error in the block undoes it.

        Args:
            checkpoint: of the ledger, if there is one. After the block the writing has the witness of what it left.
        """
        with self._connected(writes=True) as connection:
            file = Path(str(self._engine.url.database)) if connection.dialect.name == "sqlite" else None
            writing = Writing(connection, self.ledger, checkpoint, file, self.clock)
            yield writing
        if file is not None:
            writing.witness = file_witness(file)

    def problems(self) -> list[str]:
        """What is wrong with the file, and which guards of the table are not there, a sentence each."""
        with self._connected(writes=False) as connection:
            present, found = guards(connection), damage(connection)
        return found + [
            f"the table has lost its guard {name!r}, which keeps events from being changed or removed"
            for name in GUARDS
            if name not in present
        ]

    @contextmanager
    def _connected(self, *, writes: bool) -> Iterator[sa.Connection]:
        """A connection in a transaction that is committed at the end of the block.

        Args:
            writes: whether no other connection may write until then.

        Raises:
            LedgerError: the database cannot be reached, refuses, or is damaged.
        """
        where = f"ledger {self.shown}"
        try:
            with self._engine.connect().execution_options(**{_WRITES: writes}) as connection, connection.begin():
                if writes and connection.dialect.name == "postgresql":
                    # The statements after the lock see what its last holder has committed.
                    connection.execute(sa.text(f"SET LOCAL lock_timeout = '{_WAIT_SECONDS}s'"))
                    connection.execute(sa.text("SET LOCAL synchronous_commit = on"))
                    connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
                yield connection
        except DBAPIError as error:
            raise LedgerError(f"{where}: {str(error.orig).strip()}") from error
        except SQLAlchemyError as error:
            raise LedgerError(f"{where}: {error}") from error
        except UnicodeDecodeError as error:
            raise LedgerError(f"{where}: is damaged: some of its text cannot be read") from error


class Writing:
    """A transaction under way.

    Attributes:
        head: the last event, those added here included, once `resume` or `replay` has found it.
        datasets: as all of these events leave them.
        is_sound: whether what was added here passes the verification; else the next write verifies all events.
        witness: of the database as it is left; of a file "" before the end.
    """

    def __init__(
        self,
        connection: sa.Connection,
        ledger: str,
        checkpoint: Checkpoint | None,
        file: Path | None,
        clock: Callable[[], datetime],
    ) -> None:
        self._connection = connection
        self._checkpoint = checkpoint
        self._file = file
        self._clock = clock
        self.head = Head(ledger, 0, ledger)
        self.datasets: dict[str, DatasetState] = {}
        self.is_sound = True
        self.witness = table_witness(connection) if file is None else ""

    def resume(self, charges: Sequence[Charge]) -> bool:
        """Find head and datasets by the checkpoint and the events after it, as far as the charges concern them.

        Args:
            charges: of the runs, keys and series that will be asked for.

        Returns:
            Whether that could be; if not, all events are to be verified.
        """
        kept = self._checkpoint
        if kept is None or not self._is_untouched(kept.head, kept.witness):
            return False
        after = _read(self._connection, EVENTS.c.number > kept.head.number)
        datasets: dict[str, DatasetState] = {}
        for event in self._concerning(kept, charges, after):
            note(datasets, event)
        kept.restore(datasets)
        if continued(datasets, kept.head.number, kept.head.hash, after):
            return False
        self.datasets, self.head = datasets, head_of(kept.head.ledger, after) if after else kept.head
        return True

    def replay(self) -> list[str]:
        """Find head and datasets by all events; their problems, a sentence each."""
        events = _read(self._connection)
        self.datasets, problems = replay(self.head.ledger, events)
        self.head = head_of(self.head.ledger, events)
        return problems + damage(self._connection)

    def hashes(self, numbers: Iterable[int]) -> dict[int, str]:
        """The hashes of the events of these numbers, those of them that there are."""
        return {event.number: event.hash for event in self._among(EVENTS.c.number, numbers)}

    def add(self, kind: EventKind, dataset: str, **rest: Any) -> Event:
        """Date and seal an event as the next one, write it, and let the datasets be as it leaves them."""
        event = Event(0, kind, self._clock().isoformat(timespec="seconds"), dataset, **rest)
        added = sealed(event, self.head.number + 1, self.head.hash)
        self._connection.execute(sa.insert(EVENTS), added.as_dict())
        self.is_sound &= not continued(self.datasets, self.head.number, self.head.hash, [added])
        self.head = Head(self.head.ledger, added.number, added.hash)
        return added

    def _concerning(self, kept: Checkpoint, charges: Sequence[Charge], after: Sequence[Event]) -> list[Event]:
        """The events up to the checkpoint that charges, and events after it, build on; in order."""
        runs = {charge.run for charge in charges} | {event.run for event in after if event.run}
        keys = {charge.key.details()[:COMMITTED] for charge in charges if charge.key is not None}
        keys |= {event.details[:COMMITTED] for event in after if event.kind == "key"}
        periods = {charge.series.number for charge in charges if charge.series is not None}
        ways = sa.select(sa.func.min(EVENTS.c.number)).group_by(EVENTS.c.dataset, EVENTS.c.details)
        uses = [
            number
            for some in _portions(keys)
            for number in self._connection.execute(ways.where(KEY, KEY_START.in_(some))).scalars()
        ]
        found = {
            *self._among(EVENTS.c.number, kept.standing().union(uses)),
            *self._among(EVENTS.c.run, runs),
            *self._among(EVENTS.c.count, periods, PERIOD),
        }
        return sorted((one for one in found if one.number <= kept.head.number), key=lambda event: event.number)

    def _among(self, column: sa.Column[Any], values: Iterable[Any], *only: sa.TextClause) -> Iterator[Event]:
        """The events that have one of the values in a column."""
        for some in _portions(values):
            yield from _read(self._connection, column.in_(some), *only)

    def _is_untouched(self, head: Head, witness: str) -> bool:
        """Whether the events up to `head` are those that were verified."""
        if self._file is not None:
            return file_witness(self._file) == witness
        if not witness or self.witness != witness:
            return False
        ends = sa.select(sa.func.min(EVENTS.c.number), sa.func.max(EVENTS.c.number))
        first, last = self._connection.execute(ends).one()
        return first == 1 and last >= head.number and self.hashes([head.number]) == {head.number: head.hash}


def _portions(values: Iterable[Any]) -> Iterator[list[Any]]:
    """The values in order, so many at once as a statement may have."""
    asked = sorted(values)
    return (asked[start : start + _AT_ONCE] for start in range(0, len(asked), _AT_ONCE))


def head_of(ledger: str, events: Sequence[Event]) -> Head:
    """The last of a ledger's events."""
    return Head(ledger, events[-1].number, events[-1].hash) if events else Head(ledger, 0, ledger)


def _read(connection: sa.Connection, *where: sa.ColumnElement[bool] | sa.TextClause) -> list[Event]:
    """All events, or those `where`."""
    events = []
    for row in connection.execute(sa.select(EVENTS).where(*where).order_by(EVENTS.c.number)):
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
    WHERE c.oid = 'ledger_events'::regclass AND d.datname = current_database() AND NOT c.relrowsecurity
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
    """Of the table of events in PostgreSQL; "" where it is not guarded, or a policy may hide rows.

    Taken before the events are read: what is changed after that is seen by the next one.
    """
    if not guards(connection) >= set(GUARDS):
        return ""
    return " ".join(map(str, connection.execute(_CATALOG).first() or ()))
