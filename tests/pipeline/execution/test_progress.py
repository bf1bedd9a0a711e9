"""What a person and the log are told of a run: how much is done, how long it takes, and its memory."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from pipeline.execution.memory import memory_now
from pipeline.execution.progress import Counted, Silent
from pipeline.execution.run_log import Logged, RunLog
from pipeline.execution.steps import Step

STEPS = (
    Step("count", lambda: None, geounits=10, effort=1.0),
    Step("estimate", lambda: None, geounits=20, effort=2.0),
    Step("write", lambda: None, geounits=50, effort=1.0),
)


def test_share_follows_geounits_times_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.execution.progress.time.monotonic", lambda: 100.0)
    count = Counted()
    count.begin(STEPS)
    assert (count.share, count.seconds_left) == (0.0, None)
    count.start(STEPS[0])
    count.advance(4)
    assert count.share == pytest.approx(4 / 100)
    assert count.geounits_done == "4 of 10 geounits"
    count.advance(400)
    assert count.share == pytest.approx(10 / 100), "a step is never more than done"
    count.finish()
    count.start(STEPS[1])
    count.advance(5)
    assert count.share == pytest.approx((10 + 2 * 5) / 100)
    count.finish(skipped=True)
    assert count.share == pytest.approx(10 / 60), "the whole is smaller by the step that was done before"
    count.start(STEPS[2])
    count.finish()
    assert count.share == 1.0


def test_time_left_is_at_the_pace_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("pipeline.execution.progress.time.monotonic", lambda: now[0])
    count = Counted()
    count.begin(STEPS)
    count.start(STEPS[0])
    now[0] = 130.0
    count.finish()
    assert count.seconds_left == pytest.approx(30 * 90 / 10)


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=120, highlight=False)


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
        logged = Logged(Silent(), RunLog(file.fileno()))
        logged.start(step)
        logged.finish(step)
    line = r"measure: [0-9.]+ s, peak memory \d+ MB, of the largest other process that has ended (\d+) MB"
    found = re.search(line, path.read_text())
    assert found is not None
    assert int(found[1]) > MEGABYTES * 0.9
