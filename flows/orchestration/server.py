"""Prefect set up before it is imported, the temporary server of a run, and the end of processes with this one.

Settings for Prefect, made before it is imported: offline, nothing sent home, nothing on the screen.

What the user has set is left alone, PREFECT_HOME and PREFECT_API_URL too: with a server of one's own, runs are seen
there. Prefect itself reads settings from files of the current folder, which may be somebody else's: they can send what
is known of a run elsewhere, and name objects to be made. So they are refused, unless the user trusts the folder.
"""

from __future__ import annotations

import atexit
import os
import secrets
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from geography.errors import SpinewiseError
from pipeline.errors import InputError
from pipeline.execution.faults import without_interrupts
from pipeline.storage.files import temporary_folder

SETTINGS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
    "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # The temporary server imports for long on a busy machine, while requests already wait for it.
    "PREFECT_API_REQUEST_TIMEOUT": "120",
    # Errors are reported by the command line, once; the records' never reach Prefect at all.
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_SERVER_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    "PREFECT_TASKS_DEFAULT_PERSIST_RESULT": "false",
    "PREFECT_CLI_COLORS": "false",
}


def set_up_prefect() -> None:
    """Set what the user has not set; where the user has no folder of Prefect, it gets one for this process alone.

    Raises:
        InputError: a file of the current folder has settings of Prefect, and the user does not trust the folder.
    """
    if "prefect" not in sys.modules:  # otherwise it is the caller's, who had it read what it reads
        _check_current_folder()
        if not os.environ.get("PREFECT_HOME") and not (Path.home() / ".prefect").exists():
            from pipeline.storage.files import temporary_folder

            with ExitStack() as stack:
                os.environ["PREFECT_HOME"] = str(stack.enter_context(temporary_folder("prefect-home")))
                atexit.register(stack.pop_all().close)
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)


def _check_current_folder() -> None:
    found = [name for name in (".env", "prefect.toml", "pyproject.toml") if _sets_prefect(Path(name))]
    if not found:
        return
    from pipeline.execution.settings import trusts_current_folder, user_file

    if not trusts_current_folder():
        raise InputError(
            f"{found[0]}: a file of the current folder may not set Prefect, unless you trust the folder; if you do, "
            f'write this in {user_file()}: trust = ["{Path.cwd().resolve()}"]; spinewise run --no-prefect does without'
        )


def _sets_prefect(path: Path) -> bool:
    """Whether Prefect would find settings in a file, or could not read it; prefect.toml has nothing else."""
    if not path.exists():
        return False
    if path.name == "prefect.toml" or not path.is_file():
        return not path.is_dir()
    try:
        text = path.read_text("utf-8")
        if path.name == ".env":
            return "prefect" in text.lower()
        return "prefect" in tomllib.loads(text).get("tool", {})
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return True


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

    It starts while this process continues: the first request waits for it. What is sent to it is lost with it, so
    events are not sent at all.

    Raises:
        TemporaryServerError: it ended during the block, and the block failed.
    """

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
        server, pipe = _start(listening, folder, password)
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
            if server.poll() is not None and not isinstance(error, SpinewiseError):
                raise TemporaryServerError(
                    "Prefect's temporary server has ended, or could not start: there may not be enough memory; the "
                    "same command resumes the run"
                ) from error
            raise
        finally:
            _private.reset(token)
            _end(server, pipe)


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


def _start(listening: socket.socket, folder: Path, password: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start the server; its process, and the write end of the pipe whose end ends it."""
    watched, pipe = os.pipe()
    descriptors = (listening.fileno(), watched)
    with without_interrupts():  # the terminal's Ctrl-C is for the run alone
        server = subprocess.Popen(
            [sys.executable, "-P", "-m", "flows.orchestration.temporary_server", *map(str, descriptors), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=descriptors,
            start_new_session=True,
        )
    os.close(watched)
    assert server.stdin is not None
    server.stdin.write(password.encode() + b"\n")
    server.stdin.close()
    return server, pipe


def _end(server: subprocess.Popen[bytes], pipe: int) -> None:
    os.close(pipe)
    try:
        server.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


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
