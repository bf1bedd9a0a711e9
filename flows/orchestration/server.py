"""Ends a process with this one, also where this one is killed and can end nothing itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: Reads until the pipe is closed: after a word it has nothing to do, without one the writer was killed.
_WATCH = """
import contextlib, os, signal, sys, time
if not sys.stdin.buffer.read():
    with contextlib.suppress(OSError):
        os.kill(int(sys.argv[1]), signal.SIGTERM)
        time.sleep(float(sys.argv[2]))
        os.kill(int(sys.argv[1]), signal.SIGKILL)
"""


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
