"""Prefect's server for one process: it listens on a socket that it is given, and ends when that process does.

Its database is a new file in a folder that it is given, so that the user's own does not grow with every run. Nobody
can look at it, so it has no pages, no background services and no records of events. Of Prefect's two hundred routes
those are built that a run asks for, from Prefect's own modules; where another is asked for, or another version of
Prefect is cut differently, Prefect's whole app takes over.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import os
import shutil
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
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

#: Modules of Prefect's server, and their functions that answer a run.
_ASKED_FOR: Final = {
    "prefect.server.api.admin": {"read_version", "read_server_default_result_storage"},
    "prefect.server.api.flows": {"create_flow"},
    "prefect.server.api.flow_runs": {"create_flow_run", "read_flow_run", "update_flow_run", "set_flow_run_state"},
}
#: Prefect's background services, the queue that they are in, and the app that joins all routes.
_LEFT_OUT: Final = ("prefect.server.services", "docket", "prefect.server.api.server")
#: Where the routes begin.
_ROOT: Final = "/api"
#: Starlette's word for a route whose path and method are those of a request.
_MATCHES: Final = 2


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
    asyncio.run(_serve(listening, password))


async def _serve(listening: socket.socket, password: str) -> None:
    import uvicorn

    served = _Served(password)
    await _make_database()
    config = uvicorn.Config(served, log_config=None, access_log=False, lifespan="off", ws="none", interface="asgi3")
    await uvicorn.Server(config).serve(sockets=[listening])


class _Served:
    """The app: a few of Prefect's routes, and all of them once another one is asked for; strangers are refused.

    Args:
        password: that clients send.
    """

    def __init__(self, password: str) -> None:
        self._wanted = b"Basic " + base64.b64encode(password.encode())
        self._routes: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        self._whole: Any = None
        self._left_out = _LeftOut()
        try:
            self._few = self._import_few()
        except Exception:  # whatever another version of Prefect raises
            self._whole = self._build_all()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, as an app of ASGI."""
        if not hmac.compare_digest(dict(scope["headers"]).get(b"authorization", b""), self._wanted):
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body"})
            return
        if self._whole is None:
            below = {**scope, "root_path": _ROOT}
            if any(route.matches(below)[0].value == _MATCHES for route in self._few.routes):
                await self._few(below, receive, send)
                return
            self._whole = self._build_all()
        await self._whole(scope, receive, send)

    def _import_few(self) -> Any:
        """Prefect's routes that a run asks for, as an app; raises whatever it raises where they are not as expected."""
        from fastapi import FastAPI, Response
        from sqlalchemy.exc import DBAPIError

        self._left_out.begin(is_client_retryable_exception=lambda error: isinstance(error, DBAPIError))
        from prefect.server.utilities import server

        routers: Any = server.PrefectRouter
        build = routers.add_api_route

        def postpone(router: Any, path: str, endpoint: Any, **details: Any) -> None:
            self._routes.append((router, (path, endpoint), details))
            if endpoint.__name__ in _ASKED_FOR.get(endpoint.__module__, ()):
                build(router, path, endpoint, **details)

        routers.add_api_route = postpone
        try:
            modules = {import_module(name): functions for name, functions in _ASKED_FOR.items()}
        finally:
            routers.add_api_route = build

        async def try_again(*_: object) -> Response:  # as Prefect answers where the database is busy
            return Response(status_code=503)

        app = FastAPI(exception_handlers={DBAPIError: try_again}, openapi_url=None)
        for module, functions in modules.items():
            if {route.endpoint.__name__ for route in module.router.routes} != functions:
                raise LookupError(module.__name__)
            app.router.routes.extend(module.router.routes)
        return app

    def _build_all(self) -> Any:
        """Prefect's own app, without its background services."""
        self._left_out.end()
        for router in {id(router): router for router, _, _ in self._routes}.values():
            router.routes.clear()
        for router, place, details in self._routes:
            router.add_api_route(*place, **details)
        server: Any = import_module("prefect.server.api.server")
        return server.create_app(webserver_only=True)


class _Nothing(type):
    """A class that stands for what is never used; what its attributes are, and what is made of it, is itself."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __call__(cls, *_: object, **__: object) -> Any:
        return cls


class _EmptyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing(name, (), {})


class _LeftOut(MetaPathFinder, Loader):
    """Finds empty modules for those of Prefect that its routes import and never use: a third of all imports."""

    def __init__(self) -> None:
        self._content: dict[str, Any] = {}

    def begin(self, **content: Any) -> None:
        """From now on they are empty, but for `content`."""
        self._content = content
        sys.meta_path.insert(0, self)

    def end(self) -> None:
        """From now on they are found."""
        with suppress(ValueError):
            sys.meta_path.remove(self)
        for name in [name for name, module in sys.modules.items() if isinstance(module, _EmptyModule)]:
            del sys.modules[name]

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """See `MetaPathFinder`."""
        if f"{fullname}.".startswith(tuple(f"{name}." for name in _LEFT_OUT)):
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """See `Loader`."""
        module = _EmptyModule(spec.name)
        vars(module).update(self._content)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing in it."""


async def _make_database() -> None:
    """The tables of Prefect's models at once: its hundred migrations lead to the same, and take seconds."""
    from prefect.server.database import provide_database_interface
    from sqlalchemy.exc import SQLAlchemyError

    database = provide_database_interface()
    metadata = database.Base.metadata
    for table in metadata.sorted_tables:
        for index in list(table.indexes):  # a few rows are found without
            if not index.unique:
                table.indexes.discard(index)
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
