"""High-water marks in a database of their own, for ledgers that several machines share.

The state folder is of one user on one machine: on another machine an older copy of a PostgreSQL ledger would pass. A
mark in the ledger's own database would be put back with it, and show nothing; so the marks are in another database,
best on another server, with a role that may insert and read, and nothing else. Marks are added, never changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa

from geography.errors import InputError
from pipeline.privacy.ledger.chain import LedgerError
from pipeline.privacy.ledger.database import connected, engine_of, ledger_url, shown_url
from pipeline.privacy.ledger.notes import Head

__all__ = ["MarksDatabase"]

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
