"""The log of a run, restricted/run.log: when each step began and ended, and the memory that it took."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO

from flows.memory import peak_memory
from flows.steps import Progress, Step
from pipeline.layout import RunDirectory


class RunLog:
    """Lines with a time, appended to a file that only its owner can read."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    @classmethod
    @contextmanager
    def open(cls, run: RunDirectory) -> Iterator[RunLog]:
        """The log of `run`, whose directory is held."""
        descriptor = os.open(run.log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            log = cls(file)
            log.write("run begins")
            try:
                yield log
            except BaseException as error:
                log.write(f"run stops: {type(error).__name__}")
                raise
            log.write("run ends")

    def write(self, text: str) -> None:
        self._file.write(f"{datetime.now(UTC).isoformat(timespec='milliseconds')} {text}\n")
        self._file.flush()


class Logged:
    """A progress that is also written to the log."""

    def __init__(self, progress: Progress, log: RunLog) -> None:
        self._progress = progress
        self._log = log
        self._began = 0.0

    def begin(self, steps: tuple[Step, ...]) -> None:
        self._progress.begin(steps)

    def start(self, step: Step) -> None:
        self._began = time.monotonic()
        self._progress.start(step)

    def advance(self, geounits: int) -> None:
        self._progress.advance(geounits)

    def finish(self, step: Step, *, skipped: bool = False) -> None:
        took = "done before" if skipped else f"{time.monotonic() - self._began:.2f} s"
        self._log.write(f"{step.name}: {took}, peak memory {peak_memory() / 1e6:.0f} MB")
        self._progress.finish(step, skipped=skipped)

    def close(self) -> None:
        self._progress.close()
