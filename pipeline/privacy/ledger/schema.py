"""The tables of the ledger and their versions.

Version n is made from version n - 1 by the n-th of `MIGRATIONS`, plain statements that are never edited once released;
version 1 is made from nothing. All that are needed run in one transaction (both databases can roll back a change of
tables), so that a ledger is at one version or another and never in between. Events are never rewritten: their hashes
would not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import sqlalchemy as sa

from pipeline.privacy.ledger.chain import LedgerError

__all__ = ["GUARDS", "MIGRATIONS", "guards", "identity", "migrate", "newest", "version"]

GUARDS: Final = ("ledger_events_no_update", "ledger_events_no_delete")

_TABLES = (
    "CREATE TABLE ledger_about (version INTEGER NOT NULL, ledger TEXT NOT NULL)",
    """CREATE TABLE ledger_events (
        number BIGINT NOT NULL PRIMARY KEY,
        kind TEXT NOT NULL,
        time TEXT NOT NULL,
        dataset TEXT NOT NULL,
        population TEXT NOT NULL,
        framework TEXT NOT NULL,
        neighbours TEXT NOT NULL,
        budget TEXT NOT NULL,
        run TEXT NOT NULL,
        release TEXT NOT NULL,
        level TEXT NOT NULL,
        query TEXT NOT NULL,
        mechanism TEXT NOT NULL,
        scale TEXT NOT NULL,
        count BIGINT NOT NULL,
        cost TEXT NOT NULL,
        previous TEXT NOT NULL UNIQUE,
        hash TEXT NOT NULL UNIQUE
    )""",
    "CREATE UNIQUE INDEX ledger_events_once ON ledger_events (kind, dataset, run, level, query)",
    "INSERT INTO ledger_about (version, ledger) VALUES (0, :ledger)",
)
_SQLITE_GUARDS = tuple(
    f"CREATE TRIGGER ledger_events_no_{what} BEFORE {what.upper()} ON ledger_events "
    "BEGIN SELECT RAISE(ABORT, 'events of the ledger are never changed or removed'); END"
    for what in ("update", "delete")
)
_REFUSAL = " BEGIN RAISE EXCEPTION 'events of the ledger are never changed or removed'; END "
_POSTGRESQL_GUARDS = (
    f"CREATE FUNCTION ledger_events_refuse() RETURNS trigger LANGUAGE plpgsql AS $${_REFUSAL}$$",
    "CREATE TRIGGER ledger_events_no_update BEFORE UPDATE ON ledger_events "
    "FOR EACH STATEMENT EXECUTE FUNCTION ledger_events_refuse()",
    "CREATE TRIGGER ledger_events_no_delete BEFORE DELETE OR TRUNCATE ON ledger_events "
    "FOR EACH STATEMENT EXECUTE FUNCTION ledger_events_refuse()",
)

#: Each event states more than the columns hold; what must stand there once is so for the first kinds only.
_DETAILS = (
    "ALTER TABLE ledger_events ADD COLUMN details TEXT NOT NULL DEFAULT ''",
    "DROP INDEX ledger_events_once",
    "CREATE UNIQUE INDEX ledger_events_once ON ledger_events (kind, dataset, run, level, query) "
    "WHERE kind IN ('open', 'charge', 'commit', 'close')",
    "CREATE UNIQUE INDEX ledger_events_stated_once ON ledger_events (kind, dataset, run, level, query, details) "
    "WHERE kind IN ('exact', 'key')",
)

#: Guards of PostgreSQL that no session can set aside, not even one that replicates.
_ALWAYS = tuple(f"ALTER TABLE ledger_events ENABLE ALWAYS TRIGGER {name}" for name in GUARDS)

#: Statements by dialect; `:ledger` stands for a new ledger's id.
MIGRATIONS: tuple[Mapping[str, tuple[str, ...]], ...] = (
    {"sqlite": _TABLES + _SQLITE_GUARDS, "postgresql": _TABLES + _POSTGRESQL_GUARDS},
    {"sqlite": _DETAILS, "postgresql": _DETAILS},
    {"sqlite": (), "postgresql": _ALWAYS},
)
#: The guards of PostgreSQL that do what they should: before a statement (2) that is an UPDATE (16), or a DELETE (8) or
#: TRUNCATE (32), always, without a condition, a function is called that refuses.
_POSTGRESQL_GUARDED = """
    SELECT t.tgname FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_language l ON l.oid = p.prolang
    WHERE t.tgrelid = 'ledger_events'::regclass AND NOT t.tgisinternal AND t.tgenabled = 'A'
        AND t.tgqual IS NULL AND t.tgattr = '' AND t.tgtype = CASE t.tgname
            WHEN 'ledger_events_no_update' THEN 18 WHEN 'ledger_events_no_delete' THEN 42 END
        AND l.lanname = 'plpgsql' AND p.prosrc = :refusal AND p.proconfig IS NULL
"""


def newest() -> int:
    """The version that this software makes and needs."""
    return len(MIGRATIONS)


def version(connection: sa.Connection) -> int:
    """Of the tables there; 0 where there are none. LedgerError if it is newer than this software."""
    if not sa.inspect(connection).has_table("ledger_about"):
        return 0
    versions = connection.execute(sa.text("SELECT version FROM ledger_about")).scalars().all()
    if len(versions) != 1:
        raise LedgerError(f"the ledger is damaged: ledger_about has {len(versions)} rows, one is needed")
    if not isinstance(versions[0], int):
        raise LedgerError("the ledger is damaged: ledger_about has no whole number as its version")
    if versions[0] > newest():
        raise LedgerError(
            f"the ledger has version {versions[0]}; this software knows versions up to {newest()}: use a newer one"
        )
    return int(versions[0])


def identity(connection: sa.Connection) -> str:
    """The ledger's id."""
    return str(connection.execute(sa.text("SELECT ledger FROM ledger_about")).scalar_one())


def migrate(connection: sa.Connection, old: int, ledger: str) -> None:
    """Bring the tables from version `old` to the newest.

    Args:
        connection: within a transaction.
        old: the version of the tables, 0 if there are none.
        ledger: the id, if the ledger is made now.
    """
    for number in range(old, newest()):
        for statement in MIGRATIONS[number][connection.dialect.name]:
            values = {"ledger": ledger} if ":ledger" in statement else {}
            connection.execute(sa.text(statement), values)
    connection.execute(sa.text("UPDATE ledger_about SET version = :version"), {"version": newest()})


def guards(connection: sa.Connection) -> set[str]:
    """The guards that exist, are enabled, and do what they should."""
    if connection.dialect.name == "sqlite":
        query = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'ledger_events'"
        return set(connection.execute(sa.text(query)).scalars())
    return set(connection.execute(sa.text(_POSTGRESQL_GUARDED), {"refusal": _REFUSAL}).scalars())
