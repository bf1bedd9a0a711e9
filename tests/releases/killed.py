"""Runs a release and kills itself: `python -m releases.killed SPEC OUT EVENT NUMBER`.

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

from pipeline.execution.progress import Silent
from pipeline.execution.steps import Step
from pipeline.release.measurements import MeasurementWriter
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

    def finish(self, step: Step, *, skipped: bool = False) -> None:  # noqa: ARG002
        self.happens("finish")
        self.happens(f"finish {step.name}")


def kill_at(spec: Path, out: Path, event: str, number: int, period: str = "") -> bool:
    """Run in a process of its own and be killed; False if the run ended before."""
    ended = module_in_a_fork("releases.killed", spec, out, event, number, period, timeout=120)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.returncode != 0


def main() -> None:
    spec, out, event, number, period = sys.argv[1:]
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
    if period:
        run_period(Path(spec), Path(out), period, progress=killer)
    else:
        run(Path(spec), Path(out), progress=killer)


if __name__ == "__main__":
    main()
