"""SIGTERM ends a worker, and its runs and servers with it; others resume, and the user's own is not touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
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


BEGUN = """
import time
from flows.orchestration.server import temporary_server
with temporary_server():
    from prefect.client.orchestration import get_client
    with get_client(sync_client=True) as client:
        client.hello()
    print("served", flush=True)
    time.sleep(600)
"""


def without_server(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "tmp").mkdir(exist_ok=True)
    found = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PREFECT_HOME": str(tmp_path / "prefect")}
    found.pop("PREFECT_API_URL", None)
    return found


@pytest.mark.slow
def test_it_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    """kill -9 leaves no process and no folder."""
    run = subprocess.Popen(
        [sys.executable, "-c", BEGUN], env=without_server(tmp_path), stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    assert run.stdout.readline().strip() == "served"
    (server,) = psutil.Process(run.pid).children(recursive=True)
    (folder,) = (tmp_path / "tmp").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    run.send_signal(signal.SIGKILL)
    run.wait()
    wait("the server and its folder are gone", lambda: not (is_there(server.pid) or folder.exists()), 60)


#: Asks for what no run asks for, as the run's own client and as a stranger.
_OTHERS = """
import httpx
from flows.orchestration.server import temporary_server
with temporary_server():
    from prefect.client.orchestration import get_client
    from prefect.settings import get_current_settings
    with get_client(sync_client=True) as client:
        flow = client.create_flow_from_name("made first")
        url = get_current_settings().api.url
        print(httpx.get(f"{url}/admin/version").status_code)
        print([one.id for one in client.read_flows()] == [flow])
        print(client.read_work_pools(), client.read_flow(flow).name)
        print(httpx.get(f"{url}/flows/count").status_code)
"""


@pytest.mark.slow
def test_all_of_prefect_is_served_and_strangers_are_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _OTHERS], env=without_server(tmp_path), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["401", "True", "[] made first", "401"]


#: Starts a process that would live on, prints its number, and is killed or ends well.
_PROGRAM = """
import os, signal, subprocess, sys
from flows.orchestration.server import ends_with_us
server = subprocess.Popen(["sleep", "300"], stdout=subprocess.DEVNULL)
with ends_with_us(server.pid, patience=0.2):
    print(server.pid, flush=True)
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")
@pytest.mark.parametrize("how", ["killed", "well"])
def test_what_was_started_ends_if_its_starter_is_killed_and_only_then(how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, how],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == (-signal.SIGKILL if how == "killed" else 0)
    server, until = int(done.stdout), time.monotonic() + (60 if how == "killed" else 0.5)
    while is_there(server) and time.monotonic() < until:
        time.sleep(0.05)
    ended = not is_there(server)
    if not ended:
        os.kill(server, signal.SIGKILL)
    assert ended == (how == "killed")
