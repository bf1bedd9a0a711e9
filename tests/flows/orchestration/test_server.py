"""A process that is killed takes with it what it has started and could not end itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from releases.command import environment

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


def lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


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
    process = int(done.stdout)
    assert done.returncode == (-signal.SIGKILL if how == "killed" else 0)
    for _ in range(1200 if how == "killed" else 10):
        if not lives(process):
            break
        time.sleep(0.05)
    alive = lives(process)
    if alive:
        os.kill(process, signal.SIGKILL)
    assert alive == (how == "well")
