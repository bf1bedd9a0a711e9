"""What a person and the log are told of a run: how much is done, how long it takes, and its memory."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from pipeline.execution.job import RunLog
from pipeline.execution.settings import memory_now
from pipeline.execution.steps import Step

MEGABYTES = 400
HELD = f"held = bytearray({MEGABYTES} * 10**6); print(flush=True); input()"


def test_memory_is_that_of_all_processes_while_they_are_there_and_after(tmp_path: Path) -> None:
    before = memory_now()
    child = subprocess.Popen([sys.executable, "-c", HELD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdout.readline()
    assert memory_now() - before > MEGABYTES * 0.9e6
    child.communicate(b"\n")
    assert memory_now() - before < MEGABYTES * 0.5e6
    path = tmp_path / "run.log"
    step = Step("measure", lambda: None)
    with path.open("wb") as file:
        logged = RunLog(file.fileno())
        logged.finish(step, 1.0)
    line = r"measure: [0-9.]+ s, peak memory \d+ MB, of the largest other process that has ended (\d+) MB"
    found = re.search(line, path.read_text())
    assert found is not None
    assert int(found[1]) > MEGABYTES * 0.9
