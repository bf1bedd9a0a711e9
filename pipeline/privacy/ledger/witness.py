"""Whether a ledger's first events were touched since they were verified, without reading them.

A file of SQLite has an inode, a size, times and a counter of changes; nobody but the administrator of the machine can
change the file and keep its time of change (ctime). A row of PostgreSQL has the transaction that wrote it (xmin); an
updated or inserted row has another one. Where these are as they were, the events are.
"""

from __future__ import annotations

import os
from pathlib import Path

import sqlalchemy as sa

__all__ = ["file_witness", "rows_witness"]

_HEADER = 100  # bytes, of a file of SQLite
_WAL = 2  # the version of reading and writing by which changes are kept beside the file


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


def rows_witness(connection: sa.Connection, first: int, last: int) -> int:
    """Of the events of these numbers in PostgreSQL; those of consecutive numbers add up.

    A row that is written again has a later transaction, so while all of them are there, their sum only rises.
    """
    found = connection.execute(
        sa.text(
            # The number of a transaction, without making a text of each: how much younger it is than the first one.
            "SELECT count(*), coalesce(sum((age(CAST('3' AS xid))::bigint - age(xmin)) & 4294967295), 0) "
            "FROM ledger_events WHERE number BETWEEN :first AND :last"
        ),
        {"first": first, "last": last},
    ).one()
    return int(found[0]) * 2**64 + int(found[1])
