"""The log of a run, restricted/run.log: when each step began and ended, and the memory that it took."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from pipeline.execution.memory import peak_memory, peak_of_children
from pipeline.execution.progress import Progress
from pipeline.execution.steps import Step
from pipeline.release.layout import RunDirectory


class RunLog(Progress):
    """Lines with a time, appended to a file that only its owner can read.

    A line that cannot be written is left out: a full disk is reported by what the run needs to write.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._began = 0.0

    @classmethod
    @contextmanager
    def open(cls, run: RunDirectory) -> Iterator[RunLog]:
        """The log of `run`, whose directory is held."""
        descriptor = os.open(run.log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        log = cls(descriptor)
        try:
            log.write("run begins")
            yield log
            log.write("run ends")
        except BaseException as error:
            log.write(f"run stops: {type(error).__name__}")
            raise
        finally:
            os.close(descriptor)

    def write(self, text: str) -> None:
        """Append a line, with the time."""
        line = f"{datetime.now(UTC).isoformat(timespec='milliseconds')} {text}\n"
        with suppress(OSError):
            os.write(self._descriptor, line.encode())

    def start(self, step: Step) -> None:  # noqa: ARG002 - steps follow each other
        """A step begins."""
        self._began = time.monotonic()

    def finish(self, step: Step, *, skipped: bool = False) -> None:
        """The step has ended; `skipped` if an earlier run had done it."""
        took = "done before" if skipped else f"{time.monotonic() - self._began:.2f} s"
        children = peak_of_children()
        others = f", of the largest other process that has ended {children / 1e6:.0f} MB" if children else ""
        self.write(f"{step.name}: {took}, peak memory {peak_memory() / 1e6:.0f} MB{others}")
