"""Query results of DuckDB and PostgreSQL, as Parquet files; from then on they are tables like any other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import InputError

_ROWS_AT_ONCE = 100_000
_POSTGRESQL = ("postgresql://", "postgres://")
_DUCKDB = (".duckdb", ".ddb", ".db")
#: A DuckDB in memory, for queries over files.
_IN_MEMORY = "duckdb:"


def is_database(source: str) -> bool:
    """Whether `source` is a database to be queried, not a table's file."""
    return source.startswith((*_POSTGRESQL, _IN_MEMORY)) or source.lower().endswith(_DUCKDB)


def describe_source(source: str) -> str:
    """What a message and a spec may call the source; never a password."""
    if source.startswith(_POSTGRESQL):
        return "a PostgreSQL database"
    return "DuckDB" if source == _IN_MEMORY else source


def fetch(source: str, query: str, target: Path) -> int:
    """Write the result of a query, without reading it into memory at once; the number of rows.

    Args:
        source: a DuckDB file, "duckdb:" for queries over files, or a postgresql:// URL.
        query: one SELECT; the database is opened for reading only.
        target: an existing file, which is written over.

    Raises:
        InputError: the database's library is not installed, it cannot be reached, or the query fails or has no rows.
    """
    open_batches = _postgresql_batches if source.startswith(_POSTGRESQL) else _duckdb_batches
    n_rows = 0
    writer: pq.ParquetWriter | None = None
    try:
        for batch in open_batches(source, query):
            if writer is None:
                twice = [name for name in batch.schema.names if batch.schema.names.count(name) > 1]
                if twice:
                    raise InputError(
                        f"{describe_source(source)}: the query has two columns {twice[0]!r}; name them apart"
                    )
                writer = pq.ParquetWriter(target, batch.schema, compression="zstd")
            writer.write_batch(batch)
            n_rows += batch.num_rows
    finally:
        if writer is not None:
            writer.close()
    if not n_rows:
        raise InputError(f"{describe_source(source)}: the query has no rows; at least one record is needed")
    return n_rows


def _duckdb_batches(source: str, query: str) -> Iterator[pa.RecordBatch]:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise InputError('queries of DuckDB need the extra "duckdb": pip install "spinewise[duckdb]"') from None
    in_memory = source == _IN_MEMORY
    if not in_memory and not Path(source).is_file():
        raise InputError(f"{source}: no such file; a DuckDB database is needed")
    try:
        with duckdb.connect(":memory:" if in_memory else source, read_only=not in_memory) as connection:
            found: Any = connection.sql(query)
            if found is None:
                raise InputError(f"{describe_source(source)}: the query gives no rows; a SELECT is needed")
            for batch in found.to_arrow_reader(_ROWS_AT_ONCE):
                yield _plain(batch)
    except (duckdb.OutOfMemoryException, pa.ArrowMemoryError):
        raise MemoryError from None
    except (duckdb.Error, pa.ArrowException) as error:
        raise InputError(f"{describe_source(source)}: {_first_line(error)}") from error


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


def _postgresql_batches(source: str, query: str) -> Iterator[pa.RecordBatch]:
    """Rows as text columns, as a CSV file would have them; by a cursor on the server."""
    import sqlalchemy as sa

    try:
        url = sa.make_url(source).set(drivername="postgresql+psycopg")
        engine = sa.create_engine(url, poolclass=sa.NullPool)
    except ModuleNotFoundError:
        raise InputError('queries of PostgreSQL need the extra "postgres": pip install "spinewise[postgres]"') from None
    except (sa.exc.ArgumentError, ValueError):
        raise InputError(
            "the URL of the PostgreSQL database is none; postgresql://USER@HOST/DATABASE is needed"
        ) from None
    try:
        with engine.connect().execution_options(postgresql_readonly=True, stream_results=True) as connection:
            found = connection.execution_options(yield_per=_ROWS_AT_ONCE).exec_driver_sql(query.replace("%", "%%"))
            if not found.returns_rows:
                raise InputError("a PostgreSQL database: the query gives no rows; a SELECT is needed")
            names = list(found.keys())
            rows = iter(found)
            while part := list(islice(rows, _ROWS_AT_ONCE)):
                columns = [pa.array([_text(row[i]) for row in part], pa.string()) for i in range(len(names))]
                yield pa.RecordBatch.from_arrays(columns, names=names)
    except sa.exc.SQLAlchemyError as error:
        raise InputError(f"a PostgreSQL database: {_first_line(getattr(error, 'orig', None) or error)}") from None


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _first_line(error: object) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
