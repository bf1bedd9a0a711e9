"""Records that a caller has in memory, on their way to the process that counts them: by a pipe, never by a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Final

import pyarrow as pa

from pipeline.confidential.errors import described, restored
from pipeline.execution.job import Job
from pipeline.model.memory_table import MemoryTable
from pipeline.model.universe import Universe

#: Rows that are sent at a time.
_ROWS: Final = 1 << 16
_LONGEST_NOTE: Final = 1 << 20

#: The columns of a universe's records, by the universe's name; how the other process asks for them.
Fetch = Callable[[str, Sequence[str]], pa.Table]


def tables_of(job: Job) -> dict[str, MemoryTable]:
    """Universe -> its records, where they are a table in this process."""
    sources = {universe.name: universe.require_input().file for universe in job.universes if universe.input is not None}
    return {name: source for name, source in sources.items() if isinstance(source, MemoryTable) and source.given}


def without_tables(job: Job) -> Job:
    """The job with the places of tables, not the tables: of records, and of the public list of areas."""
    universes = places_of(job.universes)
    areas, spec = job.spec.geography.file, job.spec
    if isinstance(areas, MemoryTable):
        spec = spec.model_copy(update={"geography": spec.geography.model_copy(update={"file": areas.place()})})
    return replace(job, universes=universes, spec=spec)


def places_of(universes: Sequence[Universe]) -> tuple[Universe, ...]:
    """The universes with the places of tables, not the tables."""
    return tuple(_with(universe, lambda table: table.place()) for universe in universes)


def with_tables(job: Job, names: Sequence[str], fetch: Fetch) -> Job:
    """The job with tables that are fetched when they are read, in the universes of these names."""
    universes = tuple(
        _with(universe, partial(_fetched, fetch=partial(fetch, universe.name))) if universe.name in names else universe
        for universe in job.universes
    )
    return replace(job, universes=universes)


def send_columns(there: Connection, table: MemoryTable, names: Sequence[str]) -> None:
    """Send some columns of a table, or what is wrong with them, to whoever waits in `receive_columns`."""
    try:
        columns = table.read(names) if table.read is not None else pa.table({})
    except Exception as error:
        there.send_bytes(json.dumps({"error": described(error, None, "tabulate")}).encode())
        return
    there.send_bytes(b"{}")
    plain = columns.schema.remove_metadata()
    with pa.PythonFile(_Sending(there), "w") as file, pa.ipc.new_stream(file, plain) as stream:
        for batch in columns.to_batches(max_chunksize=_ROWS):
            stream.write_batch(batch.replace_schema_metadata(None))
    there.send_bytes(b"")


def receive_columns(there: Connection) -> pa.Table:
    """What `send_columns` sends; raises the error that it met."""
    note: Mapping[str, Any] = json.loads(there.recv_bytes(_LONGEST_NOTE))
    if "error" in note:
        raise restored(note["error"])
    with pa.PythonFile(_Receiving(there), "r") as file:
        with pa.ipc.open_stream(file) as stream:
            columns = stream.read_all()
        while file.read(1):  # to the end of what was sent
            pass
    return columns


def _with(universe: Universe, change: Callable[[MemoryTable], MemoryTable]) -> Universe:
    source = universe.input
    if source is None or not isinstance(source.file, MemoryTable):
        return universe
    return replace(universe, input=replace(source, file=change(source.file)))


def _fetched(table: MemoryTable, fetch: Callable[[Sequence[str]], pa.Table]) -> MemoryTable:
    return replace(table, read=fetch)


class _Sending:
    """A file whose content is sent, a message for each write."""

    closed = False

    def __init__(self, there: Connection) -> None:
        self._there = there

    def write(self, data: bytes) -> int:
        if len(data):
            self._there.send_bytes(data)
        return len(data)

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        self.closed = True


class _Receiving:
    """A file whose content is what a `_Sending` sent; an empty message is its end."""

    closed = False

    def __init__(self, there: Connection) -> None:
        self._there = there
        self._got = memoryview(b"")
        self._ended = False

    def read(self, size: int = -1) -> bytes:
        parts: list[memoryview] = []
        wanted = size
        while wanted != 0:
            if not self._got and not self._ended:
                self._got = memoryview(self._there.recv_bytes())
                self._ended = not self._got
            if self._ended:
                break
            part = self._got if wanted < 0 else self._got[:wanted]
            self._got = self._got[len(part) :]
            wanted -= len(part) if wanted > 0 else 0
            parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        self.closed = True
