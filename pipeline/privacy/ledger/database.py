"""The databases in which a ledger and its marks can be: a file of SQLite, or PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from geography.errors import InputError
from pipeline.privacy.ledger.chain import LedgerError
from pipeline.storage.durable import make_folder

__all__ = ["connected", "engine_of", "ledger_url", "shown_url"]

_WAIT_SECONDS: Final = 60  # for another process's transaction
_WRITES: Final = "spinewise_writes"


def ledger_url(text: str, what: str = "ledger") -> sa.URL:
    """The database that `text` names: a file's path, `sqlite:///path` or `postgresql://user@host/database`.

    Args:
        text: a path or a URL.
        what: the name that messages give it.

    Raises:
        InputError: it names none that can hold a ledger.
    """
    if "://" not in text:
        return sa.URL.create("sqlite", database=str(Path(text).expanduser().absolute()))
    try:
        url = sa.make_url(text)
    except ArgumentError:
        raise InputError(f"{what}: the URL given is none; allowed are sqlite:///PATH and postgresql://...") from None
    kind = url.get_backend_name()
    if kind == "sqlite":
        if url.database in (None, "", ":memory:") or url.query:
            raise InputError(f"{what} {text}: a file is needed, such as sqlite:///{what}.sqlite, without options")
        return sa.URL.create("sqlite", database=str(Path(str(url.database)).absolute()))
    if kind == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    raise InputError(f"{what} {shown_url(url)}: found a {kind} database; allowed are sqlite and postgresql")


@contextmanager
def connected(engine: sa.Engine, shown: str, *, writes: bool, lock: int) -> Iterator[sa.Connection]:
    """A connection in a transaction that is committed at the end of the block.

    Args:
        engine: of `engine_of`.
        shown: what messages call the database.
        writes: whether no other connection may write until then.
        lock: number of the advisory lock that stands for it in PostgreSQL.

    Raises:
        LedgerError: the database cannot be reached, refuses, or is damaged.
    """
    try:
        with engine.connect().execution_options(**{_WRITES: writes}) as connection, connection.begin():
            if writes and connection.dialect.name == "postgresql":
                # The statements after the lock see what its last holder has committed.
                connection.execute(sa.text(f"SET LOCAL lock_timeout = '{_WAIT_SECONDS}s'"))
                connection.execute(sa.text("SET LOCAL synchronous_commit = on"))
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": lock})
            yield connection
    except DBAPIError as error:
        raise LedgerError(f"{shown}: {str(error.orig).strip()}") from error
    except SQLAlchemyError as error:
        raise LedgerError(f"{shown}: {error}") from error
    except UnicodeDecodeError as error:
        raise LedgerError(f"{shown}: is damaged: some of its text cannot be read") from error


def engine_of(url: sa.URL, shown: str, *, create: bool) -> sa.Engine:
    """Connections to the database.

    Args:
        url: of `ledger_url`.
        shown: what messages call the database.
        create: make the file of a SQLite database that is not there.

    Raises:
        InputError: there is no such file, or no library for the database.
    """
    if url.get_backend_name() == "sqlite":
        _prepare_file(Path(str(url.database)), shown, create=create)
        engine = sa.create_engine(
            url, poolclass=sa.NullPool, connect_args={"timeout": _WAIT_SECONDS, "isolation_level": None}
        )
        sa.event.listen(engine, "connect", _on_connect)
        sa.event.listen(engine, "begin", _on_begin)
        return engine
    try:
        return sa.create_engine(url, poolclass=sa.NullPool, isolation_level="READ COMMITTED")
    except (ModuleNotFoundError, NoSuchModuleError):
        raise InputError(f'{shown}: PostgreSQL needs the package psycopg: pip install "psycopg[binary]>=3.2"') from None


def _prepare_file(path: Path, shown: str, *, create: bool) -> None:
    """Make the file, mode 0600, or verify that it exists: SQLite would create it with the default mode."""
    try:
        if create:
            make_folder(path.parent, private=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        elif not path.is_file():
            raise InputError(f"{shown}: there is none; `spinewise ledger open` makes it with its first dataset")
    except OSError as error:
        raise InputError(f"{shown}: cannot be opened ({error.strerror})") from None


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
