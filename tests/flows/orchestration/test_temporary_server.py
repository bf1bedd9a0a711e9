"""The temporary server of a run ends with it however it ends, leaves nothing, and does not touch the user's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from releases.command import environment as project_environment

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


def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "tmp").mkdir(exist_ok=True)
    found = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PREFECT_HOME": str(tmp_path / "prefect")}
    found.pop("PREFECT_API_URL", None)
    return found


def gone(processes: list[psutil.Process], path: Path, seconds: float = 60) -> bool:
    last = time.monotonic() + seconds
    while time.monotonic() < last:
        alive = [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
        if not alive and not list(path.iterdir()):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.slow
def test_it_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    """kill -9 leaves no process and no folder."""
    run = subprocess.Popen([sys.executable, "-c", BEGUN], env=environment(tmp_path), stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert run.stdout.readline().strip() == "served"
    servers = psutil.Process(run.pid).children(recursive=True)
    assert len(servers) == 1
    (folder,) = (tmp_path / "tmp").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert gone(servers, tmp_path / "tmp")


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
        [sys.executable, "-c", _OTHERS], env=environment(tmp_path), capture_output=True, text=True, check=True
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
def test_what_was_started_ends_if_its_starter_is_killed_and_only_then(how: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, how],
        env=project_environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == (-signal.SIGKILL if how == "killed" else 0)
    process = []
    with suppress(psutil.NoSuchProcess):
        process.append(psutil.Process(int(done.stdout)))
    (tmp_path / "nothing").mkdir()
    ended = gone(process, tmp_path / "nothing", 60 if how == "killed" else 0.5)
    if not ended:
        process[0].kill()
    assert ended == (how == "killed")
