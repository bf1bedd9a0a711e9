"""Whether a ledger's first events were touched since they were verified, without reading them.

A file of SQLite has an inode, a size, times and a counter of changes; nobody but the administrator of the machine can
change the file and keep its time of change (ctime). A table of PostgreSQL has guards, which let no session update or
delete a row; whoever disables, drops or alters a guard or its function, or replaces or rewrites the table, even for a
moment, leaves other rows in the system's catalogs: each has the transaction that wrote it (xmin). Where these are as
they were, the events are. That takes the same time for any number of events.
"""

from __future__ import annotations

import os
from pathlib import Path

import sqlalchemy as sa

from pipeline.privacy.ledger.schema import GUARDS, guards

__all__ = ["file_witness", "table_witness"]

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
