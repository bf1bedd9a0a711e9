"""Query results of databases as Parquet files: from then on tables like any other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import InputError
from pipeline.missing import install_command
from pipeline.storage.paths import local_name


def write_batches(batches: Iterator[pa.RecordBatch], target: Path) -> int:
    """Write batches to an existing file, which is written over; without one it stays as it is. Returns the rows.

    The columns are those of the first batch.
    """
    n_rows = 0
    if (first := next(batches, None)) is not None:
        with pq.ParquetWriter(local_name(target), first.schema, compression="zstd") as writer:
            for batch in chain([first], batches):
                writer.write_batch(batch)
                n_rows += batch.num_rows
    return n_rows


_ROWS_AT_ONCE = 100_000
_POSTGRESQL = ("postgresql://", "postgres://")
_DUCKDB = (".duckdb", ".ddb")
_SQLITE = (".sqlite", ".sqlite3")
#: A file of either kind.
_EITHER = ".db"
_SQLITE_START = b"SQLite format 3\0"
#: The first statement of a session, so that no query changes anything; PostgreSQL knows it by an option.
_ONLY_READING = {
    "sqlite": "PRAGMA query_only = ON",
    "mysql": "SET SESSION TRANSACTION READ ONLY",
    "mariadb": "SET SESSION TRANSACTION READ ONLY",
}
#: A DuckDB in memory, for queries over files.
_IN_MEMORY = "duckdb:"


def is_database(source: str) -> bool:
    """Whether `source` is a database to be queried, not a table's file."""
    return "://" in source or source.startswith(_IN_MEMORY) or source.lower().endswith((*_DUCKDB, *_SQLITE, _EITHER))


def describe_source(source: str) -> str:
    """What a message and a spec may call the source; never a password."""
    if source.startswith(_POSTGRESQL):
        return "a PostgreSQL database"
    if "://" in source:
        return f"a database ({source.partition('://')[0].partition('+')[0]})"
    return "DuckDB" if source == _IN_MEMORY else source


def _is_duckdb(source: str) -> bool:
    if "://" in source or source.lower().endswith(_SQLITE):
        return False
    if source.lower().endswith(_EITHER) and Path(source).is_file():
        with Path(source).open("rb") as file:
            return file.read(len(_SQLITE_START)) != _SQLITE_START
    return True


def fetch(source: str, query: str, target: Path) -> None:
    """Write the result of a query, without reading all of it into memory.

    Args:
        source: a DuckDB or SQLite file, "duckdb:" for queries over files, or a URL that SQLAlchemy knows.
        query: one SELECT; the database is opened for reading only.
        target: an existing file, which is written over.

    Raises:
        InputError: the database's library is not installed, it cannot be reached, or the query fails or has no rows.
    """

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in (_duckdb_batches if _is_duckdb(source) else _sql_batches)(source, query):
            if twice := [name for name in batch.schema.names if batch.schema.names.count(name) > 1]:
                raise InputError(f"{describe_source(source)}: the query has two columns {twice[0]!r}; name them apart")
            yield batch

    if not write_batches(batches(), target):
        raise InputError(f"{describe_source(source)}: the query has no rows; at least one record is needed")


def _duckdb_batches(source: str, query: str) -> Iterator[pa.RecordBatch]:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise InputError(f"queries of DuckDB need duckdb: {install_command('duckdb')}") from None
    in_memory = source == _IN_MEMORY
    if not in_memory and not Path(source).is_file():
        raise InputError(f"{source}: no such file; a DuckDB database is needed")
    try:
        with duckdb.connect(
            ":memory:" if in_memory else local_name(Path(source)), read_only=not in_memory
        ) as connection:
            relation: Any = connection.sql(query)
            if relation is None:
                raise InputError(f"{describe_source(source)}: the query gives no rows; a SELECT is needed")
            for batch in relation.to_arrow_reader(_ROWS_AT_ONCE):
                yield _plain(batch)
    except (duckdb.OutOfMemoryException, pa.ArrowMemoryError):
        raise MemoryError from None
    except (duckdb.Error, pa.ArrowException) as error:
        raise InputError(f"{describe_source(source)}: {first_line(error)}") from error


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with decimals of scale 0, as sums are, as whole numbers, and dates as text."""
    columns = []
    for column in batch.columns:
        kind = column.type
        if pa.types.is_decimal(kind) and kind.scale == 0 and kind.precision <= 38:
            column = column.cast(pa.int64(), safe=True)
        elif pa.types.is_temporal(kind):
            column = column.cast(pa.string())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _url_of(source: str) -> str:
    """The URL for SQLAlchemy: of a SQLite file for reading only, of PostgreSQL with the driver that is here."""
    if source.startswith(_POSTGRESQL):
        return source.replace("postgres://", "postgresql://", 1)
    if "://" not in source:
        if not Path(source).is_file():
            raise InputError(f"{source}: no such file; a SQLite database is needed")
        return f"sqlite:///file:{quote(str(Path(source).resolve()))}?mode=ro&uri=true"
    return source


def _sql_batches(source: str, query: str) -> Iterator[pa.RecordBatch]:
    """Rows as text columns, as a CSV file would have them; by a cursor on the server, and nothing is ever committed."""
    import sqlalchemy as sa

    name = describe_source(source)
    postgresql = source.startswith(_POSTGRESQL)
    try:
        url = sa.make_url(_url_of(source))
        if postgresql:
            url = url.set(drivername="postgresql+psycopg")
        engine = sa.create_engine(url, poolclass=sa.NullPool)
    except ModuleNotFoundError as error:
        if postgresql:
            raise InputError(f"queries of PostgreSQL need psycopg: {install_command('psycopg')}") from None
        raise InputError(f"{name}: its driver is not installed: pip install {error.name}") from None
    except (sa.exc.ArgumentError, ValueError):
        raise InputError(
            f"{name}: the URL is none that SQLAlchemy knows; such as postgresql://USER@HOST/DATABASE or "
            "mysql+pymysql://USER@HOST/DATABASE is needed"
        ) from None
    options: dict[str, Any] = {"stream_results": True, **({"postgresql_readonly": True} if postgresql else {})}
    try:
        with engine.connect().execution_options(**options) as connection:
            if (only_reading := _ONLY_READING.get(engine.dialect.name)) is not None:
                connection.exec_driver_sql(only_reading)
            text = query.replace("%", "%%") if engine.dialect.paramstyle in ("format", "pyformat") else query
            result = connection.execution_options(yield_per=_ROWS_AT_ONCE).exec_driver_sql(text)
            if not result.returns_rows:
                raise InputError(f"{name}: the query gives no rows; a SELECT is needed")
            names = list(result.keys())
            rows = iter(result)
            while part := list(islice(rows, _ROWS_AT_ONCE)):
                columns = [pa.array([_text(row[i]) for row in part], pa.string()) for i in range(len(names))]
                yield pa.RecordBatch.from_arrays(columns, names=names)
            connection.rollback()
    except sa.exc.SQLAlchemyError as error:
        raise InputError(f"{name}: {first_line(getattr(error, 'orig', None) or error)}") from None


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def first_line(error: object) -> str:
    """The first line of a library's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
