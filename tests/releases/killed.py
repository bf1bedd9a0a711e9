"""Runs a release, or makes a version of one, and kills itself: `python -m releases.killed ...`, see `main`.

EVENT is "start" or "finish" of a step, "finish NAME" of one with a name, "advance" within one, or "sync", a write to
the disk, which comes before each file is moved into place and after it, or "measured", when a batch of a measurement is
written and its file is not whole; NUMBER says at which of these the process ends, without any cleaning up.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.execution.steps import Silent, Step
from pipeline.release.measurements import MeasurementWriter
from pipeline.runs.updates import update_release
from releases.command import module_in_a_fork
from releases.small import run, run_period

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


class Killer(Silent):
    """Kills the process at an event."""

    def __init__(self, event: str, number: int) -> None:
        self.event = event
        self.left = number

    def happens(self, event: str) -> None:
        if event == self.event:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def start(self, step: Step) -> None:  # noqa: ARG002
        self.happens("start")

    def advance(self, geounits: int) -> None:  # noqa: ARG002
        self.happens("advance")

    def finish(self, step: Step, seconds: float | None) -> None:  # noqa: ARG002
        self.happens("finish")
        self.happens(f"finish {step.name}")


def kill_at(spec: Path, out: Path, event: str, number: int, period: str = "") -> bool:
    """Run in a process of its own and be killed; False if the run ended before."""
    return _killed(event, number, "run", spec, out, period)


def kill_update(release: Path, given: Path, out: Path, event: str, number: int) -> bool:
    """Likewise of a version of a release with an answer, or with a TOML file of corrected texts."""
    return _killed(event, number, "update", release, out, given)


def _killed(event: str, number: int, *words: object) -> bool:
    ended = module_in_a_fork("releases.killed", event, number, *words, timeout=120)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.returncode != 0


def main() -> None:
    """EVENT NUMBER "run" SPEC OUT PERIOD, or EVENT NUMBER "update" RELEASE OUT GIVEN."""
    event, number, what, first, out, last = sys.argv[1:]
    killer = Killer(event, int(number))
    sync = os.fsync

    def counted_sync(fd: FileDescriptorLike) -> None:
        killer.happens("sync")
        sync(fd)

    os.fsync = counted_sync
    write = MeasurementWriter.write

    def counted_write(writer: MeasurementWriter, *batch: Any) -> None:
        write(writer, *batch)
        killer.happens("measured")

    MeasurementWriter.write = counted_write  # type: ignore[assignment, method-assign]
    if what == "update":
        texts = Path(last) if last.endswith(".toml") else None
        update_release(Path(first), [] if texts else [Path(last)], Path(out), 1, killer, texts=texts)
    elif last:
        run_period(Path(first), Path(out), last, progress=killer)
    else:
        run(Path(first), Path(out), progress=killer)


if __name__ == "__main__":
    main()
