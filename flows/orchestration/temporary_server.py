"""Prefect's server for one process: it listens on a socket that it is given, and ends when that process does.

Its database is a new file in a folder that it is given, so that the user's own does not grow with every run. Nobody
can look at it, so it has no pages and no background services.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import threading
from pathlib import Path
from typing import Final

#: Settings of the server; the client's stand in `flows.orchestration.server`.
_SETTINGS: Final = {
    "PREFECT_SERVER_DATABASE_MIGRATE_ON_START": "false",
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
    "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
    "PREFECT_SERVER_UI_ENABLED": "false",
}


def serve(listening: socket.socket, watch: int, folder: Path, password: str) -> None:
    """Serve until the pipe `watch` is closed at its other end; then remove `folder` and end this process.

    Args:
        listening: socket that is bound and listens.
        watch: read end of a pipe that only the process that is served can write to.
        folder: of the database.
        password: that clients send, so that no other user of the machine is answered.
    """
    threading.Thread(target=_end_with, args=(watch, folder), daemon=True).start()
    os.environ.update(
        _SETTINGS
        | {
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{folder / 'prefect.db'}",
            "PREFECT_SERVER_API_AUTH_STRING": password,
        }
    )
    import uvicorn
    from prefect.server.api.server import create_app

    async def start() -> None:
        await _make_database()
        app = create_app(ephemeral=True, webserver_only=True, final=True)
        await uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none")).serve(sockets=[listening])

    asyncio.run(start())


async def _make_database() -> None:
    """The tables of Prefect's models at once: its hundred migrations lead to the same, and take seconds."""
    from prefect.server.database import provide_database_interface

    database = provide_database_interface()
    metadata = database.Base.metadata
    for table in metadata.sorted_tables:
        for index in list(table.indexes):  # a few rows are found without, and some are stated twice
            if not index.unique:
                table.indexes.discard(index)
    async with (await database.engine()).begin() as connection:
        await connection.run_sync(metadata.create_all)


def _end_with(watch: int, folder: Path) -> None:
    """Wait until the other end of the pipe is closed, as the system does however a process ends."""
    while os.read(watch, 1):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    descriptor, pipe, place = sys.argv[1:]
    serve(socket.socket(fileno=int(descriptor)), int(pipe), Path(place), sys.stdin.readline().strip())
