"""Worker processes that do not run the user's own program again.

A spawned process imports the program's main module first. Ours need none of it: their functions have modules of their
own. A script or a notebook that calls `spinewise.run` without `if __name__ == "__main__"` would otherwise start a
release in each worker. Nor do they import from the current folder, which may be somebody else's: Python would look
there first for everything that a process begins with.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Final

from pipeline.execution.interrupts import without_interrupts

_VARIABLE: Final = "PYTHONSAFEPATH"
#: By which a process knows that the variable is ours, and not for the commands that it runs.
_OURS: Final = "spinewise"


@contextmanager
def _without_current_folder() -> Iterator[None]:
    """Python processes that are started in the block do not look for modules in the current folder."""
    if os.environ.get(_VARIABLE):
        yield
        return
    os.environ[_VARIABLE] = _OURS
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE, None)


def forget_start() -> None:
    """Give the commands that this process runs, such as one that prints a key, the environment of the user."""
    if os.environ.get(_VARIABLE) == _OURS:
        del os.environ[_VARIABLE]


def ensure_tracker() -> None:
    """Start the process of `multiprocessing` that tracks its resources, if it does not run."""
    with _without_current_folder():
        resource_tracker.ensure_running()


class _Process(SpawnProcess):
    def start(self) -> None:
        main = sys.modules["__main__"]
        # Starting the tracker takes the block of Ctrl-C away, so it has to be there before.
        ensure_tracker()
        sys.modules["__main__"] = ModuleType("__main__")  # one that has no file to be imported from
        try:
            with without_interrupts(), _without_current_folder():
                super().start()
        finally:
            sys.modules["__main__"] = main


class WorkerContext(SpawnContext):
    """The context "spawn" whose processes leave the main module alone."""

    Process = _Process
