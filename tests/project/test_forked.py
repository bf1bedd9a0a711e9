"""A process of a run that is born in the tests has what a started one has, and is a child of who asks for it."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from releases.forked import Births

from pipeline.execution.faults import without_interrupts
from pipeline.execution.workers import WorkerContext

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each process is started")

#: Set in the process of the tests, which none of those that it starts sees.
SEEN: list[str] = []


def tell(there: Connection) -> None:
    """Send what a process finds around it, and end with a status of its own."""
    there.send(
        {
            "parent": os.getppid(),
            "variables": {name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
            "folder": os.getcwd(),  # noqa: PTH109
            "files": len(os.listdir("/proc/self/fd")),  # noqa: PTH208
            "blocked": sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))),
            "signals": [str(signal.getsignal(one)) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
            "words": sys.argv,
            "seen": SEEN,
        }
    )
    there.send(Path("/proc/self/cmdline").read_bytes().split(b"\0"))
    sys.exit(3)


def told() -> tuple[dict[str, Any], list[bytes]]:
    """What a process tells, and the words with which it was started."""
    here, there = Pipe()
    with without_interrupts():
        process = WorkerContext().Process(target=tell, args=(there,))
        process.start()
    there.close()
    answer: dict[str, Any] = here.recv()
    words: list[bytes] = here.recv()
    process.join()
    assert process.exitcode == 3
    return answer, words


def test_it_has_what_a_started_one_has(births: Births, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPINEWISE_SAID", "here")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "SEEN", ["what this process has in its memory"])
    told()  # whatever is started once, such as the tracker, is there
    born, words = told()
    assert b"releases.forked" in words
    births.end()
    try:
        started, words = told()
        assert b"--multiprocessing-fork" in words
    finally:
        births.begin()
    assert born == started
    assert (born["parent"], born["seen"]) == (os.getpid(), [])


def test_what_is_read_at_a_start_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_VERBOSE", "1")
    assert b"--multiprocessing-fork" in told()[1]
