"""`python -m matrix.altered WAY ARGUMENTS`: the command `spinewise`, run in a way that must not show in any number."""

from __future__ import annotations

import os
import runpy
import signal
import sys
from collections.abc import Callable
from itertools import count
from typing import Final

from oracles.how_many import OF_A_VERSION

import postprocess.downward.batch
from matrix.case import ATTEMPT
from pipeline.cost import memory
from pipeline.execution.job import Checkpoints
from pipeline.execution.steps import Notes, Step


def _cut() -> None:
    """The spine is cut into parts, however few cells it has."""
    for name in ("MOST_CELLS", "PART_CELLS"):
        setattr(memory, name, 1)


def _small_batches() -> None:
    """Each level is so many tasks that workers share it; a small release is one task else."""
    postprocess.downward.batch.BATCH_CELLS = 60


def _killed() -> None:
    """The process ends, without any cleaning up, after a few steps that it does: in turns before the note of the last.

    Started again and again, it is killed all along the run; of a version, after each single step.
    """
    sound, early = Checkpoints.record, int(os.environ[ATTEMPT]) % 2 == 1
    left = count(1 if OF_A_VERSION else 4, -1)

    def record(self: Checkpoints, step: Step, notes: Notes) -> None:
        last = bool(step.files) and next(left) == 1
        if not (last and early):
            sound(self, step, notes)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)

    Checkpoints.record = record  # type: ignore[method-assign]


WAYS: Final[dict[str, Callable[[], None]]] = {"cut": _cut, "small batches": _small_batches, "killed": _killed}

if __name__ == "__main__":
    WAYS[sys.argv.pop(1)]()
    runpy.run_module("flows.cli", run_name="__main__")
