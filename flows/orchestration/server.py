"""The temporary server of a run, and the end of processes with this one, also where it is killed."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from geography.errors import SpinewiseError
from pipeline.execution.interrupts import WAITING, without_interrupts
from pipeline.storage.temporary import temporary_folder

#: Reads until the pipe is closed: after a word it has nothing to do, without one the writer was killed.
_WATCH = """
import contextlib, os, signal, sys, time
if not sys.stdin.buffer.read():
    with contextlib.suppress(OSError):
        os.kill(int(sys.argv[1]), signal.SIGTERM)
        time.sleep(float(sys.argv[2]))
        os.kill(int(sys.argv[1]), signal.SIGKILL)
"""
#: Seconds that a server has to remove its folder and end after it was asked to.
_PATIENCE = 2.0

_private: ContextVar[bool] = ContextVar("_private", default=False)


class TemporaryServerError(SpinewiseError):
    """Prefect's temporary server has ended before its run."""


def server_is_temporary() -> bool:
    """Whether the server in use was started by `temporary_server`, so that nobody will look at its records."""
    return _private.get()


@contextmanager
def temporary_server() -> Iterator[None]:
    """Where the user has named no server of Prefect, one for the flows of the block; it ends with this process.

    On Linux it is a copy of this process, which spares it the imports; so begin before anything confidential is read.
    It starts while this process continues: the first request waits for it. What is sent to it is lost with it, so
    events are not sent at all.

    Raises:
        TemporaryServerError: it ended during the block, and the block failed.
    """
    from flows.orchestration.environment import set_up_prefect

    set_up_prefect()
    from prefect.settings import (
        PREFECT_API_AUTH_STRING,
        PREFECT_API_URL,
        PREFECT_CLIENT_CSRF_SUPPORT_ENABLED,
        get_current_settings,
        temporary_settings,
    )

    if get_current_settings().api.url:
        yield
        return
    with temporary_folder("prefect") as folder, socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        port = listening.getsockname()[1]
        password = f"spinewise:{secrets.token_urlsafe(32)}"
        server = _start(listening, folder, password)
        listening.close()
        token = _private.set(True)
        settings = {
            PREFECT_API_URL: f"http://127.0.0.1:{port}/api",
            PREFECT_API_AUTH_STRING: password,
            PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False,  # the server has no such protection; nobody need ask for it
        }
        try:
            with temporary_settings(settings), _without_events():
                yield
        except Exception as error:
            if server.has_ended() and not isinstance(error, SpinewiseError):
                raise TemporaryServerError(
                    "Prefect's temporary server has ended, or could not start: there may not be enough memory; the "
                    "same command resumes the run"
                ) from error
            raise
        finally:
            _private.reset(token)
            server.end()


@contextmanager
def _without_events() -> Iterator[None]:
    from prefect.events.clients import NullEventsClient
    from prefect.events.worker import EventsWorker

    before = EventsWorker._client_override
    EventsWorker.set_client_override(NullEventsClient)
    try:
        yield
    finally:
        EventsWorker._client_override = before


class _Server:
    """A server's process, and the pipe whose end ends it.

    Args:
        process: its number.
        pipe: write end, which no other process may hold.
        reap: whether the process has ended; it must be asked before the number is used again.
    """

    def __init__(self, process: int, pipe: int, reap: Callable[[], bool]) -> None:
        self._process, self._pipe, self.has_ended = process, pipe, reap

    def end(self) -> None:
        os.close(self._pipe)
        last = time.monotonic() + _PATIENCE
        while not self.has_ended():
            if time.monotonic() > last:
                with suppress(OSError):
                    os.kill(self._process, signal.SIGKILL)
                last += _PATIENCE
            time.sleep(0.005)


def _start(listening: socket.socket, folder: Path, password: str) -> _Server:
    """Start the server as a copy of this process, or, where a copy is not safe, as a process of its own."""
    watched, pipe = os.pipe()
    try:
        # The terminal's Ctrl-C is for the run alone.
        with without_interrupts():
            others = {thread.name for thread in threading.enumerate()} - {threading.main_thread().name, WAITING}
            if sys.platform == "linux" and not others:
                return _copy(listening, watched, pipe, folder, password)
            return _process(listening, watched, pipe, folder, password)
    finally:
        os.close(watched)


def _copy(listening: socket.socket, watched: int, pipe: int, folder: Path, password: str) -> _Server:
    import prefect.main  # noqa: F401  the copy has it then

    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)  # its pipe is closed next, and another file may get the number
            _close_all_but(listening.fileno(), watched)
            from flows.orchestration.temporary_server import serve

            serve(listening, watched, folder, password)
        finally:
            os._exit(1)
    ended: list[int] = []

    def reap() -> bool:
        if not ended:
            with suppress(ChildProcessError):
                if os.waitpid(process, os.WNOHANG)[0] == 0:
                    return False
            ended.append(process)
        return True

    return _Server(process, pipe, reap)


def _close_all_but(*kept: int) -> None:
    """Close all files, so that nobody who reads our output to its end, or waits for a lock, waits for this process."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    start = 3
    for descriptor in sorted(kept):
        os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, os.sysconf("SC_OPEN_MAX"))


def _process(listening: socket.socket, watched: int, pipe: int, folder: Path, password: str) -> _Server:
    descriptors = (listening.fileno(), watched)
    server = subprocess.Popen(
        [sys.executable, "-P", "-m", "flows.orchestration.temporary_server", *map(str, descriptors), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=descriptors,
        start_new_session=True,
    )
    assert server.stdin is not None
    server.stdin.write(password.encode() + b"\n")
    server.stdin.close()
    return _Server(server.pid, pipe, lambda: server.poll() is not None)


@contextmanager
def ends_with_us(process: int, patience: float = 10.0) -> Iterator[None]:
    """While the block lasts, a process of this program ends when this process is killed.

    A small process waits for the end of a pipe that only this one can write to, which the system closes however this
    process ends.

    Args:
        process: its number.
        patience: seconds from the request to end to the end by force.
    """
    command = [sys.executable, "-I", "-S", "-c", _WATCH, str(process), str(patience)]
    nothing = subprocess.DEVNULL  # it must not keep our output open for who reads it to the end
    watcher = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, start_new_session=True)
    try:
        yield
    finally:
        with suppress(OSError, subprocess.TimeoutExpired):
            watcher.communicate(b"done", timeout=patience)


@contextmanager
def temporary_server_ends_with_us() -> Iterator[None]:
    """The same for the server that Prefect has started for this process, if it has; to be used within a flow."""
    module = sys.modules.get("prefect.server.api.server")  # not imported, nothing was started
    server = None if module is None else module.SubprocessASGIServer().server_process  # the one that clients share
    if server is None:
        yield
        return
    with ends_with_us(server.pid):
        yield
