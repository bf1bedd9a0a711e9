"""SIGTERM ends a worker, and its runs with it; others resume them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from releases.command import environment, spinewise
from releases.prefect_server import ask, prefect_server, prefect_variables
from releases.small import write_town

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

#: A worker without a server, whose loop lets go when it is asked to, or does not.
STUB = """
import asyncio, subprocess, sys
from flows.orchestration import worker
class Stub:
    def __init__(self, **_): pass
    async def start(self):
        child = subprocess.Popen(["sleep", "600"])
        print("started", child.pid, flush=True)
        while True:
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                if sys.argv[1] == "hears":
                    child.kill()
                    raise
worker.ProcessWorker, worker.PATIENCE = Stub, float(sys.argv[2])
worker.work("pool", None)
"""


def in_the_background(words: list[str], **variables: str) -> subprocess.Popen[str]:
    """As a script without control of jobs starts it, with Ctrl-C ignored."""
    return subprocess.Popen(
        [sys.executable, *words],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )


def is_there(process: int) -> bool:
    """Whether a process is there, and not only its entry."""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize(
    ("kind", "patience", "signals", "status"), [("hears", 60, 1, 0), ("deaf", 1, 1, 1), ("deaf", 600, 2, 1)]
)
def test_a_worker_ends_and_so_do_its_processes(kind: str, patience: int, signals: int, status: int) -> None:
    """At the first SIGTERM where its loop lets go; else when its patience ends, or at the second."""
    worker = in_the_background(["-c", STUB, kind, str(patience)])
    assert worker.stdout is not None
    child = int(worker.stdout.readline().split()[1])
    for _ in range(signals):
        worker.send_signal(signal.SIGTERM)
        time.sleep(0.5)
    assert worker.wait(60) == status
    assert not is_there(child)


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_a_real_worker_stops_its_run_takes_no_other_and_the_next_one_resumes(tmp_path: Path) -> None:
    spec, out = write_town(tmp_path / "town", ("replicates = 3", "replicates = 30")), tmp_path / "out"
    home = tmp_path / "home"
    with prefect_server(home) as address:
        variables: dict[str, Any] = {**prefect_variables(home), "PREFECT_API_URL": address}
        deployed = spinewise("deploy", spec, "--out", out, "--workers", "1", **variables)
        assert deployed.returncode == 0, deployed.stderr
        assert deployed.stderr.startswith("more than one worker needs a server that keeps its records in PostgreSQL")
        (deployment,) = ask(f"{address}/deployments/filter", {})
        for _ in range(2):
            ask(f"{address}/deployments/{deployment['id']}/create_flow_run", {"state": {"type": "SCHEDULED"}})
        first = in_the_background(["-m", "flows.cli", "worker"], **variables)
        begun = out / "town" / "public" / "measurements"
        wait("the first run has measured", begun.is_dir, 300)
        first.send_signal(signal.SIGTERM)
        told, _ = first.communicate(timeout=90)
        assert first.returncode == 0, told
        states = {run["state"]["type"] for run in ask(f"{address}/flow_runs/filter", {})}
        assert "COMPLETED" not in states, told
        assert "SCHEDULED" in states, told
        assert not (out / "town" / "public" / "manifest.json").exists()
        files = sorted(path.name for path in (out / "town").rglob("*"))
        time.sleep(5)
        assert sorted(path.name for path in (out / "town").rglob("*")) == files, "somebody is still at work"
        second = in_the_background(["-m", "flows.cli", "worker"], **variables)
        try:
            wait("both runs are done", lambda: states_of(address) == ["COMPLETED"] * 2, 1200)
        finally:
            second.send_signal(signal.SIGTERM)
            second.communicate(timeout=90)
        assert {run["name"] for run in ask(f"{address}/flow_runs/filter", {})} == {"town"}


def states_of(address: str) -> list[str]:
    return [run["state"]["type"] for run in ask(f"{address}/flow_runs/filter", {})]


def wait(what: str, look: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < until, what
        time.sleep(0.5)
