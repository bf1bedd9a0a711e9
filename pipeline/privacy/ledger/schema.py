"""The tables of the ledger, in SQLite and PostgreSQL, and the guards that keep events from being changed or removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Final

import sqlalchemy as sa

from pipeline.privacy.ledger.chain import Event, LedgerError
from pipeline.privacy.ledger.key_uses import COMMITTED

__all__ = ["EVENTS", "GUARDS", "KEY", "KEY_START", "PERIOD", "damage", "guards", "identity", "make"]

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
