"""Prefect's server for one process: it listens on a socket that it is given, and ends when that process does.

Its database is a new file in a folder that it is given, so that the user's own does not grow with every run. Nobody
can look at it, so it has no pages, no background services and no records of events.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import threading
from pathlib import Path
from typing import Any, Final

#: Settings of the server; the client's stand in `flows.orchestration.environment`.
_SETTINGS: Final = {
    "PREFECT_SERVER_DATABASE_MIGRATE_ON_START": "false",
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
    "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
    "PREFECT_SERVER_UI_ENABLED": "false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT__SERVER_EPHEMERAL": "1",
}

#: Prefixes of what a run asks the server for.
_ASKED_FOR: Final = frozenset({"/flows", "/flow_runs", "/admin"})


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
    from prefect.context import refresh_global_settings_context

    refresh_global_settings_context()
    asyncio.run(_serve(listening))


async def _serve(listening: socket.socket) -> None:
    import uvicorn
    from prefect.server.api import server

    await _make_database()
    # A route is built when a request is compared with it, so the few that a run asks for come first.
    routers: Any = sorted(server.API_ROUTERS, key=lambda router: router.prefix not in _ASKED_FOR)
    server.API_ROUTERS = tuple(routers)
    app = server.create_app(webserver_only=True)
    await uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on")).serve(sockets=[listening])


async def _make_database() -> None:
    """The tables of Prefect's models at once: its hundred migrations lead to the same, and take seconds."""
    from prefect.server.database import provide_database_interface
    from sqlalchemy.exc import SQLAlchemyError

    database = provide_database_interface()
    metadata = database.Base.metadata
    named = set()
    for table in metadata.sorted_tables:
        for index in list(table.indexes):  # one of Prefect's indexes is stated twice
            if index.name in named:
                table.indexes.discard(index)
            named.add(index.name)
    engine = await database.engine()
    try:
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
    except SQLAlchemyError:  # another version of Prefect may state more than this can make
        await database.create_db()


def _end_with(watch: int, folder: Path) -> None:
    """Wait until the other end of the pipe is closed, as the system does however a process ends."""
    while os.read(watch, 1):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    descriptor, pipe, place = sys.argv[1:]
    serve(socket.socket(fileno=int(descriptor)), int(pipe), Path(place), sys.stdin.readline().strip())
